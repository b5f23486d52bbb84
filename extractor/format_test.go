package extractor_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/certtest"
)

// TestPaginationByHeaders asserts requests after links and tokens in headers.
func TestPaginationByHeaders(t *testing.T) {
	t.Parallel()
	pages := func(s string) string { return `"pagination": {` + s + `}` }
	const job = `"jobs": [{"endpoint": "a/u", "params": {"k": "v"}}]`
	const link = `"method": "response.link"`
	for _, s := range []story{
		{
			name: "links", api: pages(link), config: job,
			answers: []string{
				`Link: <http://h/a/u?page=0>; rel="prev first", <http://h/a/u?page=2&x=a,b;c>; title="rel=next, <x>"; rel="last NEXT"` + "\n" + `[1]`,
				`Link: <u?page=3>;rel=next; rel=prev` + "\n" + `[2]`, `Link: <u?page=4>; rel="prev"; rel="next", broken, <` + "\n" + `[3]`,
			},
			requests: []string{"GET /a/u?k=v", "GET /a/u?page=2&x=a,b;c", "GET /a/u?page=3"}, records: []string{`a/u: {"data":1}`, `a/u: {"data":2}`, `a/u: {"data":3}`},
		},
		{name: "links of another relation, with the parameters of the job", api: pages(link + `, "rel": "older", "includeParams": true`), config: job, answers: []string{`Link: </b?p=1>; rel="older \"quoted\""` + "\n" + `[1]`, `Link: </c>; rel=next` + "\n" + `[2]`}, requests: []string{"GET /a/u?k=v", "GET /b?p=1&k=v"}},
		{name: "no link", api: pages(link), config: job, answers: []string{`[1]`}, requests: []string{"GET /a/u?k=v"}},
		{name: "a link to nowhere", api: pages(link), config: job, answers: []string{"Link: <ftp://x/>; rel=next\n[1]"}, requests: []string{"GET /a/u?k=v"}, err: `the link at "next" in the response: the URL must begin with http`},
		{name: "tokens", api: pages(`"method": "response.header", "header": "X-Next", "queryParam": "token"`), config: job, answers: []string{"x-next: a b\n[1]", "X-Next: 2\n[2]", "X-Next: \n[3]"}, requests: []string{"GET /a/u?k=v", "GET /a/u?token=a+b", "GET /a/u?token=2"}},
		{
			name: "tokens within bodies", api: pages(`"method": "response.header", "header": "X-Next", "queryParam": "page.after", "paramDelimiter": ".", "includeParams": true`), config: `"jobs": [{"endpoint": "q", "method": "POST", "params": {"query": "{x}", "page": {"size": 2}}}]`,
			answers: []string{"X-Next: t1\n[1]", "X-Next: t2\n[2]", "[3]"}, requests: []string{`POST /q application/json {"query":"{x}","page":{"size":2}}`, `POST /q application/json {"query":"{x}","page":{"size":2,"after":"t1"}}`, `POST /q application/json {"query":"{x}","page":{"size":2,"after":"t2"}}`},
		},
		{
			name: "values of answers within bodies", api: pages(`"method": "response.param", "responseParam": "page.end", "queryParam": "variables/after", "paramDelimiter": "/", "includeParams": true`), config: `"jobs": [{"endpoint": "graphql", "method": "POST", "dataField": "data", "params": {"query": "{x}", "variables": {"first": 2}}}]`,
			answers: []string{`{"data": [1], "page": {"end": "c1"}}`, `{"data": [2]}`}, requests: []string{`POST /graphql application/json {"query":"{x}","variables":{"first":2}}`, `POST /graphql application/json {"query":"{x}","variables":{"first":2,"after":"c1"}}`},
		},
		{
			name: "offsets within bodies", api: pages(`"method": "offset", "limit": 1, "limitParam": "page.size", "offsetParam": "page.from", "paramDelimiter": "."`), config: `"jobs": [{"endpoint": "q", "method": "PUT", "params": {"page": {"size": 2}}}]`,
			answers: []string{`[1, 2]`, `[3]`}, requests: []string{`PUT /q application/json {"page":{"size":2,"from":0}}`, `PUT /q application/json {"page":{"size":2,"from":2}}`},
		},
		{name: "page numbers of a form", api: pages(`"method": "pagenum", "pageParam": "p.n", "paramDelimiter": "."`), config: `"jobs": [{"endpoint": "q", "method": "FORM", "params": {"p": "x"}}]`, answers: []string{`[1]`, `[]`}, requests: []string{`POST /q application/x-www-form-urlencoded p%5Bn%5D=1`, `POST /q application/x-www-form-urlencoded p%5Bn%5D=2`}},
		{name: "cursors within bodies", api: pages(`"method": "cursor", "idKey": "id", "param": "after.id", "paramDelimiter": "."`), config: `"jobs": [{"endpoint": "q", "method": "PATCH"}]`, answers: []string{`[{"id": 7}]`, `[]`}, requests: []string{`PATCH /q application/json []`, `PATCH /q application/json {"after":{"id":7}}`}},
	} {
		s.run(t)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	job := func(s string) string { return `"jobs": [{"endpoint": "u", "format": ` + s + `}]` }
	ask := []string{"GET /u"}
	xml := `<?xml version="1.0" encoding="ISO-8859-1"?><!-- c --><o:orders xmlns:o="urn:x" page="1"><order id="1"><name>A&amp;B ` + "\xe9" + `</name><tag>x</tag><tag>y</tag><line/></order>
		<order id="2"><![CDATA[<raw>]]><name> z </name></order></o:orders>`
	for _, s := range []story{
		{name: "CSV", config: job(`"csv"`), answers: []string{"\ufeffid,na\"\"me\r\n1,\"a \"\"b\"\"\nc\"\r\n2,\r\n"}, requests: ask, err: `the response is not CSV: parse error on line 1`},
		{name: "CSV with a header", config: job(`"csv"`), answers: []string{"\ufeffid,name\r\n1,\"a \"\"b\"\"\nc\"\r\n2,\r\n"}, requests: ask, records: []string{`u: {"id":"1","name":"a \"b\"\nc"}`, `u: {"id":"2","name":""}`}},
		{name: "CSV without a header", config: job(`{"type": "csv", "delimiter": ";", "columns": ["a", "b"]}`), answers: []string{"1;x,y\n2;z\n"}, requests: ask, records: []string{`u: {"a":"1","b":"x,y"}`, `u: {"a":"2","b":"z"}`}},
		{name: "CSV with other names", config: job(`{"type": "csv", "delimiter": "\t", "header": true, "columns": ["a", "b"]}`), answers: []string{"1\tx\n2\tz\n"}, requests: ask, records: []string{`u: {"a":"2","b":"z"}`}},
		{name: "CSV of nothing", config: job(`"csv"`), answers: []string{``}, requests: ask, records: []string{}},
		{name: "CSV of a header", config: job(`"csv"`), answers: []string{`a,b`}, requests: ask, records: []string{}},
		{name: "CSV with a short line", config: job(`"csv"`), answers: []string{"a,b\n1\n"}, requests: ask, err: "the response is not CSV: record on line 2: wrong number of fields"},
		{name: "CSV with equal names", config: job(`"csv"`), answers: []string{"a,a\n1,2\n"}, requests: ask, err: "the header: two columns have the name of column 2"},
		{name: "lines", api: `"http": {"format": "ndjson"}`, config: `"jobs": [{"endpoint": "u"}]`, answers: []string{"{\"a\": 1}\r\n\n{\"a\": [2,\t3]}"}, requests: ask, records: []string{`u: {"a":1}`, `u: {"a":[2,3]}`}},
		{name: "a line with two values", config: job(`"ndjson"`), answers: []string{"{}\n1,2\n{\"a\":1\n\"b\":2}"}, requests: ask, err: "the response is not JSON in lines: line 2 is not one JSON value"},
		{name: "the format of a job", api: `"http": {"format": "ndjson"}`, config: job(`"json"`), answers: []string{`{"d": [1]}`}, requests: ask, records: []string{`u: {"data":1}`}},
		{name: "XML", config: `"jobs": [{"endpoint": "u", "format": {"type": "xml", "lists": ["orders.order.tag"]}, "dataField": "orders.order"}]`, answers: []string{xml}, requests: ask, records: []string{
			`u: {"@id":"1","name":"A&B é","tag":["x","y"],"line":""}`, `u: {"@id":"2","name":" z ","#text":"<raw>"}`,
		}},
		{name: "XML with one element", config: `"jobs": [{"endpoint": "u", "dataField": "a", "format": {"type": "xml", "lists": ["a.b"]}}, {"endpoint": "v", "format": "xml", "dataField": "a.b"}]`, answers: []string{`<a><b>1</b></a>`, `<a><b><c>1</c></b></a>`}, requests: []string{"GET /u", "GET /v"}, records: []string{`u: {"b":["1"]}`, `v: {"c":"1"}`}},
		{name: "XML that is none", config: job(`"xml"`), answers: []string{`<a><b></a>`}, requests: ask, err: "the response is not XML: XML syntax error on line 1"},
		{name: "XML of nothing", config: job(`"xml"`), answers: []string{` `}, requests: ask, err: "the response is empty, XML is expected"},
		{name: "XML with too much depth", config: job(`"xml"`), answers: []string{strings.Repeat("<a>", 1000)}, requests: ask, err: "elements are nested too deeply"},
		{name: "XML in an unknown encoding", config: job(`"xml"`), answers: []string{`<?xml version="1.0" encoding="klingon"?><a/>`}, requests: ask, err: `the unknown character encoding "klingon"`},
		{name: "errors are JSON", api: `"http": {"answerRules": [{"statuses": [400], "path": "e", "action": "end"}]}`, config: job(`"csv"`), answers: []string{`400 {"e": 1}`}, requests: ask, records: []string{}},
		{name: "ignored errors are no CSV", api: `"http": {"ignoreErrors": [404]}`, config: job(`"csv"`), answers: []string{"404 not found\nsorry\n"}, requests: ask, records: []string{}, log: "status of a response is ignored"},
		{name: "ignored errors as records", api: `"http": {"ignoreErrors": [404], "format": "ndjson", "answerRules": [{"path": "x"}]}`, config: `"jobs": [{"endpoint": "u", "dataField": "."}, {"endpoint": "v", "dataField": "."}]`, answers: []string{"404 {}\n{}", `404 {"m": 1}`}, requests: []string{"GET /u", "GET /v"}, records: []string{`u: {"errorData":"{}\n{}"}`, `v: {"m":1}`}},
		{name: "an answer whose status is listed, but no error", api: `"http": {"ignoreErrors": [200]}`, config: job(`"csv"`), answers: []string{"a\n1\n"}, requests: ask, records: []string{`u: {"a":"1"}`}},
		{name: "errors within the format", api: `"http": {"answerRules": [{"path": "fault.code", "message": "fault.text"}]}`, config: job(`"xml"`), answers: []string{`<fault><code>9</code><text>no</text></fault>`}, requests: ask, err: `the response has an error at "fault.code": no`},
	} {
		s.run(t)
	}
}

// TestFormatsInBoundedMemory reads responses whose JSON is larger than the bound.
func TestFormatsInBoundedMemory(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 100_000)
	for format, body := range map[string]string{
		"csv": long + "\n" + strings.Repeat("x\n", 1000),
		"xml": "<a>" + strings.Repeat("<b/>", 200_000) + "</a>",
	} {
		a := newAPI(t, body)
		r := extract(t, a, config("", `"jobs": [{"endpoint": "u", "format": "`+format+`"}]`), func(_ *extractor.State, o *extractor.Options) { o.MaxResponseBytes = 1 << 20 })
		checkError(t, r.err, "memory")
	}
}

