package streamapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
)

// ordersSink needs a whole number, and keeps events without one.
func ordersSink(member string) string {
	return `{` + member + `"type":"table","name":"Orders","table":{"type":"` + DefaultTableType + `","tableId":"in.c-shop.orders","mapping":{"columns":[
		{"type":"path","name":"price","path":"price","dataType":"int64","required":true},{"type":"body","name":"body"}]}}}`
}

const rejects = b + "/sources/shop/sinks/orders/quarantine"

// shop is a service with a source whose sink has a quarantine.
func shop(t *testing.T) (*service, *buffertest.Memory) {
	t.Helper()
	mem := buffertest.NewMemory()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem}})
	s.done("POST", b+"/sources", `{"type":"http","name":"Shop","sinks":[`+ordersSink(`"onReject":"quarantine",`)+`]}`)
	return s, mem
}

// secretOf returns the secret of the source and the address of its events.
func (s *service) secretOf(source string) (secret, address string) {
	s.t.Helper()
	src, err := s.cat.Source(source)
	if err != nil {
		s.t.Fatal(err)
	}
	address, _ = s.get(b + "/sources/" + source).at("http.url").(string)
	return src.Secret, address
}

// records lists a quarantine, page by page.
func (s *service) records(limit int, query string) (list []rejectedBody) {
	s.t.Helper()
	after := ""
	for range 1000 {
		var page rejectsBody
		a := s.get(fmt.Sprintf("%s?limit=%d&afterId=%s%s", rejects, limit, url.QueryEscape(after), query))
		if err := json.Unmarshal([]byte(a.text), &page); err != nil {
			s.t.Fatal(err)
		}
		if len(page.Records) > limit {
			s.t.Fatalf("a page of %d has %d records", limit, len(page.Records))
		}
		list = append(list, page.Records...)
		if after = page.Page.NextID; after == "" {
			return list
		}
	}
	s.t.Fatal("the list has no end")
	return nil
}

func recordIDs(list []rejectedBody) (ids []string) {
	for _, r := range list {
		ids = append(ids, r.RecordID)
	}
	return ids
}

// prices returns the first column of the table, sorted.
func (s *service) prices(mem *buffertest.Memory) (list []string) {
	s.t.Helper()
	if err := s.eng.Flush(s.t.Context(), "shop"); err != nil {
		s.t.Fatal(err)
	}
	for _, row := range mem.Rows("in.c-shop.orders") {
		list = append(list, row[0])
	}
	slices.Sort(list)
	return list
}

// onReject and the bounds of a sink are set when it is made, stay with a patch that does not name them, are changed by one that does, and
// come back with a rollback.
func TestOnReject(t *testing.T) {
	s := newService(t, serviceOptions{})
	const sink = b + "/sources/shop/sinks/orders"
	s.done("POST", b+"/sources", `{"type":"http","name":"Shop","sinks":[`+ordersSink("")+`]}`)
	_, address := s.secretOf("shop")
	want := func(status int, onReject any, bounds string) {
		t.Helper()
		a := s.get(sink)
		text, _ := json.Marshal(a.at("quarantine"))
		if a.at("onReject") != onReject || string(text) != bounds {
			t.Errorf("the sink is %s, want onReject %v and %s", a.text, onReject, bounds)
		}
		if got := s.send(address, `{}`); got != status {
			t.Errorf("an event that cannot be mapped is answered %d, want %d", got, status)
		}
	}
	want(422, nil, "null")
	s.done("PATCH", sink, `{"onReject":"quarantine","quarantine":{"maxBytes":2048,"maxRecords":3,"maxAge":"48h","dropOldest":true}}`)
	const bounds = `{"dropOldest":true,"maxAge":"48h0m0s","maxBytes":2048,"maxRecords":3}`
	want(200, "quarantine", bounds)
	s.done("PATCH", sink, `{"description":"more"}`)
	want(200, "quarantine", bounds)
	if st := s.eng.Stats().Sinks[0].Quarantine; !st.On || st.Bounds.MaxRecords != 3 || st.Bounds.MaxBytes != 2048 || st.Bounds.MaxAge.Hours() != 48 || !st.Bounds.DropOldest {
		t.Errorf("the engine has %+v", st)
	}
	s.done("PATCH", sink, `{"onReject":"refuse","quarantine":{}}`)
	want(422, nil, "null")
	s.done("PUT", sink+"/versions/2/rollback", "")
	want(200, "quarantine", bounds)
	if a := s.get(sink + "/versions/2"); a.at("content.onReject") != "quarantine" || a.at("content.quarantine.maxAge") != "48h0m0s" {
		t.Errorf("the version is %s", a.text)
	}
	for body, name := range map[string]string{
		`{"onReject":"keep"}`:                                      "stream.api.invalidEnumValue",
		`{"onReject":1}`:                                           "stream.api.invalidFieldType",
		`{"quarantine":{"maxAge":"a week"}}`:                       "stream.api.invalidFieldType",
		`{"quarantine":{"maxRecords":-1}}`:                         "stream.api.invalidRange",
		`{"quarantine":{"maxBytes":1,"maxAge":"1ms"}}`:             "stream.api.invalidRange",
		`{"quarantine":{"maxRecords":10000001,"dropOldest":true}}`: "stream.api.invalidRange",
	} {
		s.want(400, name, testToken, "PATCH", sink, body)
	}
	if a := s.do(testToken, "PATCH", sink, `{"quarantine":{"maxBytes":1,"maxAge":"1ms"}}`); !strings.Contains(a.text, "body.quarantine.maxBytes is 1, the least is 1024") || !strings.Contains(a.text, "body.quarantine.maxAge is") {
		t.Errorf("not all mistakes are named: %s", a.text)
	}
}

