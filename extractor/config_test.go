package extractor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/fuzztest"
)

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	login := func(s string) string {
		return `"authentication": {"type": "login", "loginRequest": {"endpoint": "l"}` + s + `}`
	}
	pages := func(s string) string { return `"pagination": {` + s + `}` }
	job := func(s string) string {
		return `"a": "x", "o": {"n": null}, "#s": "hidden", "jobs": [{"endpoint": "u"` + s + `}]`
	}
	const api, cfg = "parameters.api.", "parameters.config."
	for _, test := range []struct {
		name, api, config string
		want              []string
	}{
		{"base URL", `"baseUrl": "ftp://h"`, job(""), []string{api + "baseUrl: must be an absolute http or https URL"}},
		{"base URL without host", `"baseUrl": "/v1"`, job(""), []string{api + "baseUrl: must be an absolute"}},
		{"base URL is required", `"baseUrl": null`, job(""), []string{api + "baseUrl: is required"}},
		{"base URL of an attribute", `"baseUrl": {"attr": "b"}`, job(""), []string{api + `baseUrl.attr: there is no attribute "b" with a value in config`}},
		{"jobs are required", ``, `"jobs": []`, []string{cfg + "jobs: must be a list of at least one job"}},
		{"jobs are no list", ``, `"jobs": {"a": 1}`, []string{cfg + "jobs: must be a list, not an object"}},
		{"endpoint", ``, `"jobs": [{"endpoint": ""}, {"params": {}}, 5]`, []string{cfg + "jobs[0].endpoint: is required", cfg + "jobs[1].endpoint: is required", cfg + "jobs[2]: must be an object, not an integer"}},
		{"method", ``, job(`, "method": "DELETE"`), []string{cfg + `jobs[0].method: must be GET, POST, FORM, PUT or PATCH, not "DELETE"`}},
		{"params", ``, job(`, "params": "x"`), []string{cfg + "jobs[0].params: must be an object, not a string"}},
		{"unknown function", ``, job(`, "params": {"p": {"function": "eval", "args": []}}`), []string{cfg + `jobs[0].params.p.function: unknown function "eval"; known are base64_encode, concat, date,`}},
		{"function is no name", ``, job(`, "params": {"p": {"function": ["md5"]}}`), []string{cfg + `jobs[0].params.p.function: must be the name of a function, not a list`}},
		{
			"arguments", ``, job(`, "params": {"p": [1], "q": {"x": {"function": "md5", "args": [1, 2]}}, "r": {"function": "md5", "args": 1}, "l": [{"function": "no"}]}`),
			[]string{cfg + "jobs[0].params.q.x.args: function md5 takes exactly 1 arguments, not 2", cfg + "jobs[0].params.r.args: must be a list, not an integer", cfg + "jobs[0].params.r.args: function md5 takes exactly 1", cfg + `jobs[0].params.l[0].function: unknown function "no"`},
		},
		{"urlencode is for placeholders", ``, job(`, "params": {"p": {"function": "urlencode", "args": ["x"]}}`), []string{"function urlencode can be called in placeholders only"}},
		{
			"attributes", ``, job(`, "params": {"p": {"attr": "b"}, "q": {"attr": "s"}, "r": {"attr": "o"}, "s": {"attr": "o.n"}, "t": {"attr": {"x": 1}}, "u": {"function": "concat", "args": [{"attr": "z"}]}, "v": {"attr": "jobs.0.endpoint"}}`),
			[]string{`params.p.attr: there is no attribute "b"`, `params.q.attr: there is no attribute "s"`, `params.r.attr: there is no attribute "o"`, `params.s.attr: there is no attribute "o.n"`, `params.t.attr: must be the name of a value, not an object`, `params.u.args[0].attr: there is no attribute "z"`, `params.v.attr: there is no attribute`},
		},
		{"time", ``, job(`, "params": {"p": {"time": "now"}}`), []string{"params.p.time: must be previousStart or currentStart"}},
		{"headers that are no text", `"http": {"headers": {"A": [1], "B": {"x": {"attr": "a"}}, "C": {"time": "currentStart"}}}`, job(""), []string{api + "http.headers.A: the value of a header must be text, or an expression of attr", api + "http.headers.B:", api + "http.headers.C:"}},
		{"headers of a job", ``, job(`, "headers": {"A": {"attr": "a"}, "B": "x\ny"}`), []string{cfg + "jobs[0].headers.A: must be text of one line; expressions are not evaluated here", cfg + "jobs[0].headers.B:"}},
		{"required headers", `"http": {"requiredHeaders": ["X-A", "X-B", "X-C"]}`, `"http": {"headers": {"X-A": "1", "x-b": "2", "X-C": ""}}, ` + job(""), []string{cfg + `http: the header "X-B" must have a value`, cfg + `http: the header "X-C"`}},
		{"timeouts", `"http": {"connectTimeout": "soon", "requestTimeout": -1}`, job(""), []string{api + "http.connectTimeout: must be a number of seconds", api + "http.requestTimeout:"}},
		{"ignoreErrors", `"http": {"ignoreErrors": ["x"]}`, job(""), []string{api + "http.ignoreErrors[0]: must be an integer"}},
		{"retries", `"retryConfig": {"maxRetries": -1, "http": {"codes": 500}}`, job(""), []string{api + "retryConfig.maxRetries: must not be negative", api + "retryConfig.http.codes: must be a list"}},

		{
			"authentication in the query", `"authentication": {"type": "query", "query": {"a": {"request": "url"}, "b": {"function": "md5", "args": [{"query": "a"}]}, "c": {"attr": "a"}}}`, job(""),
			[]string{api + "authentication.query.a: must be a value, or an expression of attr", api + "authentication.query.b: must be a value, or an expression of attr"},
		},
		{"authentication in an empty query", `"authentication": {"type": "query"}`, job(""), []string{api + "authentication.query: is required"}},
		{"authentication type", `"authentication": {"type": "magic"}`, job(""), []string{api + `authentication.type: unknown authentication "magic"`}},
		{"certificates", `"caCertificate": "hidden", "#clientCertificate": "hidden", "format": "x"`, job(""), []string{api + "caCertificate: must be certificates in PEM form", api + "#clientCertificate: must be a certificate in PEM form, with its key"}},
		{"a key alone", `"#clientKey": "hidden"`, job(""), []string{api + "#clientKey: needs clientCertificate"}},
		{"format", `"http": {"format": "yaml"}`, job(`, "format": {"type": "csv", "delimiter": "ab", "header": false}`), []string{api + `http.format: must be json, ndjson, csv or xml, not "yaml"`, cfg + "jobs[0].format.delimiter: must be one character", cfg + "jobs[0].format.columns: is required without a header"}},
		{"columns of a format", ``, job(`, "format": {"type": "csv", "columns": ["a", "", "a"]}`), []string{cfg + "jobs[0].format.columns: column 2 has no name", cfg + "jobs[0].format.columns: two columns have the name of column 3"}},
		{"pagination by headers", pages(`"method": "response.header", "paramDelimiter": 5`), job(""), []string{api + "pagination.header: is required", api + "pagination.queryParam: is required"}},
		{"incremental", ``, job(`, "incremental": {"type": "text", "initial": "", "lookback": 1}, "params": {"a": {"incremental": "end"}, "b": {"window": "from"}}`), []string{cfg + "jobs[0].incremental.path: is required", cfg + "jobs[0].incremental.initial: is required", cfg + "jobs[0].incremental.lookback: needs a cursor of type time or number", cfg + "jobs[0].params.a.incremental: must be start"}},
		{"windows", ``, job(`, "windows": {"to": "x", "step": "-1 day", "lookback": "y"}, "params": {"a": {"window": "start"}}`), []string{cfg + "jobs[0].windows.from: is required", cfg + "jobs[0].windows.to: must be a date", cfg + "jobs[0].windows.step: must be a duration", cfg + "jobs[0].windows.lookback: must be a duration", cfg + "jobs[0].params.a.window: must be from, to or last"}},
		{
			"positions", `"rateLimit": {"remaining": "x", "burst": 0}, "retryConfig": {"jitter": 2}`,
			`"parallelJobs": 0, "jobs": [{"endpoint": "u", "id": "a", "incremental": {"path": "p", "initial": "2024-01-01"}, "windows": {"from": "2024-01-01"}}, {"endpoint": "v", "windows": {"from": "4 Oct 2024 10:00", "name": "a"}, "children": [{"endpoint": "{x}", "placeholders": {"x": "x"}, "windows": {"from": "@86400"}}]}]`,
			[]string{api + "retryConfig.jitter: must be a number from 0 to 1", api + "rateLimit.burst: must be a positive number", api + "rateLimit.reset: remaining and reset are needed together", cfg + "parallelJobs: must be from 1 to 1000", cfg + "jobs[0]: must have one of incremental and windows", cfg + `jobs[1]: another job keeps its position under the name "a" too`, cfg + "jobs[1].children[0]: a child cannot have incremental or windows"},
		},
		{
			"positions relative to now", "", `"jobs": [{"endpoint": "u", "windows": {"from": "-7 days"}}, {"endpoint": "v", "incremental": {"path": "p", "initial": "30 days ago"}}, {"endpoint": "w", "windows": {"from": "10:00"}}, {"endpoint": "x", "windows": {"from": "Oct 4"}}, {"endpoint": "y", "incremental": {"path": "p", "initial": "first day of January"}}]`,
			[]string{cfg + "jobs[0].windows.from: is required", cfg + "jobs[1].incremental.initial: is required", cfg + "jobs[2].windows.from: is required", cfg + "jobs[3].windows.from: is required", cfg + "jobs[4].incremental.initial: is required"},
		},
		{"oauth2", `"authentication": {"type": "oauth2", "grant": "password", "clientAuth": "none", "scopes": "x"}`, job(""), []string{api + "authentication.tokenUrl: is required", api + "authentication.clientId: is required", api + `authentication.grant: must be client_credentials or refresh_token, not "password"`, api + `authentication.clientAuth: must be basic or body, not "none"`}},
		{"hmac", `"authentication": {"type": "hmac", "algorithm": "md4", "encoding": "x", "keyEncoding": "y", "message": {"request": "signature"}, "loginOn": [401]}`, job(""), []string{api + "authentication.algorithm: must be one of sha1, sha256, sha512", api + "authentication.keyEncoding: must be text", api + "authentication.encoding: must be hex", api + "authentication.key: is required", api + `authentication.message.request: unknown value "signature"`, api + "authentication.headers: the signature must be"}},
		{"other authentication", `"authentication": {"type": "basic", "username": "u"}`, job(""), []string{api + "authentication.password: is required, here or as config.#password"}},
		{"key of an API", `"authentication": {"type": "apiKey", "in": "body"}`, job(""), []string{api + "authentication.name: is required", api + "authentication.value: is required", api + `authentication.in: must be header or query, not "body"`}},
		{"answer rules", `"http": {"answerRules": [{"equals": 1}, {"path": "a", "action": "stop", "equals": {"a": 1}}, {"statuses": [99]}]}`, job(""), []string{api + "http.answerRules[0].path: is required, except", api + "http.answerRules[1].equals: must be a value", api + `http.answerRules[1].action: must be fail, retry or end, not "stop"`, api + "http.answerRules[2].statuses: must be HTTP statuses"}},
		{"authentication that is not supported", `"authentication": {"type": "oauth20"}`, job(""), []string{api + `authentication.type: authentication "oauth20" is not supported`}},
		{"OAuth 2 login without credentials", `"authentication": {"type": "oauth20.login", "loginRequest": {"endpoint": "l"}}`, job(""), []string{"authorization.oauth_api.credentials: is required by authentication oauth20.login"}},
		{
			"OAuth 2 login with other credentials", `"authentication": {"type": "oauth20.login", "loginRequest": {"endpoint": "l", "params": {"t": {"user": "token"}, "id": {"consumer": "id"}}}, "apiRequest": {"headers": {"A": {"user": "token"}}}}`,
			job("") + `}}, "authorization": {"oauth_api": {"credentials": {"#data": "[5]", "appKey": 7}}}, "x": {"y": {`,
			[]string{
				"authorization.oauth_api.credentials.appKey: is required by authentication oauth20.login, as text", "authorization.oauth_api.credentials.#appSecret: is required by",
				"authorization.oauth_api.credentials.#data: must be the text of a JSON object", api + `authentication.loginRequest.params.t.user: there is no value "token" of the user in authorization`,
				api + `authentication.loginRequest.params.id.consumer: there is no value "id" of the consumer in`, api + "authentication.apiRequest.headers.A: the value of a header must be text, or an expression of response, attr",
			},
		},
		{"no login request", `"authentication": {"type": "login", "loginRequest": {}}`, job(""), []string{api + "authentication.loginRequest: is required"}},
		{"login without endpoint", `"authentication": {"type": "login", "loginRequest": {"method": "DELETE"}}`, job(""), []string{"loginRequest.endpoint: is required", "loginRequest.method: must be"}},
		{"format", login(`, "format": "xml"`), job(""), []string{api + `authentication.format: must be json or text, not "xml"`}},
		{"response in a login header", `"authentication": {"type": "login", "loginRequest": {"endpoint": "l", "headers": {"A": {"response": "x"}}}}`, job(""), []string{"loginRequest.headers.A: the value of a header must be text, or an expression of attr"}},
		{"expires", login(`, "expires": 1.5`), job(""), []string{api + "authentication.expires: must be a number of seconds, or an object"}},
		{"expires text", login(`, "expires": "soon"`), job(""), []string{api + "authentication.expires: must be"}},
		{"expires without path", login(`, "expires": {"response": ""}`), job(""), []string{api + "authentication.expires.response: is required"}},

		{"pagination method", pages(`"method": "scroll"`), job(""), []string{api + `pagination.method: unknown method "scroll"; known are cursor, offset, pagenum, response.header, response.link, response.param, response.url, multiple`}},
		{"offset without limit", pages(`"method": "offset"`), job(""), []string{api + "pagination.limit: is required"}},
		{"limit", pages(`"method": "offset", "limit": "many"`), job(""), []string{api + "pagination.limit: must be a positive integer"}},
		{"first page", pages(`"method": "pagenum", "firstPage": "x", "firstPageParams": "maybe"`), job(""), []string{"pagination.firstPageParams: must be true or false", "pagination.firstPage: must be an integer"}},
		{"response.param", pages(`"method": "response.param", "scrollRequest": {"method": "X", "what": 1}`), job(""), []string{"pagination.responseParam: is required", "pagination.queryParam: is required", "scrollRequest.method: must be"}},
		{"cursor", pages(`"method": "cursor", "increment": "x"`), job(""), []string{"pagination.idKey: is required", "pagination.param: is required", "pagination.increment: must be an integer"}},
		{"multiple", pages(`"method": "multiple", "scrollers": {}`), job(""), []string{api + "pagination.scrollers: must be an object with at least one scroller"}},
		{"scrollers of multiple", pages(`"method": "multiple", "scrollers": {"a": 5, "b": {"method": "multiple"}, "c": {}}`), job(""), []string{"scrollers.a: must be an object", `scrollers.b.method: unknown method "multiple"`, `scrollers.c.method: unknown method ""`}},
		{
			"unknown scrollers", pages(`"method": "multiple", "default": "x", "scrollers": {"a": {"method": "pagenum"}}`), job(`, "scroller": "a", "children": [{"endpoint": "{a}", "placeholders": {"a": "a"}, "scroller": "b"}]`),
			[]string{api + `pagination.default: there is no scroller "x" in parameters.api.pagination.scrollers`, cfg + `jobs[0].children[0].scroller: there is no scroller "b"`},
		},
		{"limitStop misspelled", pages(`"method": "pagenum", "limitStop": {"feild": "total"}`), job(""), []string{"limitStop: must have exactly one of count and field"}},
		{
			"connections that are not supported", `"clientKey": null, "sshProxy": {}`, job("") + `}, "sshProxy": {"host": "h"}, "aws": {"signature": {"a": 1}`,
			[]string{"parameters.sshProxy: is not supported", "parameters.aws: is not supported"},
		},
		{"nextPageFlag", pages(`"method": "pagenum", "nextPageFlag": {}`), job(""), []string{"nextPageFlag.field: is required", "nextPageFlag.stopOn: is required"}},
		{"nextPageFlag is strict", pages(`"method": "pagenum", "nextPageFlag": {"field": "f", "stopOn": 1, "ifNotSet": "x"}`), job(""), []string{"nextPageFlag.stopOn: must be true or false", "nextPageFlag.ifNotSet: must be true or false"}},
		{"limitStop with both", pages(`"method": "pagenum", "limitStop": {"count": 1, "field": "x"}`), job(""), []string{api + "pagination.limitStop: must have exactly one of count and field"}},
		{"limitStop with none", pages(`"method": "pagenum", "limitStop": {"count": 0}`), job(""), []string{"limitStop: must have exactly one"}},
		{"forceStop", pages(`"method": "pagenum", "forceStop": {"pages": "x", "time": "whenever", "volume": -1}`), job(""), []string{"forceStop.pages: must be an integer", "forceStop.volume: must not be negative", "forceStop.time: must be a number of seconds"}},

		{"data field", ``, job(`, "dataField": {"delimiter": "/"}`), []string{cfg + "jobs[0].dataField.path: is required"}},
		{"data field of another kind", ``, job(`, "dataField": true`), []string{cfg + "jobs[0].dataField: must be a string, not a boolean"}},
		{"response filter", ``, job(`, "responseFilter": [1, ""]`), []string{"responseFilter[0]: must be a path", "responseFilter[1]: must be a path"}},
		{
			"placeholders", ``, job(`, "children": [{"endpoint": "{a}", "placeholders": {"a": 5, "0:b": "x", "x:c": "y", "d": {"function": "md5", "args": []}}}]`),
			[]string{`children[0].placeholders.a: must be a path`, `placeholders.0:b: the level before the colon`, `placeholders.x:c: the level`, `placeholders.d.path: is required`, `placeholders.d.args: function md5 takes exactly 1`},
		},
		{"recursion filter", ``, job(`, "children": [{"endpoint": "{a}", "placeholders": {"a": "a"}, "recursionFilter": "a=1"}]`), []string{`children[0].recursionFilter: "a=1" is no comparison`}},
		{
			"mapping", ``, job("") + `, "mappings": {"t": {}, "u": {"a": {"type": "x"}, "b": {}, "c": {"type": "table"}, ".": {"type": "table", "destination": "x"}, "d": {"mapping": {}}}}`,
			[]string{"mappings.t: must have at least one column", `mappings.u.a.type: must be column, user or table, not "x"`, "mappings.u.b.mapping: is required", "mappings.u.c.destination: is required", `mappings.u["."].tableMapping: is required, because the path "." leads to the item itself`, "mappings.u.d.mapping.destination: is required"},
		},
		{"user data", ``, `"userData": {"a": {"x": 1}, "b": [1], "c": {"attr": "id"}, "d": []}, "id": 1, ` + job(`, "userData": {"e": {"attr": "x", "y": 1}}`), []string{cfg + "userData.a: must be a value for a column", cfg + "userData.b: must be", cfg + "jobs[0].userData.e: must be"}},
		{"authentication without type", `"authentication": {"format": "text"}`, job(""), []string{api + "authentication.type: is required"}},
		{"bucket", ``, `"outputBucket": "../x", ` + job(""), []string{cfg + "outputBucket: must not begin with a dot or contain slashes"}},
		{"iterations", ``, job("") + `}, "iterations": [5], "authorization": {"a": 1`, []string{"parameters.iterations[0]: must be an object"}},
		{"sections", ``, `"x": 1}, "api": {"a": 1`, []string{api + "baseUrl: is required", cfg + "jobs: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := config(test.api, test.config)
			_, err := extractor.Parse([]byte(text))
			var ce *extractor.ConfigError
			if !errors.As(err, &ce) {
				t.Fatalf("%s: got error %v, want a ConfigError", text, err)
			}
			if extractor.ExitStatus(err) != 1 {
				t.Errorf("exit status %d, want 1", extractor.ExitStatus(err))
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("a secret is shown: %v", err)
			}
			for i, want := range test.want {
				if i >= len(ce.Problems) || !strings.Contains(ce.Problems[i].String(), want) {
					t.Errorf("problems are\n%v\nwant %q as number %d", err, want, i)
				}
			}
			if test.name != "sections" && len(ce.Problems) > len(test.want) {
				t.Errorf("problems are\n%v\nwant only %q", err, test.want)
			}
		})
	}
}

