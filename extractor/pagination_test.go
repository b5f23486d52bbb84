package extractor_test

import (
	"testing"
)

func TestPagination(t *testing.T) {
	t.Parallel()
	job := func(s string) string { return `"jobs": [{"endpoint": "u"` + s + `}]` }
	method := func(s string) string { return `"pagination": {"method": ` + s + `}` }
	const jsonType = " application/json "
	page := func(next string) string { return `{"data": [{"i": 1}], "next_page": ` + next + `}` }
	for _, s := range []story{
		// response.url
		{
			name: "url: plain", api: method(`"response.url"`), config: job(`, "params": {"k": "v"}`), answers: []string{page(`"/u?page=2"`), `[]`},
			requests: []string{"GET /u?k=v", "GET /u?page=2"},
		},
		{
			name: "url: includeParams", api: method(`"response.url", "includeParams": true`), config: job(`, "params": {"k": "v"}`), answers: []string{page(`"/u?page=2"`), `[]`},
			requests: []string{"GET /u?k=v", "GET /u?page=2&k=v"},
		},
		{
			name: "url: a parameter overrides the same one of the link", api: method(`"response.url", "includeParams": true`), config: job(`, "params": {"k": "v", "page": 1}`),
			answers: []string{page(`"/u?page=2&z=3"`), `[]`}, requests: []string{"GET /u?k=v&page=1", "GET /u?page=1&z=3&k=v"},
		},
		{
			name: "url: paramIsQuery", api: method(`"response.url", "paramIsQuery": true`), config: job(`, "params": {"k": "v", "page": "s"}`), answers: []string{page(`"?page=2"`), `[]`},
			requests: []string{"GET /u?k=v&page=s", "GET /u?page=2"},
		},
		{
			name: "url: both", api: method(`"response.url", "paramIsQuery": true, "includeParams": true`), config: job(`, "params": {"k": "v", "page": "s"}`),
			answers: []string{page(`"?page=2&o[a]=1&o[b]=2"`), `[]`}, requests: []string{"GET /u?k=v&page=s", "GET /u?k=v&page=2&o%5Ba%5D=1&o%5Bb%5D=2"},
		},
		{
			name: "url: POST", api: method(`"response.url"`), config: job(`, "method": "POST", "params": {"k": "v"}`), answers: []string{page(`"/u?page=2"`), `[]`},
			requests: []string{`POST /u` + jsonType + `{"k":"v"}`, `POST /u?page=2` + jsonType + `[]`},
		},
		{
			name: "url: POST, paramIsQuery", api: method(`"response.url", "paramIsQuery": true, "includeParams": true`), config: job(`, "method": "POST", "params": {"k": "v"}`),
			answers: []string{page(`"page=2"`), `[]`}, requests: []string{`POST /u` + jsonType + `{"k":"v"}`, `POST /u` + jsonType + `{"k":"v","page":"2"}`},
		},
		{
			name: "url: another key", api: method(`"response.url", "urlKey": "l/n.x", "delimiter": "/"`), config: job(""),
			answers: []string{`{"d": [1], "l": {"n.x": "http://o/p"}}`, `[]`}, requests: []string{"GET /u", "GET http://o/p"},
		},
		{
			name: "url: in a list", api: method(`"response.url", "urlKey": "links.1.href"`), config: job(`, "dataField": "d"`),
			answers: []string{`{"d": [1], "links": [{}, {"href": "/p"}]}`, `{"d": [2]}`}, requests: []string{"GET /u", "GET /p"},
		},
		{name: "url: misspelled key", api: method(`"response.url", "urlKey": "nxt"`), config: job(""), answers: []string{page(`"/u?page=2"`)}, requests: []string{"GET /u"}},
		{
			name: "url: defaults on every page", api: method(`"response.url"`) + `, "http": {"defaultOptions": {"params": {"d": 1}, "headers": {"H": "x"}}}`, headers: []string{"H"},
			config: job(`, "params": {"k": "v"}`), answers: []string{page(`"/u?page=2&d=9"`), `[]`}, requests: []string{"GET /u?d=1&k=v H=x", "GET /u?page=2&d=1 H=x"},
		},
		{
			name: "url: no link but an object", api: method(`"response.url"`), config: job(`, "dataField": "data"`), answers: []string{page(`{"a": 1}`)},
			requests: []string{"GET /u"}, err: `the value at "next_page" in the response must be a link, not an object`,
		},

		// offset
		{name: "offset", api: method(`"offset", "limit": 2`), config: job(""), answers: []string{`[1,2]`, `[3]`}, requests: []string{"GET /u?limit=2&offset=0", "GET /u?limit=2&offset=2"}},
		{name: "offset: limit as text, empty page", api: method(`"offset", "limit": "2"`), config: job(""), answers: []string{`[1,2]`, `[]`}, requests: []string{"GET /u?limit=2&offset=0", "GET /u?limit=2&offset=2"}},
		{
			name: "offset: names", api: method(`"offset", "limit": 2, "limitParam": "count", "offsetParam": "skip"`), config: job(""), answers: []string{`[1,2]`, `[]`},
			requests: []string{"GET /u?count=2&skip=0", "GET /u?count=2&skip=2"},
		},
		{
			name: "offset: firstPageParams false", api: method(`"offset", "limit": 2, "firstPageParams": false`), config: job(""), answers: []string{`[1,2]`, `[]`},
			requests: []string{"GET /u", "GET /u?limit=2&offset=2"},
		},
		{
			name: "offset: offsetFromJob", api: method(`"offset", "limit": 20, "limitParam": "count", "offsetParam": "skip", "offsetFromJob": true`),
			config: job(`, "params": {"count": 5, "skip": 2}`), answers: []string{`[1,2,3,4,5]`, `[]`}, requests: []string{"GET /u?count=5&skip=2", "GET /u?count=5&skip=7"},
		},
		{
			name: "offset: offset of the job is overwritten", api: method(`"offset", "limit": 1`), config: job(`, "params": {"offset": 7}`), answers: []string{`[1]`, `[]`},
			requests: []string{"GET /u?offset=0&limit=1", "GET /u?offset=1&limit=1"},
		},
		{
			name: "offset: POST", api: method(`"offset", "limit": 1`), config: job(`, "method": "POST", "params": {"q": "x"}`), answers: []string{`[1]`, `[]`},
			requests: []string{`POST /u` + jsonType + `{"q":"x","limit":1,"offset":0}`, `POST /u` + jsonType + `{"q":"x","limit":1,"offset":1}`},
		},
		{
			name: "offset: limit of the job is no number", api: method(`"offset", "limit": 1`), config: job(`, "params": {"limit": "all"}`), answers: []string{`[1]`},
			requests: []string{"GET /u?limit=all&offset=0"}, err: "must be a positive number",
		},

		// pagenum
		{name: "pagenum", api: method(`"pagenum"`), config: job(""), answers: []string{`[1]`, `[]`}, requests: []string{"GET /u?page=1", "GET /u?page=2"}},
		{
			name: "pagenum: names and limit; a short page is not the end", api: method(`"pagenum", "limit": 2, "limitParam": "count", "pageParam": "set"`), config: job(""), answers: []string{`[1]`, `[]`},
			requests: []string{"GET /u?set=1&count=2", "GET /u?set=2&count=2"},
		},
		{
			name: "pagenum: from 0, firstPageParams false", api: method(`"pagenum", "limitParam": "count", "pageParam": "set", "firstPage": 0, "firstPageParams": false`),
			config: job(`, "params": {"count": 2}`), answers: []string{`[1,2]`, `[3,4]`, `[]`}, requests: []string{"GET /u?count=2", "GET /u?count=2&set=1", "GET /u?count=2&set=2"},
		},

		// response.param
		{
			name: "param", api: method(`"response.param", "responseParam": "next", "queryParam": "tok"`), config: job(`, "params": {"k": 1}`),
			answers: []string{`{"d": [1], "next": "A"}`, `{"d": [2], "next": "B"}`, `{"d": [3]}`}, requests: []string{"GET /u?k=1", "GET /u?tok=A", "GET /u?tok=B"},
		},
		{
			name: "param: includeParams", api: method(`"response.param", "responseParam": "m.next", "queryParam": "page", "includeParams": true`), config: job(`, "params": {"page": "s", "o": "id"}`),
			answers: []string{`{"d": [1], "m": {"next": 2}}`, `{"d": [3]}`}, requests: []string{"GET /u?page=s&o=id", "GET /u?page=2&o=id"},
		},
		{
			name: "param: scrollRequest", api: method(`"response.param", "responseParam": "next", "queryParam": "tok", "scrollRequest": {"endpoint": "r", "method": "GET", "params": {"x": 1}}`),
			config: `"jobs": [{"endpoint": "search", "method": "POST", "params": {"q": 1}}]`, answers: []string{`{"next": "A"}`, `{"d": [2], "next": "B"}`, `{"d": []}`},
			requests: []string{`POST /search` + jsonType + `{"q":1}`, "GET /r?x=1&tok=A", "GET /r?x=1&tok=B"}, records: []string{`search: {"data":2}`}, log: "the response has no list",
		},
		{
			name: "param: POST keeps the type", api: method(`"response.param", "responseParam": "next", "queryParam": "tok"`), config: job(`, "method": "POST"`),
			answers: []string{`{"d": [1], "next": 5}`, `{"d": [2], "next": 0}`}, requests: []string{`POST /u` + jsonType + `[]`, `POST /u` + jsonType + `{"tok":5}`},
		},

		// cursor
		{
			name: "cursor", api: method(`"cursor", "idKey": "id", "param": "after"`), config: job(""), answers: []string{`[{"id":1},{"id":2}]`, `[{"id":"3"},{"id":4.9}]`, `[]`},
			requests: []string{"GET /u", "GET /u?after=2", "GET /u?after=4"},
		},
		{
			name: "cursor: the maximum is of all pages", api: method(`"cursor", "idKey": "a.id", "param": "after"`), config: job(""), answers: []string{`[{"a":{"id":5}}]`, `[{"a":{"id":3}}]`, `[]`},
			requests: []string{"GET /u", "GET /u?after=5", "GET /u?after=5"},
		},
		{
			name: "cursor: reverse", api: method(`"cursor", "idKey": "id", "param": "after", "reverse": true, "increment": -1`), config: job(`, "params": {"after": "last", "x": 1}`),
			answers: []string{`[{"id":7},{"id":8}]`, `[{"id":3},{"id":4}]`, `[]`}, requests: []string{"GET /u?after=last&x=1", "GET /u?after=6&x=1", "GET /u?after=2&x=1"},
		},
		{
			name: "cursor: not a number", api: method(`"cursor", "idKey": "id", "param": "after"`), config: job(""), answers: []string{`[{"id":"x"}]`}, requests: []string{"GET /u"},
			err: `the cursor "id" of item 0 must be a number, not a string`,
		},
		{
			name: "cursor: missing", api: method(`"cursor", "idKey": "id", "param": "after"`), config: job(""), answers: []string{`[{"a":1}]`}, requests: []string{"GET /u"},
			err: `must be a number, not null`,
		},
		{
			name: "cursor: the last item", api: method(`"cursor", "last": true, "idKey": "id", "param": "starting_after", "nextPageFlag": {"field": "has_more", "stopOn": false}`), config: job(`, "params": {"limit": 2}, "dataField": "data"`),
			answers:  []string{`{"data": [{"id": "ch_9"}, {"id": "ch_1"}], "has_more": true}`, `{"data": [{"id": "ch_5"}], "has_more": false}`},
			requests: []string{"GET /u?limit=2", "GET /u?limit=2&starting_after=ch_1"}, records: []string{`u: {"id":"ch_9"}`, `u: {"id":"ch_1"}`, `u: {"id":"ch_5"}`},
		},
		{
			name: "cursor: the last item's list in a body", api: method(`"cursor", "last": true, "idKey": "sort", "param": "search_after"`), config: job(`, "method": "POST", "params": {"size": 1}, "dataField": "hits.hits"`),
			answers:  []string{`{"hits": {"hits": [{"sort": [1700000000123, "a"]}]}}`, `{"hits": {"hits": []}}`},
			requests: []string{`POST /u application/json {"size":1}`, `POST /u application/json {"size":1,"search_after":[1700000000123,"a"]}`},
		},
		{
			name: "cursor: the last item has none", api: method(`"cursor", "last": true, "idKey": "id", "param": "after"`), config: job(""), answers: []string{`[{"id":"a"},{"x":1}]`}, requests: []string{"GET /u"},
			err: `the last item has no value for the cursor at "id"`,
		},
		{
			name: "cursor: the last item again", api: method(`"cursor", "last": true, "idKey": "id", "param": "after"`), config: job(""), answers: []string{`[{"id":"a"}]`, `[{"id":"b"}]`, `[{"id":"a"}]`}, requests: []string{"GET /u", "GET /u?after=a", "GET /u?after=b"},
			err: `because the field "id" of the last item has the same value again`,
		},

		// multiple
		{
			name:   "multiple",
			api:    method(`"multiple", "default": "p", "scrollers": {"p": {"method": "pagenum"}, "o": {"method": "offset", "limit": 1, "forceStop": {"pages": 1}}}`),
			config: `"jobs": [{"endpoint": "a"}, {"endpoint": "b", "scroller": "o"}]`, answers: []string{`[1]`, `[]`, `[2]`},
			requests: []string{"GET /a?page=1", "GET /a?page=2", "GET /b?limit=1&offset=0"},
		},
		{
			name:   "multiple: no default, one page",
			api:    method(`"multiple", "scrollers": {"p": {"method": "pagenum"}}`),
			config: `"jobs": [{"endpoint": "a"}, {"endpoint": "b", "scroller": "p"}]`, answers: []string{`[1]`, `[1]`, `[]`},
			requests: []string{"GET /a", "GET /b?page=1", "GET /b?page=2"},
		},
		{
			name:   "multiple: conditions for all",
			api:    method(`"multiple", "default": "p", "scrollers": {"p": {"method": "pagenum"}}, "forceStop": {"pages": 2}`),
			config: `"jobs": [{"endpoint": "a"}]`, answers: []string{`[1]`, `[2]`, `[3]`},
			requests: []string{"GET /a?page=1", "GET /a?page=2"},
		},
		{
			name:   "multiple: unknown name",
			api:    method(`"multiple", "scrollers": {"p": {"method": "pagenum"}}`),
			config: `"jobs": [{"endpoint": "a"}, {"endpoint": "b", "scroller": "x"}]`, answers: []string{`[1]`},
			err: "parameters.config.jobs[1].scroller: there is no scroller \"x\" in parameters.api.pagination.scrollers",
		},
		{name: "none: one page", config: job(""), answers: []string{`{"data": [1], "next_page": "/x"}`}, requests: []string{"GET /u"}},
		{
			name: "an error past the last page fails the run", api: method(`"pagenum"`), config: job(""), answers: []string{`[1]`, `404 no such page`},
			requests: []string{"GET /u?page=1", "GET /u?page=2"}, err: "GET http://h/u?page=2 returned 404: no such page",
		},
	} {
		s.run(t)
	}
}

