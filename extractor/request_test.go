package extractor_test

import (
	"testing"
)

// A story is a configuration, the API's responses, and the requests that it must receive.
type story struct {
	name        string
	api, config string
	answers     []string
	requests    []string
	headers     []string // names of headers that are part of the requests
	records     []string // nil means not looked at
	err         string
	log         string
}

func (s story) run(t *testing.T) {
	t.Helper()
	t.Run(s.name, func(t *testing.T) {
		t.Parallel()
		a := newAPI(t, s.answers...)
		a.headers = s.headers
		r := extract(t, a, config(s.api, s.config), nil)
		same(t, "requests", a.asked(), s.requests)
		if s.records != nil {
			same(t, "records", r.records, s.records)
		}
		checkError(t, r.err, s.err)
		checkLog(t, r.log, s.log)
	})
}

func TestURL(t *testing.T) {
	t.Parallel()
	for _, test := range [][3]string{
		{"http://h/3/", "c", "/3/c"},
		{"http://h/3/", "c/", "/3/c/"},
		{"http://h/3/", "/1/c", "/1/c"},
		{"http://h/3/", "http://o/x", "http://o/x"},
		{"http://h/3/", "//o/x", "http://o/x"},
		{"http://h/3", "c", "/c"},
		{"http://h", "c", "/c"},
		{"http://h/3/?k=1", "c", "/3/c"},
		{"http://h/3/", "../x/./y", "/x/y"},
		{"http://h/3/", "?p=2", "/3/?p=2"},
		{"http://h/", "a b/ü?q=a b&r[]=%41", "/a%20b/%C3%BC?q=a%20b&r%5B%5D=%41"},
		{"http://h/", "a%2Fb/100%", "/a%2Fb/100%25"},
	} {
		a := newAPI(t, `[]`)
		r := extract(t, a, config(`"baseUrl": "`+test[0]+`"`, `"jobs": [{"endpoint": "`+test[1]+`"}]`), nil)
		checkError(t, r.err, "")
		same(t, test[0]+" + "+test[1], a.asked(), []string{"GET " + test[2]})
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	job := func(s string) string { return `"jobs": [{"endpoint": "u", ` + s + `}]` }
	const jsonType, formType = " application/json ", " application/x-www-form-urlencoded"
	for _, s := range []story{
		{
			name: "kinds of values", config: job(`"params": {"s": "x y~-_.[", "i": 5, "t": true, "f": false, "n": null, "e": "", "l": [1, "a", [2]], "o": {"a": {"b": 1}}, "el": [], "eo": {}, "r": 0.10, "g": 1e20}`),
			requests: []string{"GET /u?s=x+y%7E-_.%5B&i=5&t=1&f=0&e=&l%5B0%5D=1&l%5B1%5D=a&l%5B2%5D%5B0%5D=2&o%5Ba%5D%5Bb%5D=1&r=0.1&g=1.0E%2B20"},
		},
		{name: "names that are dropped", config: job(`"params": {"": 1, "0": 2, "a": 3}`), requests: []string{"GET /u?a=3"}},
		{
			name: "POST", config: job(`"method": "post", "params": {"a": {"b": [1, {}]}, "n": null, "u": "ü/"}`),
			requests: []string{`POST /u` + jsonType + `{"a":{"b":[1,[]]},"n":null,"u":"\u00fc\/"}`},
		},
		{name: "POST without parameters", config: job(`"method": "POST"`), requests: []string{`POST /u` + jsonType + `[]`}},
		{
			name: "FORM", config: job(`"method": "Form", "params": {"a": {"b": [1, {}]}, "n": null, "t": true, "": 1, "s": "x y"}`),
			requests: []string{`POST /u` + formType + ` a%5Bb%5D%5B0%5D=1&t=1&=1&s=x+y`},
		},
		{name: "FORM without parameters", config: job(`"method": "FORM"`), requests: []string{`POST /u` + formType}},
		{name: "query of the endpoint alone", config: `"jobs": [{"endpoint": "u?b=%20&a&c=1+2"}]`, requests: []string{"GET /u?b=%20&a&c=1+2"}},
		{
			name: "query of the endpoint and parameters", config: `"jobs": [{"endpoint": "u?b=%20&a&c=1&f%5Bx%5D=1", "params": {"d": 4, "c": 3, "b": 2}}]`,
			requests: []string{"GET /u?b=2&a=&c=3&f%5Bx%5D=1&d=4"},
		},
		{
			name: "nested name in the endpoint", config: `"jobs": [{"endpoint": "u?f%5Bx%5D=1&g=1", "params": {"f": {"x": 2, "y": 3}, "g": [4]}}]`,
			requests: []string{"GET /u?f%5Bx%5D=2&f%5By%5D=3&g%5B0%5D=4"},
		},
		{
			name: "POST keeps the query", config: `"jobs": [{"endpoint": "u?a=1", "method": "POST", "params": {"a": 2}}]`,
			requests: []string{`POST /u?a=1` + jsonType + `{"a":2}`},
		},
		{
			name: "defaults", api: `"http": {"defaultOptions": {"params": {"a": 1, "b": 2}}}`, config: job(`"params": {"c": 3, "b": 4}`),
			requests: []string{"GET /u?a=1&b=4&c=3"},
		},
		{
			name: "defaults are merged deeply", api: `"http": {"defaultOptions": {"params": {"l": [1, 2, 3], "o": {"x": 1, "y": 2}}}}`,
			config:   job(`"method": "POST", "params": {"l": [9], "o": {"y": 5}}`),
			requests: []string{`POST /u` + jsonType + `{"l":[9,2,3],"o":{"x":1,"y":5}}`},
		},
		{
			name: "defaults are not evaluated", api: `"http": {"defaultOptions": {"method": "POST", "params": {"a": {"attr": "x"}}}}`, config: `"x": 1, ` + job(`"params": {}`),
			requests: []string{`POST /u` + jsonType + `{"a":{"attr":"x"}}`},
		},
		{name: "parameters as a list", config: job(`"method": "POST", "params": [1, "b"]`), requests: []string{`POST /u` + jsonType + `[1,"b"]`}},
		{name: "method of the job over the default", api: `"http": {"defaultOptions": {"method": "POST"}}`, config: job(`"method": "GET"`), requests: []string{"GET /u"}},
	} {
		s.answers = []string{`[]`}
		s.run(t)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	const api = `"http": {
		"headers": {"A": "api", "B": "api", "C": {"attr": "c"}, "X-Low": "api"},
		"defaultOptions": {"headers": {"B": "default", "D": "default", "E": "default"}}}`
	for _, s := range []story{
		{
			name: "levels", api: api, headers: []string{"A", "B", "C", "D", "E", "F", "X-Low"},
			config:   `"c": "attribute", "http": {"headers": {"A": "config", "F": {"function": "concat", "args": ["f", 1]}}}, "jobs": [{"endpoint": "u", "headers": {"E": "job", "x-low": "job"}}]`,
			requests: []string{"GET /u A=config B=default C=attribute D=default E=job F=f1 X-Low=job"},
		},
		{
			name: "content type", headers: []string{"Content-Type"},
			config:   `"jobs": [{"endpoint": "u", "method": "POST", "headers": {"Content-Type": "text/plain"}}]`,
			requests: []string{"POST /u Content-Type=application/json application/json []"},
		},
		{
			name: "a header of several values, and no expressions", headers: []string{"V"},
			config:   `"jobs": [{"endpoint": "u", "headers": {"V": ["1", 2, true]}}]`,
			requests: []string{"GET /u V=1,2,1"},
		},
		{
			name: "user agent", headers: []string{"User-Agent"}, config: `"http": {"headers": {"user-agent": "me"}}, "jobs": [{"endpoint": "u"}]`,
			requests: []string{"GET /u User-Agent=me"},
		},
	} {
		s.answers = []string{`[]`}
		s.run(t)
	}
}