// A key that is not known may be the misspelled one that is missing.
func TestConfigErrorTellsUnknownKeys(t *testing.T) {
	t.Parallel()
	_, err := extractor.Parse([]byte(`{"api": {"baseUrl": "https://a.example.com/"}, "config": {"jobs": [{"endpont": "x"}]}}`))
	checkError(t, err, "the configuration cannot be used:\n  config.jobs[0].endpoint: is required\n  config.jobs[0].endpont: unknown key, ignored")
}

func TestConfigByteOrderMark(t *testing.T) {
	t.Parallel()
	_, err := extractor.Parse([]byte("\ufeff" + config("", `"jobs": [{"endpoint": "x"}]`)))
	checkError(t, err, "")
}

func TestConfigSyntax(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                  "the configuration cannot be used: (root): not JSON: line 1, column 1",
		"{\n  \"api\": x}":  "line 2, column 10",
		"[1]":               "(root): must be an object",
		"{}":                "api: is required\n  config: is required",
		`{"parameters": 1}`: "parameters: must be an object, not an integer",
	} {
		_, err := extractor.Parse([]byte(text))
		checkError(t, err, want)
	}
}

func TestConfigWarnings(t *testing.T) {
	t.Parallel()
	cfg, err := extractor.Parse([]byte(`{"authorization": {}, "storage": {}, "parameters": {"version": 1, "iterations": [{}, {}], "api": {"baseUrl": "http://h", "nam.e": 1, "http": {"header": {}, "defaultOptions": {"timeout": 1, "dataField": "x"}},
		"authentication": {"type": "login", "scope": 1, "loginRequest": {"endpoint": "x", "body": 1}, "apiRequest": {"cookies": 1}, "expires": {"response": "x", "abs": 1}},
		"pagination": {"method": "offset", "limit": 1, "ofset": 1, "limitStop": {"count": 1, "x": 1}}, "retryConfig": {"http": {"x": 1}}},
		"config": {"debug": true, "anything": 1, "jobs": [{"endpoint": "u", "datafield": "x", "children": [{"endpoint": "x", "y": 1}]}]}}}`))
	checkError(t, err, "")
	var got []string
	for _, w := range cfg.Warnings() {
		got = append(got, w.Path)
	}
	same(t, "unknown keys", got, []string{
		"parameters.version", "parameters.api.retryConfig.http.x", "parameters.api.http.defaultOptions.timeout", "parameters.api.http.defaultOptions.dataField", "parameters.api.http.header",
		"parameters.api.authentication.loginRequest.body", "parameters.api.authentication.apiRequest.cookies", "parameters.api.authentication.expires.abs",
		"parameters.api.authentication.scope", "parameters.api.pagination.limitStop.x", "parameters.api.pagination.ofset", `parameters.api["nam.e"]`,
		"parameters.config.jobs[0].children[0].y", "parameters.config.jobs[0].datafield",
	})
	if !cfg.Debug() || len(cfg.Jobs()) != 2 {
		t.Errorf("debug %v, jobs %v", cfg.Debug(), cfg.Jobs())
	}
}

