package extractor_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestEndsThatMissRecords ends jobs on a page that says that there is more. A run warns, a strict run fails. It says nothing if the page agrees.
func TestEndsThatMissRecords(t *testing.T) {
	t.Parallel()
	const job = `"jobs": [{"endpoint": "u", "dataField": "d"}]`
	for _, test := range []struct {
		name, pagination, config string
		answers                  []string
		want                     string // "" for silence
	}{
		{"a cap of the server below the limit", `"method": "offset", "limit": 200`, job, []string{`{"d": [1, 2], "total": 250, "maxResults": 2}`}, `a page has fewer items than the limit of 200, but "total" is 250 and 2 items were read`},
		{"all items on one page", `"method": "offset", "limit": 200`, job, []string{`{"d": [1, 2], "total": 2, "maxResults": 2}`}, ""},
		{"a total that has no page next to it", `"method": "offset", "limit": 200`, job, []string{`{"d": [1, 2], "total": 250}`}, ""},
		{"the total of limitStop", `"method": "offset", "limit": 2, "limitStop": {"field": "n"}`, job, []string{`{"d": [1, 2], "n": 4}`, `{"d": [3], "n": 4}`}, `a page has fewer items than the limit of 2, but "n" is 4 and 3 items were read`},
		{"the field of limitStop is missing", `"method": "pagenum", "limitStop": {"field": "totl"}`, job, []string{`{"d": [1, 2], "total": 4}`}, `limitStop: the response has no value at "totl"`},
		{"limitStop ends with the total", `"method": "pagenum", "limitStop": {"field": "total"}`, job, []string{`{"d": [1, 2], "total": 2, "has_more": true}`}, ""},
		{"a misspelt urlKey", `"method": "response.url", "urlKey": "links.nxt"`, job, []string{`{"d": [1], "links": {"next": "/u?page=2"}}`}, `there is no link at "links.nxt" in the response, but "links.next" has a value`},
		{"a link that is null", `"method": "response.url", "urlKey": "links.next"`, job, []string{`{"d": [1], "links": {"next": null}, "total_count": 5}`}, ""},
		{"a misspelt cursor", `"method": "response.param", "responseParam": "cursor", "queryParam": "c"`, job, []string{`{"d": [1], "paging": {"next": {"after": "x"}}}`}, `there is no value at "cursor" in the response, but "paging.next" has a value`},
		{"a wrong header", `"method": "response.header", "header": "X-Nxt", "queryParam": "c"`, job, []string{"Link: </u?p=2>; rel=\"next\"\n" + `{"d": [1]}`}, `there is no header "X-Nxt", but the header Link has a next page`},
		{"a wrong relation", `"method": "response.link", "rel": "nxt"`, job, []string{`{"d": [1], "hasNextPage": true}`}, `there is no link "nxt" in the header Link, but "hasNextPage" is true`},
		{"a nested flag", `"method": "pagenum", "nextPageFlag": {"field": "meta.more", "stopOn": false}`, job, []string{`{"d": [1], "meta": {"more": 1}}`}, `the response has no "meta.more", which counts as false, but "meta.more", which nextPageFlag reads as a path only with a delimiter, is 1`},
		{"a flag that ends the job", `"method": "pagenum", "nextPageFlag": {"field": "more", "stopOn": false}`, job, []string{`{"d": [1], "more": false, "next": "/u"}`}, ""},
		{"a flag against the rule", `"method": "offset", "limit": 5, "nextPageFlag": {"field": "last", "stopOn": true}`, job, []string{`{"d": [1], "last": false}`}, `fewer items than the limit of 5, but "last" is false`},
		{"a page number that the API ignores", `"method": "pagenum"`, job, []string{`{"d": [1], "total_count": 3}`, `{"d": [1], "total_count": 3}`}, `a page equals the previous one, but "total_count" is 3 and 1 items were read`},
		{"an API that repeats its only page", `"method": "pagenum"`, job, []string{`{"d": [1], "total_count": 1}`, `{"d": [1], "total_count": 1}`}, ""},
		{"an item that is not done", `"method": "response.url"`, `"jobs": [{"endpoint": "u", "dataField": "."}]`, []string{`{"done": false, "next": 5}`}, ""},
		{"forceStop", `"method": "pagenum", "forceStop": {"pages": 1}`, job, []string{`{"d": [1], "has_more": true}`}, ""},
		{"no data", `"method": "pagenum"`, job, []string{`{"data": [1]}`}, `no data at "d" in the response`},
		{"no data on the last page", `"method": "pagenum"`, job, []string{`{"d": [1]}`, `{"n": 0}`}, ""},
		{"a sign on a later page", `"method": "offset", "limit": 2`, job, []string{`{"d": [1, 2]}`, `{"d": [3], "has_more": true}`}, ""},
		{"no body", `"method": "pagenum"`, job, []string{`204 `}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(`"pagination": {`+test.pagination+`}`, test.config)
			r := extract(t, newAPI(t, test.answers...), cfg, nil)
			checkError(t, r.err, "")
			text := strings.ReplaceAll(r.log, `\"`, `"`)
			if test.want == "" && strings.Contains(text, "msg=\"the job ended") || test.want != "" && (!strings.Contains(text, test.want) || strings.Count(text, "level=WARN") != 1) {
				t.Errorf("the log is\n%s\nwant one warning: %q", text, test.want)
			}
			strict := extract(t, newAPI(t, test.answers...), cfg, func(_ *extractor.State, o *extractor.Options) { o.Strict = true })
			checkError(t, strict.err, test.want)
			if test.want != "" && extractor.ExitStatus(strict.err) != 1 {
				t.Errorf("exit status %d of %v, want 1", extractor.ExitStatus(strict.err), strict.err)
			}
		})
	}
}

