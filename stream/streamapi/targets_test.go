package streamapi

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
)

// The member target of a table is set when the sink is made, stays with a patch that does not name it, moves the sink with one that does, and comes back
// with a rollback. Waiting rows go to the previous target. Responses about tables of the default target do not have the member.
func TestTableTarget(t *testing.T) {
	folder := t.TempDir()
	app, lake := dir.Tables(filepath.Join(folder, "app")), dir.Tables(filepath.Join(folder, "lake"))
	s := newService(t, serviceOptions{engine: forebay.Options{Target: app, Targets: map[string]driver.Target{"lake": lake}}})
	body := func(name, member string) string {
		return strings.Replace(sinkBodyOf(name, "web"), `"table":{`, `"table":{`+member, 1)
	}
	s.done("POST", b+"/sources", `{"type":"http","name":"web","sinks":[`+body("a", `"target":"lake",`)+`,`+body("b", ``)+`]}`)
	s.done("POST", b+"/sources/web/sinks", body("c", `"target":"lake",`))
	url := s.get(b + "/sources/web").at("http.url").(string)
	want := func(sink string, target any) {
		t.Helper()
		if a := s.get(b + "/sources/web/sinks/" + sink); a.at("table.target") != target || target == nil && strings.Contains(a.text, "target") {
			t.Errorf("sink %s has the target %v, want %v: %s", sink, a.at("table.target"), target, a.text)
		}
	}
	want("a", "lake")
	want("b", nil)
	want("c", "lake")
	s.done("PATCH", b+"/sources/web/sinks/a", `{"table":{"extend":true}}`)
	want("a", "lake")
	s.send(url, `{"n":1}`)
	s.done("PATCH", b+"/sources/web/sinks/a", `{"table":{"target":""}}`)
	want("a", nil)
	s.send(url, `{"n":2}`)
	s.done("PUT", b+"/sources/web/sinks/a/versions/2/rollback", "")
	want("a", "lake")
	s.send(url, `{"n":3}`)
	const unknown = `table.target is "sea", must be one of ["lake"] or left out`
	for _, r := range [][3]string{
		{"POST", "/sources/web/sinks", body("d", `"target":"sea",`)},
		{"PATCH", "/sources/web/sinks/a", `{"table":{"target":"sea"}}`},
		{"POST", "/sources", `{"type":"http","name":"other","sinks":[` + body("d", `"target":"sea",`) + `]}`},
	} {
		if a := s.want(400, "stream.api.badRequest", testToken, r[0], b+r[1], r[2]); !strings.Contains(a.at("message").(string), unknown) {
			t.Errorf("%s %s: got %s, want %s", r[0], r[1], a.text, unknown)
		}
	}
	must(t, s.eng.FlushAll(t.Context()))
	if a, b := bodiesIn(app), bodiesIn(lake); !slices.Equal(a, []string{`{"n":2}`}) || !slices.Equal(b, []string{`{"n":1}`, `{"n":3}`}) {
		t.Errorf("the default target has %q, the lake has %q", a, b)
	}
}

// A table is copied to another target, compared and switched over the API.
func TestSwitchToACopy(t *testing.T) {
	folder := t.TempDir()
	app, lake := dir.Tables(filepath.Join(folder, "app")), dir.Tables(filepath.Join(folder, "lake"))
	s := newService(t, serviceOptions{engine: forebay.Options{Target: app, Targets: map[string]driver.Target{"lake": lake}}})
	const path = b + "/sources/web/sinks/a"
	s.done("POST", b+"/sources", `{"type":"http","name":"web","sinks":[`+sinkBodyOf("a", "web")+`]}`)
	url := s.get(b + "/sources/web").at("http.url").(string)
	s.send(url, `{"n":1}`)
	s.done("POST", b+"/sources/web/sinks", strings.NewReplacer(`"name":"a"`, `"sinkId":"copy","name":"a"`, `"table":{`, `"table":{"target":"lake",`).Replace(sinkBodyOf("a", "web")))
	for body, name := range map[string]string{
		`{}`:           "stream.api.missingField",
		`{"copy":"a"}`: "stream.api.badRequest",
		`{"copy":""}`:  "stream.api.invalidLength",
		`{"copy":"copy","mapping":{"columns":[{"type":"body","name":"body"}]}}`: "stream.api.badRequest",
	} {
		s.want(400, name, testToken, "POST", path+"/shadow", body)
	}
	s.want(404, "stream.api.sinkNotFound", testToken, "POST", path+"/shadow", `{"copy":"none"}`)
	s.want(404, "stream.api.sinkNotFound", testToken, "PUT", path+"/copies/none/switch", "")
	s.want(400, "stream.api.badRequest", testToken, "PUT", path+"/copies/a/switch", "")
	s.want(200, "", testToken, "POST", path+"/shadow", `{"copy":"copy"}`)
	s.send(url, `{"n":2}`)
	if a := s.want(200, "", testToken, "DELETE", path+"/shadow", ""); a.at("compared") != 1.0 || a.at("equal") != 1.0 {
		t.Errorf("the report is %s", a.text)
	}
	s.done("PUT", path+"/copies/copy/switch", "")
	s.send(url, `{"n":3}`)
	if a := s.get(path); a.at("table.target") != "lake" {
		t.Errorf("the sink is %s", a.text)
	}
	s.want(404, "stream.api.sinkNotFound", testToken, "GET", b+"/sources/web/sinks/copy", "")
	must(t, s.eng.FlushAll(t.Context()))
	if a, b := bodiesIn(app), bodiesIn(lake); !slices.Equal(a, []string{`{"n":1}`, `{"n":2}`}) || !slices.Equal(b, []string{`{"n":2}`, `{"n":3}`}) {
		t.Errorf("the default target has %q, the lake has %q", a, b)
	}
}

// bodiesIn returns the last cells of the table of the sink "a".
func bodiesIn(tables *dir.TableDir) (list []string) {
	for row := range tables.Cells("in.c-web.a") {
		list = append(list, string(row[len(row)-1]))
	}
	slices.Sort(list)
	return list
}