// The whole way of a record: kept, listed, read, tested, edited, replayed, discarded. Nothing shows a secret.
func TestRejectedRecords(t *testing.T) {
	s, mem := shop(t)
	secret, address := s.secretOf("shop")
	for i := range 25 {
		req, err := http.NewRequest(http.MethodPost, address+"?shop=7&access_token=canary", strings.NewReader(fmt.Sprintf(`{"n":%d,"price":"x%d"}`, i, i)))
		must(t, err)
		if i%5 == 0 {
			req.Body, req.ContentLength = http.NoBody, 0
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "User-Agent": "till/2", "Authorization": "canary", "X-Api-Key": "canary", "X-Forwarded-Uri": address,
		} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	all := s.records(100, "")
	if len(all) != 25 || all[0].Reason != "invalidBody" || all[1].Column != "price" || all[1].Message == "" || all[1].At == "" {
		t.Fatalf("the quarantine has %+v", all)
	}
	for _, limit := range []int{1, 7, 25, 100} {
		if got := s.records(limit, ""); !slices.Equal(recordIDs(got), recordIDs(all)) {
			t.Errorf("in pages of %d the list has %d records: %v", limit, len(got), recordIDs(got))
		}
	}
	for query, want := range map[string]int{
		"&reason=invalidBody": 5, "&reason=none": 0, "&column=price": 25, "&column=body": 0, "&text=PRICE": 25, "&text=x7": 1,
		"&content=%22PRICE%22:%22X7%22": 1, "&content=user-agent:+till": 25, "&content=shop%3D7": 25, "&content=canary": 0, "&content=x&text=x7": 1,
		"&since=2026-01-01T00:00:00Z": 25, "&until=2026-01-01T00:00:00Z": 0, "&since=9999-01-01T00:00:00%2B01:00": 0,
	} {
		for _, limit := range []int{2, 100} {
			if got := s.records(limit, query); len(got) != want {
				t.Errorf("%s in pages of %d: got %d records, want %d", query, limit, len(got), want)
			}
		}
	}

	one := rejects + "/" + all[1].RecordID
	a := s.get(one)
	if a.at("body") != `{"n":1,"price":"x1"}` || a.at("request.method") != "POST" || a.at("request.path") != "/stream/7/shop/" ||
		a.at("request.query") != "shop=7&access_token=***" || a.at("request.headers.User-Agent.0") != "till/2" || a.at("original") != nil {
		t.Errorf("the record is %s", a.text)
	}
	if removed, _ := a.at("request.removedHeaders").([]any); len(removed) != 3 {
		t.Errorf("removed headers %v", removed)
	}
	if strings.Contains(a.text, secret) || strings.Contains(a.text, "canary") {
		t.Errorf("the record shows a secret: %s", a.text)
	}
	if empty := s.get(rejects + "/" + all[0].RecordID); empty.at("body") != "" {
		t.Errorf("the empty body is %v", empty.at("body"))
	}
	a = s.want(200, "", testToken, "POST", one+"/test", "")
	if a.at("passes") != false || a.at("columns.0.reason") != all[1].Reason || a.at("columns.1.value") != `{"n":1,"price":"x1"}` {
		t.Errorf("the test says %s", a.text)
	}
	if a := s.want(200, "", testToken, "POST", one+"/replay", ""); a.at("rejected") != 1.0 || a.at("replayed") != 0.0 {
		t.Errorf("the replay says %s", a.text)
	}

	s.want(409, "stream.api.recordChanged", testToken, "PUT", one+"/body?revision=0", `{"price":1}`)
	s.want(409, "stream.api.recordChanged", testToken, "PUT", one+"/body?revision=7", `{"price":1}`)
	if a := s.want(200, "", testToken, "PUT", one+"/body?revision=1", `{"price":101}`); a.at("body") != `{"price":101}` || a.at("original") != `{"n":1,"price":"x1"}` ||
		a.at("record.edited") != true || a.at("record.revision") != 2.0 || a.at("record.failed") != 1.0 ||
		a.at("record.editedBy") != "test" || a.at("record.editedAt") == nil {
		t.Errorf("after the edit: %s", a.text)
	}
	if a := s.want(200, "", testToken, "POST", one+"/test", ""); a.at("passes") != true || a.at("columns.0.value") != "101" {
		t.Errorf("the test says %s", a.text)
	}
	if a := s.want(200, "", testToken, "POST", one+"/replay", ""); a.at("replayed") != 1.0 {
		t.Errorf("the replay says %s", a.text)
	}
	for _, method := range []string{"POST " + one + "/replay", "POST " + one + "/test", "GET " + one, "DELETE " + one, "PUT " + one + "/body?revision=2"} {
		verb, path, _ := strings.Cut(method, " ")
		s.want(404, "stream.api.recordNotFound", testToken, verb, path, "{}")
	}

	// A body that is not UTF-8 is shown as base64, before an edit and after it.
	two := rejects + "/" + all[2].RecordID
	if a := s.want(200, "", testToken, "PUT", two+"/body?revision=0", "\xff\xfe"); a.at("body") != nil || a.at("bodyBase64") != "//4=" {
		t.Errorf("after the edit: %s", a.text)
	}
	s.want(200, "", testToken, "PUT", two+"/body?revision=1", `{"price":102}`)

	// A selection by ids. Two of three are there.
	ids, _ := json.Marshal([]string{all[1].RecordID, all[2].RecordID, all[3].RecordID, all[3].RecordID})
	task := s.done("POST", rejects+"/replay", `{"recordIds":`+string(ids)+`}`)
	if task.at("rejects.replayed") != 1.0 || task.at("rejects.rejected") != 1.0 || task.at("rejects.gone") != 1.0 {
		t.Errorf("the task says %s", task.text)
	}
	task = s.done("POST", rejects+"/discard", `{"filter":{"reason":"invalidBody"},"reason":"sent by a probe"}`)
	if task.at("rejects.discarded") != 5.0 || task.at("discard.by") != "test" || task.at("discard.reason") != "sent by a probe" {
		t.Errorf("the task says %s", task.text)
	}
	s.want(400, "stream.api.invalidLength", testToken, "POST", rejects+"/discard", `{"all":true,"reason":"`+strings.Repeat("x", 1001)+`"}`)
	s.want(400, "stream.api.invalidLength", testToken, "DELETE", rejects+"/"+all[4].RecordID+"?reason="+strings.Repeat("x", 1001), "")
	s.want(200, "", testToken, "DELETE", rejects+"/"+all[4].RecordID+"?reason=a+test", "")

	// The others fit another definition, with the text as it is.
	s.done("PATCH", b+"/sources/shop/sinks/orders", `{"table":{"mapping":{"columns":[
		{"type":"path","name":"price","path":"n","dataType":"int64","required":true},{"type":"body","name":"body"}]}}}`)
	task = s.done("POST", rejects+"/replay", `{"all":true}`)
	if task.at("rejects.replayed") != 17.0 || !strings.Contains(task.text, "17 rejected records have become rows.") {
		t.Errorf("the task says %s", task.text)
	}
	want := []string{"101", "102"}
	for i := range 25 {
		if i > 2 && i != 4 && i%5 != 0 {
			want = append(want, fmt.Sprint(i))
		}
	}
	slices.Sort(want)
	if got := s.prices(mem); !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
	if a := s.get(b + "/sources/shop/sinks/orders/statistics/total"); a.at("quarantine.records") != 0.0 || a.at("quarantine.added") != 25.0 ||
		a.at("quarantine.replayed") != 19.0 || a.at("quarantine.discarded") != 6.0 {
		t.Errorf("the statistics are %s", a.text)
	}
	if report, err := s.eng.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("got %+v, %v, want no error and report.OK()", report, err)
	}
}

