package extractor_test

import "testing"

func TestChildren(t *testing.T) {
	t.Parallel()
	for _, s := range []story{
		{
			name:   "order, columns and levels",
			config: `"userData": {"u": 1}, "jobs": [{"endpoint": "users", "children": [{"endpoint": "users/{id}/posts", "dataType": "posts", "placeholders": {"id": "id"}, "children": [{"endpoint": "u/{2:uid}/{id}/p/{pid}", "dataType": "c", "placeholders": {"2:uid": "name.first", "pid": "parent_x"}}]}]}]`,
			answers: []string{
				`[{"id": 1, "name": {"first": "a b"}}, {"id": 2, "name": {"first": "é"}}]`, `[{"parent_x": "p1"}, {"parent_x": "p2"}]`, `[{"c": 1}]`, `[{"c": 2}]`, `[]`,
			},
			requests: []string{"GET /users", "GET /users/1/posts", "GET /u/a%20b/1/p/p1", "GET /u/a%20b/1/p/p2", "GET /users/2/posts"},
			records: []string{
				`users: {"id":1,"name":{"first":"a b"},"u":1}`, `users: {"id":2,"name":{"first":"é"},"u":1}`,
				`posts: {"parent_x":"p1","parent_id":"1"}`, `posts: {"parent_x":"p2","parent_id":"1"}`,
				`c: {"c":1,"parent_id":"1","parent_name.first":"a b","parent_x":"p1"}`, `c: {"c":2,"parent_id":"1","parent_name.first":"a b","parent_x":"p2"}`,
			},
		},
		{
			name:     "a deeper name replaces, equal paths share a column",
			config:   `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "dataType": "b", "placeholders": {"x": "id"}, "children": [{"endpoint": "c/{x}", "dataType": "c", "placeholders": {"x": "id"}}]}]}]`,
			answers:  []string{`[{"id": 1}]`, `[{"id": 2}]`, `[{"v": 3}]`},
			requests: []string{"GET /a", "GET /b/1", "GET /c/2"}, records: []string{`a: {"id":1}`, `b: {"id":2,"parent_id":"1"}`, `c: {"v":3,"parent_id":"2"}`},
		},
		{
			name:     "lists give combinations",
			config:   `"jobs": [{"endpoint": "a", "children": [{"endpoint": "{x}/{y}", "placeholders": {"x": "xs", "y": "ys"}}]}]`,
			answers:  []string{`[{"xs": [1, 2], "ys": ["p", true]}, {"xs": [], "ys": [1]}, {"xs": 5, "ys": false}]`, `[]`, `[]`, `[]`, `[]`, `[]`},
			requests: []string{"GET /a", "GET /1/p", "GET /1/1", "GET /2/p", "GET /2/1", "GET /5/"},
		},
		{
			name:     "function",
			config:   `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "dataType": "b", "placeholders": {"x": {"path": "id", "function": "urlencode", "args": [{"function": "concat", "args": ["<", {"placeholder": "value"}, ">"]}]}}}]}]`,
			answers:  []string{`[{"id": "x/y"}]`, `[{}]`},
			requests: []string{"GET /a", "GET /b/%3Cx%2Fy%3E"}, records: []string{`a: {"id":"x/y"}`, `b: {"parent_id":"%3Cx%2Fy%3E"}`},
		},
		{
			name:     "filter",
			config:   `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "placeholders": {"x": "id"}, "recursionFilter": "type==x&n>9|name~~%in%"}]}]`,
			answers:  []string{`[{"id": 1, "type": "x", "n": 10}, {"id": 2, "type": "x", "n": "9"}, {"id": 3, "name": "thing"}, {"id": 4, "type": "y", "n": 99}]`, `[]`, `[]`},
			requests: []string{"GET /a", "GET /b/1", "GET /b/3"},
		},
		{
			name: "no placeholders, no request", config: `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b"}]}]`, answers: []string{`[{"id": 1}]`},
			requests: []string{"GET /a"}, log: "level=WARN msg=\"a child job without placeholders is not run\"",
		},
		{
			name: "pages of parent and child", api: `"pagination": {"method": "pagenum", "limitStop": {"count": 2}}`,
			config:   `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "placeholders": {"x": "id"}}]}]`,
			answers:  []string{`[{"id": 1}]`, `[1]`, `[2]`, `[{"id": 2}]`, `[1]`, `[2]`},
			requests: []string{"GET /a?page=1", "GET /b/1?page=1", "GET /b/1?page=2", "GET /a?page=2", "GET /b/2?page=1", "GET /b/2?page=2"},
		},
		{
			name: "an identical page has no children", api: `"pagination": {"method": "pagenum"}`,
			config: `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "placeholders": {"x": "id"}}]}]`, answers: []string{`[{"id": 1}]`, `[]`, `[{"id": 1}]`},
			requests: []string{"GET /a?page=1", "GET /b/1?page=1", "GET /a?page=2"},
		},
		{
			name: "user data of a child", config: `"userData": {"u": 1}, "jobs": [{"endpoint": "a", "userData": 5, "children": [{"endpoint": "b/{x}", "dataType": "b", "userData": {"w": {"time": "previousStart"}}, "placeholders": {"x": "id"}}]}]`,
			answers: []string{`[{"id": 1}]`, `[{}]`}, requests: []string{"GET /a", "GET /b/1"}, records: []string{`a: {"id":1,"job_parent_id":5}`, `b: {"w":0,"parent_id":"1"}`},
		},
		{
			name: "missing value", config: `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "id": "c", "placeholders": {"x": "id"}}]}]`, answers: []string{`[{"no": 1}]`}, requests: []string{"GET /a"},
			err: `placeholder "x" of job "c": the item of the parent has no value at "id"`,
		},
		{
			name: "an object", config: `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "id": "c", "placeholders": {"x": "id"}}]}]`, answers: []string{`[{"id": {"a": 1}}]`}, requests: []string{"GET /a"},
			err: `the value at "id" is an object, not text`,
		},
		{
			name: "only inherited placeholders", config: `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "dataType": "b", "placeholders": {"x": "id"}, "children": [{"endpoint": "c/{x}", "dataType": "c"}, {"endpoint": "d", "id": "d"}]}]}]`,
			answers: []string{`[{"id": 1}, {"id": 2}]`, `[{}]`, `[{"k": 1}]`, `[{}, {}]`, `[{"k": 2}]`, `[{"k": 3}]`}, requests: []string{"GET /a", "GET /b/1", "GET /c/1", "GET /b/2", "GET /c/2", "GET /c/2"},
			records: []string{`a: {"id":1}`, `a: {"id":2}`, `b: {"parent_id":"1"}`, `c: {"k":1,"parent_id":"1"}`, `b: {"parent_id":"2"}`, `b: {"parent_id":"2"}`, `c: {"k":2,"parent_id":"2"}`, `c: {"k":3,"parent_id":"2"}`},
			log:     "a child job without placeholders is not run\" job=d",
		},
		{
			name: "unknown level", config: `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{2:x}", "id": "c", "placeholders": {"2:x": "id"}}]}]`, answers: []string{`[{"id": 1}]`}, requests: []string{"GET /a"},
			err: `there is no ancestor at level 2`,
		},
	} {
		s.run(t)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]bool{
		"n==7": true, "n!=7": false, "n>=7": true, "n<=6": false, "n<10": true, "n>10": false, "s>a": true, "s<a": false, "s==abc": true,
		"s~~a%c": true, "s~~%bc": true, "s~~ab": false, "s!~x%": true, "s~~a%b%c%": true, "s~~abc%c": false, "o.p==1": true, "none==": true,
		"n==8|n==7": true, "n==8&n==7|s==abc": true, "n==7&s==x": false, "neg<1": true, "s>=": true, "b==1": true,
	} {
		s := story{
			name: filter, config: `"jobs": [{"endpoint": "a", "children": [{"endpoint": "b/{x}", "placeholders": {"x": "n"}, "recursionFilter": "` + filter + `"}]}]`,
			answers: []string{`[{"n": 7, "s": "abc", "o": {"p": 1}, "neg": -5, "b": true}]`, `[]`}, requests: []string{"GET /a"},
		}
		if want {
			s.requests = append(s.requests, "GET /b/7")
		}
		s.run(t)
	}
}

