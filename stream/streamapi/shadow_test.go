package streamapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
)

// A shadow compares other columns with the columns of a sink on live events, reports the differences, and stores nothing.
func TestShadow(t *testing.T) {
	mem := buffertest.NewMemory()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem}})
	s.done("POST", b+"/sources", `{"type":"http","name":"Shop"}`)
	s.done("POST", b+"/sources/shop/sinks", ordersSink(""))
	const path = b + "/sources/shop/sinks/orders/shadow"
	column := func(more string) string {
		return `{"mapping":{"columns":[{"type":"path","name":"price","path":"cost","dataType":"int64"},{"type":"path","name":"pin","path":"pin","dataType":"string","secret":true}]}` + more + `}`
	}
	s.want(404, "stream.api.shadowNotFound", testToken, "GET", path, "")
	for body, name := range map[string]string{
		`{}`:                         "stream.api.missingField",
		`{"mapping":{"columns":[]}}`: "stream.api.invalidLength",
		column(`,"sample":2`):        "stream.api.invalidRange",
		column(`,"seconds":86401`):   "stream.api.invalidRange",
		strings.Replace(column(""), `"int64"`, `"float"`, 1):   "stream.api.badRequest",
		`{"mapping":{"columns":[{"type":"path","name":"x"}]}}`: "stream.api.missingField",
	} {
		s.want(400, name, testToken, "POST", path, body)
	}
	if a := s.want(200, "", testToken, "POST", path, column(`,"records":3,"seconds":3600`)); a.at("sinkId") != "orders" || a.at("end") != nil || a.at("seen") != 0.0 {
		t.Errorf("at the start %s", a.text)
	}
	s.want(409, "stream.api.shadowIsRunning", testToken, "POST", path, column(""))
	_, address := s.secretOf("shop")
	for _, event := range []string{`{"price":1,"cost":1,"pin":"canary"}`, `{"price":2,"cost":20,"pin":"canary"}`, `{"price":3,"pin":"canary"}`} {
		if status := s.send(address, event); status != 200 {
			t.Fatalf("%s: status %d, want 200", event, status)
		}
	}
	a := s.want(200, "", testToken, "DELETE", path, "")
	if a.at("end") != "records" && a.at("end") != "closed" || a.at("compared") != 3.0 || a.at("equal") != 1.0 || a.at("different") != 2.0 {
		t.Errorf("the report is %s", a.text)
	}
	if a.at("columns.0.name") != "price" || a.at("columns.0.examples.0.current") != "2" || a.at("columns.0.examples.0.changed") != "20" ||
		a.at("columns.0.examples.1.changed") != nil || a.at("columns.1.new") != true {
		t.Errorf("the columns are %s", a.text)
	}
	if again := s.get(path); again.text != a.text || strings.Contains(a.text, "canary") {
		t.Errorf("the last report is %s", again.text)
	}
	if rows := s.prices(mem); fmt.Sprint(rows) != "[1 2 3]" {
		t.Errorf("rows %q", rows)
	}

	// Another definition of the sink ends its shadow. A report does not outlive its source.
	s.want(200, "", testToken, "POST", path, column(""))
	s.done("PATCH", b+"/sources/shop/sinks/orders", `{"table":{"tableId":"in.c-shop.orders2","mapping":{"columns":[{"type":"body","name":"body"}]}}}`)
	if a := s.get(path); a.at("end") != "redefined" {
		t.Errorf("after another definition %s", a.text)
	}
	s.task("DELETE", b+"/sources/shop?cascade=true", "") // its table stays because the target cannot drop it
	s.done("POST", b+"/sources", `{"type":"http","name":"Shop"}`)
	s.done("POST", b+"/sources/shop/sinks", ordersSink(""))
	s.want(404, "stream.api.shadowNotFound", testToken, "GET", path, "")
	s.done("PUT", b+"/sources/shop/sinks/orders/disable", "")
	s.want(409, "stream.api.sinkDisabled", testToken, "POST", path, column(""))
}

// An engine has few shadows at a time. Ended shadows leave their place, and their reports stay.
func TestManyShadows(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.done("POST", b+"/sources", `{"type":"http","name":"Shop"}`)
	path := func(i int) string { return fmt.Sprintf("%s/sources/shop/sinks/s%d", b, i) }
	const body = `{"mapping":{"columns":[{"type":"body","name":"b"}]}}`
	const most = 8
	for i := range most + 1 {
		sink := strings.NewReplacer(`"Events"`, fmt.Sprintf(`"S%d"`, i), "in.c-web.", fmt.Sprintf("in.c-s%d.", i)).Replace(webSink)
		s.done("POST", b+"/sources/shop/sinks", sink)
		if i < most {
			s.want(200, "", testToken, "POST", path(i)+"/shadow", body)
		}
	}
	s.want(409, "stream.api.shadowCountLimitReached", testToken, "POST", path(most)+"/shadow", body)
	s.want(200, "", testToken, "DELETE", path(0)+"/shadow", "")
	s.want(200, "", testToken, "POST", path(most)+"/shadow", body)
	if a := s.get(path(0) + "/shadow"); a.at("end") != "closed" {
		t.Errorf("the report of the first is %s", a.text)
	}
}