// Every member of the project may see the reasons of rejections. Only members who may change something see the sent data.
func TestRightsToRejectedRecords(t *testing.T) {
	s, _ := shop(t)
	_, address := s.secretOf("shop")
	s.send(address, `{"price":"canary-1"}`)
	id := s.records(10, "")[0].RecordID
	s.want(200, "", readerToken, "GET", rejects+"?text=price", "")
	s.want(403, "stream.api.forbidden", readerToken, "GET", rejects+"?content=canary-1", "") // page by page it would tell the body
	for _, op := range []string{
		"GET /" + id, "POST /" + id + "/test", "POST /" + id + "/replay", "PUT /" + id + "/body?revision=0", "DELETE /" + id, "POST /replay", "POST /discard",
	} {
		method, path, _ := strings.Cut(op, " ")
		body := ""
		if path == "/replay" || path == "/discard" {
			body = `{"all":true}`
		}
		for token, want := range map[string]int{readerToken: 403, limitedToken: 401, foreignToken: 401, "none": 401} {
			a := s.do(token, method, rejects+path, body)
			if a.status != want || strings.Contains(a.text, "canary") {
				t.Errorf("%s with the token %s: got %d %s, want %d", op, token, a.status, a.text, want)
			}
		}
	}
	if got := s.records(10, ""); len(got) != 1 || got[0].Revision != 0 {
		t.Errorf("the quarantine has %+v", got)
	}
}