func TestData(t *testing.T) {
	t.Parallel()
	job := func(s string) string { return `"jobs": [{"endpoint": "u"` + s + `}]` }
	for _, s := range []story{
		{name: "list", answers: []string{`[{"a":1},2]`}, records: []string{`u: {"a":1}`, `u: {"data":2}`}},
		{name: "one list property", answers: []string{`{"n": 1, "o": {"l": [9]}, "x": [1]}`}, records: []string{`u: {"data":1}`}},
		{name: "empty list property", answers: []string{`{"x": []}`}, records: []string{}},
		{name: "no list property", answers: []string{`{"x": {"l": []}}`}, records: []string{}, log: `level=WARN msg="the response has no list; name one in dataField"`},
		{name: "several lists", answers: []string{`{"x": [], "y": []}`}, err: "the response has several lists, name one of them in dataField: x, y"},
		{name: "scalar", answers: []string{`5`}, err: "the response is an integer, a list or an object is expected"},
		{name: "null", answers: []string{`null`}, err: "the response is null"},
		{name: "path", config: `, "dataField": "a.1.b"`, answers: []string{`{"a": [0, {"b": [1]}]}`}, records: []string{`u: {"data":1}`}},
		{name: "delimiter", config: `, "dataField": {"path": "a.b/c", "delimiter": "/"}`, answers: []string{`{"a.b": {"c": [1]}}`}, records: []string{`u: {"data":1}`}},
		{name: "object with a path alone", config: `, "dataField": {"path": "a.b"}`, answers: []string{`{"a": {"b": [1]}}`}, records: []string{`u: {"data":1}`}},
		{name: "whole response", config: `, "dataField": "."`, answers: []string{`{"a": [1]}`}, records: []string{`u: {"a":[1]}`}},
		{name: "an object is one item", config: `, "dataField": "a"`, answers: []string{`{"a": {"b": 1}}`}, records: []string{`u: {"b":1}`}},
		{name: "an empty object is one item", config: `, "dataField": "a"`, answers: []string{`{"a": {}}`}, records: []string{`u: {}`}},
		{name: "a scalar is one item", config: `, "dataField": "a"`, answers: []string{`{"a": "x"}`}, records: []string{`u: {"data":"x"}`}},
		{name: "absent", config: `, "dataField": "b"`, answers: []string{`{"a": "x"}`}, records: []string{}, log: "no data at \\\"b\\\" in the response"},
		{name: "empty", config: `, "dataField": "a"`, answers: []string{`{"a": 0}`}, records: []string{}, log: "no data at"},
		{name: "not given as text", config: `, "dataField": ""`, answers: []string{`{"a": [1]}`}, records: []string{`u: {"data":1}`}},
		{name: "not given as 0", config: `, "dataField": "0"`, answers: []string{`{"a": [1]}`}, records: []string{`u: {"data":1}`}},
		{name: "data type", config: `, "dataType": "t"`, answers: []string{`[1]`}, records: []string{`t: {"data":1}`}},
		{name: "not JSON", answers: []string{`<html>`}, err: "GET http://h/u returned 200: the response is not JSON: line 1, column 1: a value is expected: <html>"},
		{name: "empty body", answers: []string{``}, records: []string{}},
		{name: "no content", answers: []string{`204 `}, records: []string{}},
		{name: "not modified", answers: []string{`304 `}, records: []string{}},
		{name: "only white space", answers: []string{" \n"}, err: "the response is empty, JSON is expected"},
		{name: "content type does not matter", answers: []string{"Content-Type: text/html\n[1]"}, records: []string{`u: {"data":1}`}},
		{
			name: "filter", config: `, "responseFilter": ["a", "l[].x", "t[]", "none.x", "s"]`, answers: []string{`[{"a": {"u": "ü/"}, "l": [{"x": [1], "y": 2}, {"y": 3}, 5], "t": [{"z": 1}, null], "s": "q"}]`},
			records: []string{`u: {"a":"{\"u\":\"\\u00fc\\/\"}","l":[{"x":"[1]","y":2},{"y":3},5],"t":["{\"z\":1}","null"],"s":"\"q\""}`},
		},
		{name: "filter with a delimiter", config: `, "responseFilter": "a.b/c", "responseFilterDelimiter": "/"`, answers: []string{`[{"a.b": {"c": {"d": 1}}}]`}, records: []string{`u: {"a.b":{"c":"{\"d\":1}"}}`}},
		{name: "filter of a list that is none", config: `, "responseFilter": "a[]"`, answers: []string{`[{"a": 1}]`}, err: `item 0: responseFilter: "a" is an integer, a list is expected`},
		{name: "byte order mark", answers: []string{"\ufeff[1]"}, records: []string{`u: {"data":1}`}},
	} {
		s.config, s.requests = job(s.config), []string{"GET /u"}
		s.run(t)
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	for _, s := range []story{
		{
			name: "in order; equal ids run once, the later definition in the place of the first", config: `"jobs": [{"endpoint": "a", "id": "x"}, {"endpoint": "b"}, {"endpoint": "c", "id": "x"}, {"endpoint": "b"}]`,
			answers: []string{`[]`, `[]`}, requests: []string{"GET /c", "GET /b"},
		},
		{
			name: "iterations", config: `"v": 1, "w": {"a.b": "x"}, "jobs": [{"endpoint": "a", "params": {"v": {"attr": "v"}, "w": {"attr": "w.a.b"}}}]}, "iterations": [{}, {"v": 2, "w": {"a": {"b": "y"}}}], "authorization": {"x": 1`,
			answers: []string{`[]`, `[]`}, requests: []string{"GET /a?v=1&w=x", "GET /a?v=2&w=y"},
		},
		{
			name:    "expressions in parameters",
			config:  `"a": 5, "jobs": [{"endpoint": "u", "method": "POST", "params": {"x": {"attr": "a"}, "l": [{"attr": "a"}], "o": {"l": [{"attr": "a"}], "two": {"attr": "a", "y": 1}, "r": {"response": "x"}}, "f": {"function": "ifempty", "args": {"k": "", "m": {"attr": "a"}}, "note": 1}, "t": {"time": "previousStart"}}}]`,
			answers: []string{`[]`}, requests: []string{
				`POST /u application/json {"x":5,"l":[5],"o":{"l":[5],"two":{"attr":"a","y":1},"r":{"response":"x"}},"f":5,"t":0}`,
			},
		},
		{name: "the first error ends the run", config: `"jobs": [{"endpoint": "a"}, {"endpoint": "b"}]`, answers: []string{`400 {"message": "bad"}`}, requests: []string{"GET /a"}, err: `GET http://h/a returned 400: {"message": "bad"}`},
		{
			name: "an ignored status", api: `"http": {"ignoreErrors": [404, 200]}`, config: `"jobs": [{"endpoint": "a", "dataField": "."}, {"endpoint": "b", "dataField": "."}, {"endpoint": "c", "dataField": "."}]`,
			answers: []string{`404 {"m": 1}`, `404 <html>`, `plain`}, requests: []string{"GET /a", "GET /b", "GET /c"}, records: []string{`a: {"m":1}`, `b: {"errorData":"<html>"}`, `c: {"errorData":"plain"}`}, log: "level=WARN",
		},
	} {
		s.run(t)
	}
}