// TestCertificates talks to a server with a certificate of a private authority, which wants one of the client, and follows a link to
// another server, which must not see it.
func TestCertificates(t *testing.T) {
	t.Parallel()
	certificate, key := certtest.Pair(t)
	var mu sync.Mutex
	var seen []string
	quiet := log.New(io.Discard, "", 0)
	tlsServer := func(name string, next func() string) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf("%s %s %s %d", name, r.Method, r.RequestURI, len(r.TLS.PeerCertificates)))
			fmt.Fprintf(w, `{"d": [%d], "next_page": %q}`, len(seen), next())
		}))
		s.Config.ErrorLog = quiet
		s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	other := tlsServer("other", func() string { return "" })
	own := tlsServer("own", func() string { return other.URL + "/x" })
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate().Raw}))
	text := func(s string) string {
		quoted, _ := json.Marshal(s)
		return string(quoted)
	}
	extractWith := func(settings string) error {
		cfg, err := extractor.ParseAt([]byte(config(`"retryConfig": {"maxRetries": 0}, "pagination": {"method": "response.url"}`+settings, `"jobs": [{"endpoint": "u"}]`)), own.URL)
		if err != nil {
			return err
		}
		_, err = extractor.Run(context.Background(), cfg, extractor.State{}, extractor.Options{})
		return err
	}
	checkError(t, extractWith(""), "network failure 60")
	checkError(t, extractWith(`, "caCertificate": `+text(authority)), "")
	checkError(t, extractWith(`, "caCertificate": `+text(authority)+`, "clientCertificate": `+text(certificate)+`, "#clientKey": `+text(key)), "")
	checkError(t, extractWith(`, "caCertificate": `+text(authority)+`, "#clientCertificate": `+text(certificate+key)), "")
	mu.Lock()
	defer mu.Unlock()
	same(t, "requests", seen, []string{"own GET /u 0", "other GET /x 0", "own GET /u 1", "other GET /x 0", "own GET /u 1", "other GET /x 0"})

	cfg, err := extractor.ParseAt([]byte(config(`"caCertificate": `+text(authority), `"jobs": [{"endpoint": "u"}]`)), own.URL)
	checkError(t, err, "")
	_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: http.DefaultTransport})
	checkError(t, err, "the configuration has certificates")
}