// TestPreviewSaysHowJobsEnd asks for one page of each job.
func TestPreviewSaysHowJobsEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, pagination, answer, end string
		ended                         bool
		doubt                         string
	}{
		{"more pages", `"pagination": {"method": "response.url"}`, `{"d": [1], "next_page": "?p=2"}`, `there is no link at "next_page" in the response`, false, ""},
		{"the last page", `"pagination": {"method": "response.url"}`, `{"d": [1], "next_page": null}`, `there is no link at "next_page" in the response`, true, ""},
		{"by a condition", `"pagination": {"method": "pagenum", "limitStop": {"count": 1}}`, `{"d": [1]}`, "limitStop: 1 items of 1 were read", true, ""},
		{"without a pagination", ``, `{"d": [1]}`, "there is no pagination", true, ""},
		{"a link without a pagination", ``, `{"d": [1], "next": "?p=2"}`, "there is no pagination", true, `there is no pagination, but "next" has a value`},
		{"by a rule", `"http": {"answerRules": [{"path": "gone", "action": "end"}]}`, `{"gone": 1}`, "a response matched http.answerRules", true, ""},
		{"no data", `"pagination": {"method": "pagenum"}`, `{"e": [1]}`, "a page is empty", true, `no data at "d" in the response`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, test.answer)
			cfg, err := extractor.Parse([]byte(config(test.pagination, `"jobs": [{"endpoint": "u", "dataField": "d"}]`)))
			checkError(t, err, "")
			transport := a.transport()
			defer transport.CloseIdleConnections()
			samples, err := extractor.Preview(t.Context(), cfg, extractor.State{}, 1, extractor.Options{Transport: transport})
			checkError(t, err, "")
			if len(samples) != 1 || samples[0].Err != nil || samples[0].End != test.end || samples[0].Ended != test.ended || strings.Join(samples[0].Doubts, "; ") != test.doubt {
				t.Errorf("samples %+v, want the end %q (%v) and the doubt %q", samples, test.end, test.ended, test.doubt)
			}
			same(t, "requests", a.asked(), []string{"GET /u" + map[bool]string{true: "?page=1"}[strings.Contains(test.pagination, "pagenum")]})
		})
	}
}

// TestPreviewKeepsTokens refuses to use a refresh token that may be replaced if the new one cannot be saved.
func TestPreviewKeepsTokens(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `{"access_token": "at-1", "refresh_token": "rt-1"}`, `[1]`)
	cfg, err := extractor.Parse([]byte(config(`"authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "c", "refreshToken": "rt-0"}`, `"jobs": [{"endpoint": "u"}]`)))
	checkError(t, err, "")
	transport := a.transport()
	defer transport.CloseIdleConnections()
	_, err = extractor.Preview(t.Context(), cfg, extractor.State{}, 1, extractor.Options{Transport: transport})
	checkError(t, err, "refresh token, which the server may replace")
	same(t, "requests", a.asked(), []string{})
}