func TestURLStops(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`null`, `""`, `false`, `0`, `"0"`, `[]`} {
		story{
			name: value, api: `"pagination": {"method": "response.url"}`, config: `"jobs": [{"endpoint": "u", "dataField": "d"}]`,
			answers: []string{`{"d": [1], "next_page": ` + value + `}`}, requests: []string{"GET /u"},
		}.run(t)
	}
}

// TestRelativeLinks takes links that are relative to the URL of the endpoint, not to the base URL.
func TestRelativeLinks(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		"a/b?p=2": "/api/a/a/b?p=2", "b?p=2": "/api/a/b?p=2", "?p=2": "/api/a/b?p=2",
		"/x?p=2": "/x?p=2", "http://o/x?p=2": "http://o/x?p=2",
	} {
		story{
			name: link, api: `"baseUrl": "http://h/api/", "pagination": {"method": "response.url"}`, config: `"jobs": [{"endpoint": "a/b"}]`,
			answers: []string{`{"d": [1], "next_page": "` + link + `"}`, `[]`}, requests: []string{"GET /api/a/b", "GET " + want},
		}.run(t)
	}
}

func TestStops(t *testing.T) {
	t.Parallel()
	job := `"jobs": [{"endpoint": "u", "id": "j", "dataField": "d"}]`
	pages := func(s string) string { return `"pagination": {"method": "pagenum", ` + s + `}` }
	const one, two = "GET /u?page=1", "GET /u?page=2"
	for _, s := range []story{
		{
			name: "limitStop.count", api: pages(`"limitStop": {"count": 3}`), config: job, answers: []string{`{"d": [1,2]}`, `{"d": [3,4]}`, `{"d": [5]}`},
			requests: []string{one, two}, records: []string{`u: {"data":1}`, `u: {"data":2}`, `u: {"data":3}`, `u: {"data":4}`}, log: "limitStop: 4 items of 3",
		},
		{name: "limitStop.field", api: pages(`"limitStop": {"field": "m.total"}`), config: job, answers: []string{`{"d": [1,2], "m": {"total": 9}}`, `{"d": [3,4], "m": {"total": "4"}}`}, requests: []string{one, two}},
		{name: "limitStop.field is absent", api: pages(`"limitStop": {"field": "total"}`), config: job, answers: []string{`{"d": [1,2]}`}, requests: []string{one}, log: `level=WARN msg="the job ended because limitStop: the response has no value at \"total\"" job=`},
		{name: "limitStop.field is absent, empty page", api: pages(`"limitStop": {"field": "total"}`), config: job, answers: []string{`{"d": []}`}, requests: []string{one}, records: []string{}, log: "limitStop"},
		{name: "forceStop.pages", api: pages(`"forceStop": {"pages": "2"}`), config: job, answers: []string{`{"d": [1]}`, `{"d": [2]}`, `{"d": [3]}`}, requests: []string{one, two}, log: "forceStop: 2 pages"},
		{name: "forceStop.volume is exceeded", api: pages(`"forceStop": {"volume": 17}`), config: job, answers: []string{"{ \"d\":\n [1] }", `{"d": [2]}`, `{"d": [3]}`}, requests: []string{one, two}, log: "forceStop: 18 bytes"},
		{name: "forceStop.volume is met exactly", api: pages(`"forceStop": {"volume": 18}`), config: job, answers: []string{`{"d": [1]}`, `{"d": [2]}`, `{"d": []}`}, requests: []string{one, two, "GET /u?page=3"}},
		{name: "forceStop.volume counts escapes", api: pages(`"forceStop": {"volume": 17}`), config: job, answers: []string{`{"d": ["ü/"]}`}, requests: []string{one}, log: "forceStop: 18 bytes"},
		{name: "forceStop of 0 is none", api: pages(`"forceStop": {"pages": 0, "time": 0, "volume": 0}`), config: job, answers: []string{`{"d": [1]}`, `{"d": []}`}, requests: []string{one, two}},
		{
			name: "identical page", api: pages(`"firstPage": 1`), config: job, answers: []string{`{"d": [{"a":1,"b":2}]}`, `{"d": [{"b":2,"a":1}]}`, `{ "d": [{"b":2, "a":1}] }`, `{"d": [3]}`},
			requests: []string{one, two, "GET /u?page=3"}, records: []string{`u: {"a":1,"b":2}`, `u: {"b":2,"a":1}`},
			log: `msg="Job 'j' finished when last response matched the previous!"`,
		},
		{
			name: "the first page again is stored twice", api: pages(`"firstPage": 1`), config: job, answers: []string{`{"d": [1]}`, `{"d": [2]}`, `{"d": [1]}`, `{"d": [1]}`},
			requests: []string{one, two, "GET /u?page=3", "GET /u?page=4"}, records: []string{`u: {"data":1}`, `u: {"data":2}`, `u: {"data":1}`},
		},
		{
			name: "types count", api: pages(`"firstPage": 1`), config: job, answers: []string{`{"d": [1]}`, `{"d": ["1"]}`, `{"d": [1.0]}`, `{"d": []}`},
			requests: []string{one, two, "GET /u?page=3", "GET /u?page=4"},
		},
		{
			name: "counters begin anew with each job", api: pages(`"limitStop": {"count": 1}`), config: `"jobs": [{"endpoint": "a"}, {"endpoint": "b"}]`, answers: []string{`[1]`, `[1]`},
			requests: []string{"GET /a?page=1", "GET /b?page=1"},
		},
		{
			name: "any condition ends it", api: pages(`"forceStop": {"pages": 9}, "nextPageFlag": {"field": "more", "stopOn": false}, "limitStop": {"count": 99}`), config: job,
			answers: []string{`{"d": [1], "more": true}`, `{"d": [2], "more": false}`}, requests: []string{one, two}, log: "nextPageFlag: more counts as false",
		},
		{
			name: "a nested flag keeps the last page", api: pages(`"nextPageFlag": {"field": "meta/more.0", "delimiter": "/", "stopOn": false}`), config: job,
			answers: []string{`{"d": [1], "meta": {"more.0": true}}`, `{"d": [2], "meta": {"more.0": false}}`}, requests: []string{one, two}, records: []string{`u: {"data":1}`, `u: {"data":2}`},
		},
	} {
		s.run(t)
	}
}