func TestJobID(t *testing.T) {
	t.Parallel()
	cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "a", "params": {}}, {"endpoint": "a", "params": {"1": true}}, {"id": 5, "endpoint": "a"}]`)))
	checkError(t, err, "")
	want := []string{
		strings.TrimPrefix(link("", `a:2:{s:8:"endpoint";s:1:"a";s:6:"params";a:0:{}}`), "_"),
		strings.TrimPrefix(link("", `a:2:{s:8:"endpoint";s:1:"a";s:6:"params";a:1:{i:1;b:1;}}`), "_"), "5",
	}
	same(t, "ids", cfg.Jobs(), want)
}

// FuzzConfig checks that no configuration makes Parse panic, and that every error of it is for the user.
func FuzzConfig(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{
		config("", `"jobs": [{"endpoint": "u"}]`),
		config(`"pagination": {"method": "multiple", "scrollers": {"a": {"method": "offset", "limit": "5", "forceStop": {"time": "1 hour"}}}}`, `"jobs": [{"endpoint": "u", "scroller": "a"}]`),
		config(`"authentication": {"type": "login", "loginRequest": {"endpoint": "l", "params": {"x": {"attr": "#a"}}}, "expires": {"response": "x"}}`, `"#a": 1, "jobs": [{"endpoint": "u"}]`),
		config(`"http": {"headers": {"A": {"function": "sprintf", "args": ["%5d", {"attr": "a"}]}}}`, `"a": [1], "userData": 5, "mappings": {"u": {"a": "b"}}, "jobs": [{"endpoint": "u", "children": [{"endpoint": "{x}", "placeholders": {"2:x": {"path": "a", "function": "md5", "args": [{"placeholder": "value"}]}}, "recursionFilter": "a>1&b~~%x|c!=d"}]}]`),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := extractor.Parse(text)
		switch {
		case err != nil && extractor.ExitStatus(err) != 1:
			t.Errorf("exit status %d of %v", extractor.ExitStatus(err), err)
		case err == nil && len(cfg.Jobs()) == 0:
			t.Error("a configuration without jobs was taken")
		}
	})
}
