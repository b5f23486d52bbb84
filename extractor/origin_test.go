package extractor_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestCredentialsStay sends requests to origins that responses name, in redirects, in links, and through placeholders.
func TestCredentialsStay(t *testing.T) {
	t.Parallel()
	const (
		login = `"authentication": {"type": "login", "loginRequest": {"endpoint": "l"}, "apiRequest": {"headers": {"T": {"response": "t"}}, "query": {"k": {"response": "t"}}}}`
		links = `"pagination": {"method": "response.url"}, "http": {"headers": {"A": "key", "Accept": "text/plain"}, "defaultOptions": {"headers": {"B": "b"}, "params": {"api_key": "dk"}}}`
		child = `"#s": "s3cret", "jobs": [{"endpoint": "u", "children": [{"endpoint": "{f}", "placeholders": {"f": "f"}, "headers": {"C": "c", "User-Agent": "s3cret/1"}, "params": {"a": 1, "s": {"attr": "#s"}, "n": {"x": [{"attr": "#s"}]}}}]}]`
		job   = `"jobs": [{"endpoint": "u"}]`
	)
	all := []string{"A", "B", "C", "T", "Accept", "Authorization", "Cookie"}
	trust := func(origins string) string {
		return `"http": {"trustedOrigins": [` + origins + `], "headers": {"A": "key"}}`
	}
	next := func(link string) []string { return []string{`{"d": [1], "next_page": "` + link + `"}`, `[]`} }
	for _, s := range []story{
		{
			name: "login and redirect", api: login + `, "http": {"headers": {"A": "key", "Accept": "text/plain", "Authorization": "x", "cookie": "y"}}`, config: job,
			answers:  []string{`{"t": "x"}`, "302 Location: b\n", "302 Location: //o/p?q=1\n", `[]`},
			requests: []string{"GET /l A=key Accept=text/plain Authorization=x Cookie=y", "GET /u?k=x A=key T=x Accept=text/plain Authorization=x Cookie=y", "GET /b?k=x A=key T=x Accept=text/plain Authorization=x Cookie=y", "GET http://o/p?q=1 Accept=text/plain"},
			log:      "level=WARN msg=\"requests to another origin are sent without credentials; http.trustedOrigins can list it\" origin=http://o",
		},
		{
			name: "not again after a foreign origin", api: login, config: job, answers: []string{`{"t": "x"}`, "302 Location: http://o/\n", "302 Location: http://h/secret\n", `[]`},
			requests: []string{"GET /l", "GET /u?k=x T=x", "GET http://o/", "GET /secret"},
		},
		{
			name: "another port", api: login, config: job, answers: []string{`{"t": "x"}`, "302 Location: http://h:8080/p\n", `[]`},
			requests: []string{"GET /l", "GET /u?k=x T=x", "GET http://h:8080/p"},
		},
		{
			name: "the default port is the same origin", api: login, config: job, answers: []string{`{"t": "x"}`, "302 Location: http://H:80/p\n", `[]`},
			requests: []string{"GET /l", "GET /u?k=x T=x", "GET http://H:80/p?k=x T=x"},
		},
		{name: "link", api: links, config: job, answers: next("http://o/p?c=2"), requests: []string{"GET /u?api_key=dk A=key B=b Accept=text/plain", "GET http://o/p?c=2 Accept=text/plain"}},
		{name: "link to the API", api: links, config: job, answers: next("/p?c=2"), requests: []string{"GET /u?api_key=dk A=key B=b Accept=text/plain", "GET /p?c=2&api_key=dk A=key B=b Accept=text/plain"}},
		{
			name: "child", config: child, api: trust(""), answers: []string{`[{"f": "http://o/x"}, {"f": "//o/y"}, {"f": "v"}]`, `[]`, `[]`, `[]`},
			requests: []string{"GET /u A=key", "GET http://o/x?a=1", "GET http://o/y?a=1", "GET /v?a=1&s=s3cret&n%5Bx%5D%5B0%5D=s3cret A=key C=c"},
		},
		{
			name: "child whose host is behind a placeholder", api: trust(""), config: `"jobs": [{"endpoint": "u", "children": [{"endpoint": "http://h{f}", "placeholders": {"f": "f"}}]}]`,
			answers: []string{`[{"f": "@o/x"}]`, `[]`}, requests: []string{"GET /u A=key", "GET http://o/x Authorization=Basic aDo="},
		},
		{
			name: "origins of the configuration", api: trust(""), config: `"jobs": [{"endpoint": "http://two/{x}"}, {"endpoint": "u", "children": [{"endpoint": "//three/{f}", "placeholders": {"f": "f"}}]}]`,
			answers:  []string{"302 Location: http://h/p\n", `[]`, `[{"f": 1}]`, "302 Location: http://two/\n", `[]`},
			requests: []string{"GET http://two/%7Bx%7D A=key", "GET /p A=key", "GET /u A=key", "GET http://three/1 A=key", "GET http://two/"},
		},
		{
			name: "origin of a scrollRequest", api: trust("") + `, "pagination": {"method": "response.param", "responseParam": "n", "queryParam": "n", "scrollRequest": {"endpoint": "http://two/s"}}`, config: job,
			answers: []string{`{"d": [1], "n": 1}`, `{"d": []}`}, requests: []string{"GET /u A=key", "GET http://two/s?n=1 A=key"},
		},
		{name: "trusted origin", api: trust(`"http://o"`), config: job, answers: []string{"302 Location: //o/p\n", `[]`}, requests: []string{"GET /u A=key", "GET http://o/p A=key"}},
		{
			name: "trusted names", api: trust(`"http://*.o:81/"`), config: job, answers: []string{"302 Location: //x.o:81/p\n", "302 Location: //o:81/q\n", `[]`},
			requests: []string{"GET /u A=key", "GET http://x.o:81/p A=key", "GET http://o:81/q"},
		},
		{
			name: "body of a redirect", api: trust(""), config: `"jobs": [{"endpoint": "u", "method": "POST", "params": {"a": 1}}]`, answers: []string{"307 Location: http://o/p\n", `[]`},
			requests: []string{`POST /u A=key application/json {"a":1}`}, err: "the response redirects the body of the request to http://o, which http.trustedOrigins does not list",
		},
		{
			name: "body of a redirect to a trusted origin", api: trust(`"http://o"`), config: `"jobs": [{"endpoint": "u", "method": "POST", "params": {"a": 1}}]`, answers: []string{"308 Location: http://o/p\n", `[]`},
			requests: []string{`POST /u A=key application/json {"a":1}`, `POST http://o/p A=key application/json {"a":1}`},
		},
		{
			name: "body of a login", api: `"authentication": {"type": "login", "loginRequest": {"endpoint": "l", "method": "FORM", "params": {"p": "pw"}}}`, config: job, answers: []string{"308 Location: http://o/p\n", `[]`},
			requests: []string{"POST /l application/x-www-form-urlencoded p=pw"}, err: "redirects the body of the request to http://o",
		},
		{
			name: "POST of a link", api: links, config: `"#s": "s3cret", "jobs": [{"endpoint": "u", "method": "POST", "params": {"s": {"attr": "#s"}}}]`, answers: next("http://o/p"),
			requests: []string{`POST /u A=key B=b Accept=text/plain application/json {"api_key":"dk","s":"s3cret"}`, "POST http://o/p Accept=text/plain application/json []"},
		},
	} {
		s.headers = all
		s.run(t)
	}
}

func TestTrustedOrigins(t *testing.T) {
	t.Parallel()
	_, err := extractor.Parse([]byte(config(`"http": {"trustedOrigins": ["https://a", "o", "ftp://a", "https://a/b", "https://u@a", "https://*", "https://a.*.b", 5, "https://a?x"]}`, `"jobs": [{"endpoint": "u"}]`)))
	checkError(t, err, `http.trustedOrigins[1]: must be an origin such as "https://files.example.com"`)
	if n := strings.Count(err.Error(), "must be an origin"); n != 8 {
		t.Errorf("got %d problems, want 8: %v", n, err)
	}
}