// What no client of good will sends is refused with its reason, and changes nothing.
func TestHostileRequestsToAQuarantine(t *testing.T) {
	s, _ := shop(t)
	_, address := s.secretOf("shop")
	s.send(address, `{}`)
	id := s.records(10, "")[0].RecordID
	for _, query := range []string{
		"limit=0", "limit=101", "limit=x", "since=yesterday", "until=2026-13-01T00:00:00Z", "afterId=x", "afterId=x-x", "afterId=a-x0~b-x1",
		"afterId=" + url.QueryEscape(id+","+id), "afterId=" + url.QueryEscape(strings.Repeat(id+",", 4000)), "afterId=%00-x%00",
	} {
		if a := s.do(testToken, "GET", rejects+"?"+query, ""); a.status != 400 {
			t.Errorf("got %.80s: %d %.200s, want 400", query, a.status, a.text)
		}
	}
	for _, record := range []string{"x", "-x1", "%00", "..%2f..", strings.Repeat("9", 4000), id + "0", id[:len(id)-1], "%27%22%3B--", "ä-x000000000001"} {
		for _, op := range []string{"GET /%s", "POST /%s/test", "POST /%s/replay", "DELETE /%s", "PUT /%s/body?revision=0"} {
			method, path, _ := strings.Cut(op, " ")
			if a := s.do(testToken, method, rejects+fmt.Sprintf(path, record), "{}"); a.status != 404 {
				t.Errorf("got %s %.80s: %d %.200s, want 404", method, record, a.status, a.text)
			}
		}
	}
	for _, query := range []string{"", "?revision=", "?revision=-1", "?revision=x", "?revision=99999999999999999999"} {
		if a := s.do(testToken, "PUT", rejects+"/"+id+"/body"+query, "{}"); a.status != 400 {
			t.Errorf("an edit with %q: %d %s", query, a.status, a.text)
		}
	}
	s.want(413, "stream.api.bodyTooLarge", testToken, "PUT", rejects+"/"+id+"/body?revision=0", strings.Repeat("x", 1<<20+1))
	many, _ := json.Marshal(slices.Repeat([]string{id}, 10_001))
	for _, body := range []string{
		"", "{}", "[]", `{"all":false}`, `{"filter":{}}`, `{"recordIds":[]}`, `{"all":true,"recordIds":["` + id + `"]}`, `{"filter":{"since":"x"}}`,
		`{"recordIds":"` + id + `"}`, `{"all":1}`, `{"recordIds":` + string(many) + `}`,
	} {
		for _, verb := range []string{"/replay", "/discard"} {
			if a := s.do(testToken, "POST", rejects+verb, body); a.status != 400 {
				t.Errorf("%s of %.80s: got %d %.200s, want 400", verb, body, a.status, a.text)
			}
		}
	}
	for _, path := range []string{"/sources/none/sinks/orders", "/sources/shop/sinks/none"} {
		for _, op := range []string{"GET /quarantine", "GET /quarantine/" + id, "POST /quarantine/replay", "DELETE /quarantine/" + id} {
			method, rest, _ := strings.Cut(op, " ")
			if a := s.do(testToken, method, b+path+rest, `{"all":true}`); a.status != 404 {
				t.Errorf("got %s%s: %d %s, want 404", path, rest, a.status, a.text)
			}
		}
	}
	if got := s.records(10, ""); len(got) != 1 || got[0].Revision != 0 {
		t.Errorf("the quarantine has %+v", got)
	}
}

