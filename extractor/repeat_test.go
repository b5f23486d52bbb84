package extractor_test

import (
	"fmt"
	"strings"
	"testing"
)

// Pages with equal bodies are different pages if they lead to different next pages.
func TestEqualBodiesWithDifferentLinks(t *testing.T) {
	t.Parallel()
	link := func(target, body string) string { return fmt.Sprintf("Link: <%s>; rel=\"next\"\n%s", target, body) }
	next := func(value, body string) string { return "X-Next: " + value + "\n" + body }
	const header = `"pagination": {"method": "response.header", "header": "X-Next", "queryParam": "after"}`
	for _, s := range []story{
		{
			name: "link: equal rows", api: `"pagination": {"method": "response.link"}`, config: `"jobs": [{"endpoint": "u"}]`,
			answers:  []string{link("/u?p=2", `[{"i":1}]`), link("/u?p=3", `[{"i":1}]`), `[{"i":1}]`},
			requests: []string{"GET /u", "GET /u?p=2", "GET /u?p=3"}, records: []string{`u: {"i":1}`, `u: {"i":1}`, `u: {"i":1}`},
		},
		{
			name: "link: empty pages in the middle", api: `"pagination": {"method": "response.link"}`, config: `"jobs": [{"endpoint": "u"}]`,
			answers:  []string{link("/u?p=2", `[]`), link("/u?p=3", `[]`), `[{"i":5}]`},
			requests: []string{"GET /u", "GET /u?p=2", "GET /u?p=3"}, records: []string{`u: {"i":5}`},
		},
		{
			name: "header: empty pages in the middle", api: header, config: `"jobs": [{"endpoint": "u"}]`,
			answers:  []string{next("a", `[]`), next("b", `[]`), `[{"i":5}]`},
			requests: []string{"GET /u", "GET /u?after=a", "GET /u?after=b"}, records: []string{`u: {"i":5}`},
		},
		{
			name: "link: the last page leads to itself", api: `"pagination": {"method": "response.link"}`, config: `"jobs": [{"endpoint": "u"}]`,
			answers:  []string{link("/u?p=2", `[{"i":1}]`), link("/u?p=2", `[{"i":2}]`), link("/u?p=2", `[{"i":2}]`)},
			requests: []string{"GET /u", "GET /u?p=2", "GET /u?p=2"}, records: []string{`u: {"i":1}`, `u: {"i":2}`},
			log: "finished when last response matched the previous!",
		},
	} {
		s.run(t)
	}
}

// A pagination that leads back to an earlier request ends the run with an error, not never.
func TestPaginationLoop(t *testing.T) {
	t.Parallel()
	const job = `"jobs": [{"endpoint": "u", "dataField": "d"}]`
	param := `"pagination": {"method": "response.param", "responseParam": "m", "queryParam": "mark"}`
	page := func(i int, key, value string) string {
		return fmt.Sprintf(`{"d": [{"i": %d}], "time": %d, %q: %q}`, i, i, key, value)
	}
	for _, s := range []story{
		{
			name: "param: a, b, a", api: param, config: job, answers: []string{page(1, "m", "a"), page(2, "m", "b"), page(3, "m", "a")},
			requests: []string{"GET /u", "GET /u?mark=a", "GET /u?mark=b"},
			err:      `the request repeats the one for page 2 (GET http://h/u?mark=a), because the value at "m" in the response has the same value again`,
		},
		{
			name: "param: the last page repeats its cursor", api: param, config: job, answers: []string{page(1, "m", "a"), page(2, "m", "a"), page(3, "m", "a")},
			requests: []string{"GET /u", "GET /u?mark=a", "GET /u?mark=a"}, records: []string{`u: {"i":1}`, `u: {"i":2}`},
			err: `the request repeats the one for page 2`,
		},
		{
			name: "param: an empty last page repeats its cursor", api: param, config: job,
			answers:  []string{page(1, "m", "a"), `{"d": [], "time": 2, "m": "a"}`, `{"d": [], "time": 3, "m": "a"}`},
			requests: []string{"GET /u", "GET /u?mark=a", "GET /u?mark=a"}, records: []string{`u: {"i":1}`}, err: `the request repeats the one for page 2`,
		},
		{
			name: "param in a body", api: strings.Replace(param, `"queryParam"`, `"includeParams": true, "queryParam"`, 1), config: strings.Replace(job, `"u",`, `"u", "method": "POST",`, 1),
			answers:  []string{page(1, "m", "a"), page(2, "m", "b"), page(3, "m", "a")},
			requests: []string{`POST /u application/json []`, `POST /u application/json {"mark":"a"}`, `POST /u application/json {"mark":"b"}`},
			err:      `the request repeats the one for page 2 (POST http://h/u)`,
		},
		{
			name: "url: a link to itself", api: `"pagination": {"method": "response.url"}`, config: job, answers: []string{page(1, "next_page", "/u"), page(2, "next_page", "/u")},
			requests: []string{"GET /u", "GET /u"}, err: `the request repeats the one for page 1 (GET http://h/u), because the link at "next_page" in the response`,
		},
		{
			name: "url: back to the first page", api: `"pagination": {"method": "response.url"}`, config: job, answers: []string{page(1, "next_page", "/u?p=2"), page(2, "next_page", "/u")},
			requests: []string{"GET /u", "GET /u?p=2"}, err: `the request repeats the one for page 1`,
		},
		{
			name: "link: a, b, a", api: `"pagination": {"method": "response.link"}`, config: job,
			answers:  []string{"Link: </u?b>; rel=next\n" + page(1, "x", ""), "Link: </u>; rel=next\n" + page(1, "x", "")},
			requests: []string{"GET /u", "GET /u?b"}, err: `the link "next" in the header Link`,
		},
		{
			name: "header: a, b, a", api: `"pagination": {"method": "response.header", "header": "N", "queryParam": "after"}`, config: job,
			answers:  []string{"N: a\n" + page(1, "x", ""), "N: b\n" + page(1, "x", ""), "N: a\n" + page(1, "x", "")},
			requests: []string{"GET /u", "GET /u?after=a", "GET /u?after=b"}, err: `the header "N"`,
		},
		{
			name: "cursor: no greater id", api: `"pagination": {"method": "cursor", "idKey": "i", "param": "since"}`, config: job,
			answers:  []string{`{"d": [{"i": 7}]}`, `{"d": [{"i": 6}]}`, `{"d": [{"i": 5}]}`},
			requests: []string{"GET /u", "GET /u?since=7", "GET /u?since=7"}, err: `the field "i" of the items`,
		},
		{
			name: "multiple", api: `"pagination": {"method": "multiple", "default": "s", "scrollers": {"s": ` + strings.TrimPrefix(param, `"pagination": `) + `}}`, config: job,
			answers:  []string{page(1, "m", "a"), page(2, "m", "b"), page(3, "m", "a")},
			requests: []string{"GET /u", "GET /u?mark=a", "GET /u?mark=b"}, err: `the request repeats the one for page 2`,
		},
	} {
		s.run(t)
	}
}