func TestNextPageFlag(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flag                    string
		absent, onTrue, onFalse bool // whether it continues
	}{
		{`"stopOn": false`, false, true, false},
		{`"stopOn": false, "ifNotSet": true`, true, true, false},
		{`"stopOn": true`, false, false, true},
		{`"stopOn": true, "ifNotSet": false`, true, false, true},
	} {
		values := map[string]bool{"": test.absent}
		for _, v := range []string{`true`, `1`, `"no"`, `"false"`, `""`, `{}`, `[0]`, `" "`} {
			values[`, "f.x": `+v] = test.onTrue
		}
		for _, v := range []string{`false`, `0`, `null`, `"0"`, `[]`, `0.0`} {
			values[`, "f.x": `+v] = test.onFalse
		}
		for value, goesOn := range values {
			s := story{
				name: test.flag + value, api: `"pagination": {"method": "pagenum", "nextPageFlag": {"field": "f.x", ` + test.flag + `}}`,
				config: `"jobs": [{"endpoint": "u", "dataField": "d"}]`, requests: []string{"GET /u?page=1"},
				answers: []string{`{"d": [1]` + value + `}`, `{"d": []` + value + `}`},
			}
			if goesOn {
				s.requests = append(s.requests, "GET /u?page=2")
			}
			s.run(t)
		}
	}
	story{
		name: "root is a list", api: `"pagination": {"method": "pagenum", "nextPageFlag": {"field": "0", "stopOn": true, "ifNotSet": false}}`,
		config: `"jobs": [{"endpoint": "u"}]`, answers: []string{`[1]`, `[]`}, requests: []string{"GET /u?page=1", "GET /u?page=2"},
	}.run(t)
}
