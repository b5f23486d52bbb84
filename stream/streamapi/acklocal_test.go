package streamapi

import (
	"strings"
	"testing"
)

// ackLocal of a sink is set when it is made, stays with a patch that does not name it, is changed by one that does, and comes back with a
// rollback. Responses about sinks that never had it do not show it.
func TestAckLocal(t *testing.T) {
	s := newService(t, serviceOptions{})
	with := func(name, member string) string {
		return strings.Replace(sinkBodyOf(name, "web"), `{"type"`, `{`+member+`"type"`, 1)
	}
	s.done("POST", b+"/sources", `{"type":"http","name":"web","sinks":[`+with("a", `"ackLocal":true,`)+`,`+with("b", ``)+`]}`)
	s.done("POST", b+"/sources/web/sinks", with("c", `"ackLocal":true,`))
	want := func(sink string, local any) {
		t.Helper()
		if a := s.get(b + "/sources/web/sinks/" + sink); a.at("ackLocal") != local {
			t.Errorf("sink %s has ackLocal %v, want %v: %s", sink, a.at("ackLocal"), local, a.text)
		}
	}
	want("a", true)
	want("b", nil)
	want("c", true)
	s.done("PATCH", b+"/sources/web/sinks/a", `{"description":"more"}`)
	want("a", true)
	s.done("PATCH", b+"/sources/web/sinks/a", `{"ackLocal":false}`)
	want("a", nil)
	s.done("PUT", b+"/sources/web/sinks/a/versions/2/rollback", "")
	want("a", true)
	s.done("PATCH", b+"/sources/web/sinks/b", `{"ackLocal":true}`)
	want("b", true)
	s.want(400, "stream.api.invalidFieldType", testToken, "PATCH", b+"/sources/web/sinks/b", `{"ackLocal":"yes"}`)
}