// A sink that is disabled keeps its records and maps nothing.
func TestQuarantineOfADisabledSink(t *testing.T) {
	s, _ := shop(t)
	_, address := s.secretOf("shop")
	s.send(address, `{}`)
	s.send(address, `{}`)
	list := s.records(10, "")
	s.done("PUT", b+"/sources/shop/disable", "")
	for _, path := range []string{"/" + list[0].RecordID + "/test", "/" + list[0].RecordID + "/replay", "/replay"} {
		s.want(409, "stream.api.sinkDisabled", testToken, "POST", rejects+path, `{"all":true}`)
	}
	s.want(200, "", testToken, "PUT", rejects+"/"+list[0].RecordID+"/body?revision=0", `{"price":1}`)
	s.want(200, "", testToken, "DELETE", rejects+"/"+list[1].RecordID, "")
	s.done("PUT", b+"/sources/shop/enable", "")
	if a := s.want(200, "", testToken, "POST", rejects+"/"+list[0].RecordID+"/replay", ""); a.at("replayed") != 1.0 {
		t.Errorf("the replay says %s", a.text)
	}
}

// A row that the target has refused is listed with its words, and goes the same way. An edit names cells, one that does not fit is 400.
func TestRefusedRowOverTheAPI(t *testing.T) {
	s, mem := shop(t)
	mem.Refuse = func(_ string, row []string) driver.RowError {
		if len(row[0]) > 3 {
			return driver.RowError{Column: "price", Reason: "22003", Message: "out of range"}
		}
		return driver.RowError{}
	}
	_, address := s.secretOf("shop")
	for _, price := range []string{"1", "5000"} {
		s.send(address, `{"price":`+price+`}`)
	}
	if got := s.prices(mem); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the table has %q", got)
	}
	list := s.records(10, "&reason=22003")
	if len(list) != 1 || list[0].RefusedRow == nil || list[0].RefusedRow.Row != 1 || list[0].RefusedRow.FileID == "" || list[0].Message != "out of range" {
		t.Fatalf("the quarantine has %+v", list)
	}
	one := rejects + "/" + list[0].RecordID
	if a := s.get(one); a.at("body") != `{"price":"5000","body":"{\"price\":5000}"}` {
		t.Errorf("the record is %s", a.text)
	}
	for _, body := range []string{`{"price":"x"}`, `{"other":"1"}`, `[]`, ``} {
		s.want(400, "stream.api.badRequest", testToken, "PUT", one+"/body?revision=0", body)
	}
	s.want(200, "", testToken, "PUT", one+"/body?revision=0", `{"price":"50"}`)
	if a := s.want(200, "", testToken, "POST", one+"/test", ""); a.at("passes") != true || a.at("columns.0.value") != "50" {
		t.Errorf("the test says %s", a.text)
	}
	if a := s.want(200, "", testToken, "POST", one+"/replay", ""); a.at("replayed") != 1.0 {
		t.Errorf("the replay says %s", a.text)
	}
	if got := s.prices(mem); !slices.Equal(got, []string{"1", "50"}) {
		t.Errorf("the table has %q", got)
	}
}
