package extractor_test

import (
	"strings"
	"testing"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	auth := func(s string) string { return `"authentication": {"type": "login", ` + s + `}` }
	const jobs = `"#token": "t0ken", "user": "me", "#pass": "s3cret", "jobs": [{"endpoint": "u"}]`
	const jsonType, formType = " application/json ", " application/x-www-form-urlencoded "
	twoJobs := strings.Replace(jobs, `{"endpoint": "u"}`, `{"endpoint": "u"}, {"endpoint": "v"}`, 1)
	for _, s := range []story{
		{
			name: "GET, once for all requests", headers: []string{"X-Token"},
			api:    auth(`"loginRequest": {"endpoint": "login", "params": {"k": {"attr": "#token"}, "n": [1, {"attr": "user"}]}}, "apiRequest": {"headers": {"X-Token": {"response": "auth.0.token"}}}`),
			config: twoJobs, answers: []string{`{"auth": [{"token": "abc"}]}`, `[]`, `[]`},
			requests: []string{"GET /login?k=t0ken&n%5B0%5D=1&n%5B1%5D=me", "GET /u X-Token=abc", "GET /v X-Token=abc"},
		},
		{
			name: "POST", headers: []string{"X-Sum"},
			api: auth(`"loginRequest": {"endpoint": "http://auth/in", "method": "POST", "params": {"o": {"p": {"attr": "#pass"}}}, "headers": {"X-Sum": {"function": "sha1", "args": [{"function": "concat", "args": [{"attr": "user"}, ":", {"attr": "#pass"}]}]}}},
				"apiRequest": {"headers": {"X-Sum": {"function": "md5", "args": [{"function": "concat", "args": [{"attr": "user"}, {"response": "id"}]}]}}}`),
			config: jobs, answers: []string{`{"id": 7}`, `[]`},
			requests: []string{`POST http://auth/in X-Sum=9b2c159c5db27d5bdf5120dbf1e4144ab75b86f3` + jsonType + `{"o":{"p":"s3cret"}}`, "GET /u X-Sum=1f6e6e6daef2229b7081c11723651a27"},
		},
		{
			name: "FORM, text", headers: []string{"Authorization"},
			api:    auth(`"format": "text", "loginRequest": {"endpoint": "in", "method": "FORM", "params": {"u": {"attr": "user"}}}, "apiRequest": {"headers": {"Authorization": {"function": "concat", "args": ["Bearer ", {"response": "data"}]}}}`),
			config: jobs, answers: []string{"tok/en \n", `[]`}, requests: []string{`POST /in` + formType + `u=me`, "GET /u Authorization=Bearer tok/en"},
		},
		{
			name: "a JSON value", headers: []string{"T"}, api: auth(`"loginRequest": {"endpoint": "in"}, "apiRequest": {"headers": {"T": {"response": "data"}}}`),
			config: jobs, answers: []string{`"x y"`, `[]`}, requests: []string{"GET /in", "GET /u T=x y"},
		},
		{
			name: "old notation", headers: []string{"T", "U"}, api: auth(`"loginRequest": {"endpoint": "in"}, "apiRequest": {"headers": {"T": "auth.token", "U": "no.such"}, "query": {"q": "auth.token"}}`),
			config: jobs, answers: []string{`{"auth": {"token": "x"}}`, `[]`}, requests: []string{"GET /in", "GET /u?q=x T=x U=no.such"},
		},
		{
			name: "defaults do not belong to the login, headers of the client do", headers: []string{"A", "B", "C", "D"},
			api: `"http": {"headers": {"A": "client", "C": "client"}, "defaultOptions": {"params": {"d": 1}, "headers": {"B": "default"}}}, ` +
				auth(`"loginRequest": {"endpoint": "in", "headers": {"a": "own"}}, "apiRequest": {"headers": {"b": {"response": "t"}, "D": {"attr": "user"}}}`),
			config: jobs, answers: []string{`{"t": "login"}`, `[]`}, requests: []string{"GET /in A=own C=client", "GET /u?d=1 A=client B=login C=client D=me"},
		},
		{
			name: "name[0] and name[1]", api: auth(`"loginRequest": {"endpoint": "in"}, "apiRequest": {"query": {"x": {"response": "x"}, "c": 8, "a": 9, "n": null, "t": true}}`),
			config: strings.Replace(jobs, `"endpoint": "u"`, `"endpoint": "u?a=1&b=2", "params": {"c": 3}`, 1), answers: []string{`{"x": 7}`, `[]`},
			requests: []string{"GET /in", "GET /u?b=2&x=7&t=1&c%5B0%5D=3&c%5B1%5D=8&a%5B0%5D=1&a%5B1%5D=9"},
		},
		{
			name: "equal values are sent twice too", api: auth(`"loginRequest": {"endpoint": "in"}, "apiRequest": {"query": {"a": 1}}`),
			config: strings.Replace(jobs, `"endpoint": "u"`, `"endpoint": "u", "params": {"a": 1}`, 1), answers: []string{`{}`, `[]`},
			requests: []string{"GET /in", "GET /u?a%5B0%5D=1&a%5B1%5D=1"},
		},
		{
			name: "defaults and pages are signed too", api: `"http": {"trustedOrigins": ["http://o"], "defaultOptions": {"params": {"a": 1}}}, "pagination": {"method": "response.url"}, ` + auth(`"loginRequest": {"endpoint": "in"}, "apiRequest": {"query": {"a": 2}}`),
			config: jobs, answers: []string{`{}`, `{"d": [1], "next_page": "http://o/p?z=~ 1&e"}`, `[]`},
			requests: []string{"GET /in", "GET /u?a%5B0%5D=1&a%5B1%5D=2", "GET http://o/p?z=~%201&e=&a%5B0%5D=1&a%5B1%5D=2"},
		},
		{
			name: "the query of a POST job", api: auth(`"loginRequest": {"endpoint": "in"}, "apiRequest": {"query": {"a": 2}}`),
			config: strings.Replace(jobs, `"endpoint": "u"`, `"endpoint": "u", "method": "POST", "params": {"a": 1}`, 1), answers: []string{`{}`, `[]`},
			requests: []string{"GET /in", `POST /u?a=2` + jsonType + `{"a":1}`},
		},
		{
			name: "expires 0: before every request, and every attempt", headers: []string{"T"},
			api:    `"retryConfig": {"http": {"retryHeader": "Wait", "codes": [503]}}, ` + auth(`"expires": 0, "loginRequest": {"endpoint": "in"}, "apiRequest": {"headers": {"T": {"response": "t"}}}`),
			config: twoJobs, answers: []string{`{"t": 1}`, "302 Location: /x\n", `{"t": 2}`, "503 Wait: 0.001\n", `{"t": 3}`, `[]`, `{"t": 4}`, `[]`},
			requests: []string{"GET /in", "GET /u T=1", "GET /in", "GET /x T=2", "GET /in", "GET /u T=3", "GET /in", "GET /v T=4"},
		},
		{
			name: "expires negative is like 0", api: auth(`"expires": "-1", "loginRequest": {"endpoint": "in"}`), config: twoJobs,
			answers: []string{`{}`, `[]`, `{}`, `[]`}, requests: []string{"GET /in", "GET /u", "GET /in", "GET /v"},
		},
		{
			name: "401 causes no login", api: auth(`"loginRequest": {"endpoint": "in"}`), config: jobs, answers: []string{`{}`, `401 who?`},
			requests: []string{"GET /in", "GET /u"}, err: "GET http://h/u returned 401: who?",
		},

		// Failures.
		{
			name: "the login is refused", api: `"http": {"ignoreErrors": [403]}, ` + auth(`"loginRequest": {"endpoint": "in", "params": {"p": {"attr": "#pass"}}}`), config: jobs,
			answers:  []string{`403 no access for s3cret`},
			requests: []string{"GET /in?p=s3cret"}, err: "login failed: GET http://h/in?p=*** returned 403: no access for ***",
		},
		{
			name: "the login fails after its retries", api: `"retryConfig": {"maxRetries": 1, "http": {"retryHeader": "Wait"}}, ` + auth(`"loginRequest": {"endpoint": "in"}`), config: jobs,
			answers: []string{"500 Wait: 0.001\n", `500 oops`}, requests: []string{"GET /in", "GET /in"}, err: "login failed: GET http://h/in returned 500 (attempt 2): oops",
		},
		{name: "not JSON", api: auth(`"loginRequest": {"endpoint": "in"}`), config: jobs, answers: []string{`token=hidden`}, requests: []string{"GET /in"}, err: "login failed: GET http://h/in returned 200: the response is not JSON: line 1, column 1"},
		{name: "a list", api: auth(`"loginRequest": {"endpoint": "in"}`), config: jobs, answers: []string{`[1]`}, requests: []string{"GET /in"}, err: "the response is a list"},
		{name: "null", api: auth(`"loginRequest": {"endpoint": "in"}`), config: jobs, answers: []string{`null`}, requests: []string{"GET /in"}, err: "the response is null"},
		{name: "empty", api: auth(`"loginRequest": {"endpoint": "in"}`), config: jobs, answers: []string{``}, requests: []string{"GET /in"}, err: "the response is not JSON"},
		{
			name: "no such value", api: auth(`"loginRequest": {"endpoint": "in"}, "apiRequest": {"headers": {"T": {"response": "a"}}}`), config: jobs, answers: []string{`{"a": {"b": 1}}`}, requests: []string{"GET /in"},
			err: `parameters.api.authentication.apiRequest.headers.T: no value "a" in response: not found`,
		},
		{
			name: "null value", api: auth(`"loginRequest": {"endpoint": "in"}, "apiRequest": {"query": {"T": {"response": "a"}}}`), config: jobs, answers: []string{`{"a": null}`}, requests: []string{"GET /in"},
			err: `no value "a" in response`,
		},
	} {
		s.run(t)
	}
}
