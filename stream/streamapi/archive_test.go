package streamapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
)

const archiveOn = `{"settings":[{"key":"archive.enabled","value":true}]}`

// slowReplay starts a replay of four events into a sink, which waits for hours after the first one. Started again it stores one more.
func (s *service) slowReplay(source, sink string) response {
	s.t.Helper()
	s.done("PATCH", b+"/sources/"+source+"/settings", archiveOn)
	_, address := s.secretOf(source)
	for range 4 {
		if status := s.send(address, `{}`); status != 200 && status != 202 {
			s.t.Fatalf("status %d", status)
		}
	}
	return s.want(202, "", testToken, "POST", b+"/sources/"+source+"/sinks/"+sink+"/archive/replay", `{"run":"slow","rowsPerSecond":0.0001}`)
}

func (s *service) replayOf(a response) (r replayState) {
	s.t.Helper()
	var body struct{ Replay *replayState }
	if err := json.Unmarshal([]byte(a.text), &body); err != nil || body.Replay == nil {
		s.t.Fatalf("%s: got %v, want a replay", a.text, err)
	}
	return *body.Replay
}

// A replay of an archive that does not exist ends with an error that names it.
func TestReplayOfUnknownArchive(t *testing.T) {
	s := newService(t, serviceOptions{engine: forebay.Options{Target: buffertest.NewMemory(), Archive: dir.Archive(t.TempDir(), dir.ArchiveOptions{})}})
	s.done("POST", b+"/sources", webSource)
	a := s.want(202, "", testToken, "POST", b+"/sources/web/sinks/events/archive/replay", `{"run":"r","sourceId":"wbe"}`)
	task, err := s.ended(a.body["taskId"].(string))
	if err != nil || task.Status != catalog.Failed || task.Code != catalog.BadRequest || !strings.Contains(task.Failure, `"wbe"`) {
		t.Errorf("the task ends as %+v, %v, want a failure with the code %s that names the archive", task, err, catalog.BadRequest)
	}
}

// A source keeps its raw events by a setting. A new sink gets them by a task, each once for each run.
func TestArchive(t *testing.T) {
	mem := buffertest.NewMemory()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem, Archive: dir.Archive(t.TempDir(), dir.ArchiveOptions{})}})
	s.done("POST", b+"/sources", `{"type":"http","name":"Shop"}`)
	s.done("PATCH", b+"/sources/shop/settings", archiveOn)
	if a := s.get(b + "/sources/shop/settings"); a.at("settings.0.key") != "archive.enabled" || a.at("settings.0.value") != true {
		t.Errorf("settings %s", a.text)
	}
	_, address := s.secretOf("shop")
	var want []string
	for i := range 30 {
		body := fmt.Sprintf(`{"price":%d}`, i)
		if i%10 == 3 {
			body = `{"price":"none"}`
		} else {
			want = append(want, fmt.Sprint(i))
		}
		if status := s.send(address, body); status != 200 {
			t.Fatalf("status %d", status)
		}
	}
	s.done("POST", b+"/sources/shop/sinks", ordersSink(`"onReject":"quarantine",`))
	const replay, runs = b + "/sources/shop/sinks/orders/archive/replay", b + "/sources/shop/sinks/orders/archive/runs"
	if a := s.get(runs); len(a.body["runs"].([]any)) != 0 {
		t.Errorf("before the first run there are %s", a.text)
	}
	for range 2 {
		a := s.done("POST", replay, `{"run":"first"}`)
		if r := s.replayOf(a); r.Run != "first" || r.SourceID != "shop" || r.Records != 30 || r.Stored != 27 || r.Quarantined != 3 || r.EndedAt == "" {
			t.Errorf("the replay is %s", a.text)
		}
		if text := a.at("result"); text != "30 archived records were read, 27 have become rows. 3 were rejected, 3 of them are in the quarantine." {
			t.Errorf("result %q", text)
		}
	}
	slices.Sort(want)
	if got := s.prices(mem); !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	s.done("POST", replay, `{"run":"second","from":"2000-01-01T00:00:00Z","to":"2001-01-01T00:00:00+01:00"}`)
	if a := s.get(runs); a.at("runs.0.run") != "first" || a.at("runs.1.run") != "second" || a.at("runs.1.records") != 0.0 || a.at("runs.1.to") != "2000-12-31T23:00:00.000Z" {
		t.Errorf("runs %s", a.text)
	}
	for body, name := range map[string]string{
		`{"run":"A b"}`:                  "stream.api.badRequest",
		`{"run":""}`:                     "stream.api.invalidLength",
		`{}`:                             "stream.api.missingField",
		`{"run":"x","from":"today"}`:     "stream.api.invalidFieldType",
		`{"run":"x","rowsPerSecond":-1}`: "stream.api.invalidRange",
		`{"run":"x","sourceId":"../x"}`:  "stream.api.badRequest",
		`{"run":"x","from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z"}`: "stream.api.badRequest",
	} {
		s.want(400, name, testToken, "POST", replay, body)
	}
	if a := s.task("POST", replay, `{"run":"first","from":"2026-01-01T00:00:00Z"}`); a.at("status") != "error" || a.at("errorName") != "stream.api.badRequest" {
		t.Errorf("a run with other options: %s", a.text)
	}
	s.done("PUT", b+"/sources/shop/sinks/orders/disable", "")
	s.want(409, "stream.api.sinkDisabled", testToken, "POST", replay, `{"run":"third"}`)

	// A service that has lost its archive does not take the events of the source as if it were kept.
	s.stop()
	archive := s.opts.engine.Archive
	s.opts.engine.Archive = nil
	s.start()
	_, address = s.secretOf("shop")
	if status := s.send(address, `{}`); status != 404 {
		t.Errorf("without an archive the status is %d", status)
	}
	s.stop()
	s.opts.engine.Archive = archive
	s.start()
	_, address = s.secretOf("shop")
	if status := s.send(address, `{}`); status != 200 {
		t.Errorf("with the archive again the status is %d", status)
	}
}

// A replay excludes a second replay of its sink, shows its progress, and continues after its last stored record after it was cancelled, or when the
// service was stopped.
func TestReplayGoesOn(t *testing.T) {
	mem := buffertest.NewMemory()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem, Archive: dir.Archive(t.TempDir(), dir.ArchiveOptions{})}})
	s.done("POST", b+"/sources", `{"type":"http","name":"Shop","sinks":[`+strings.Replace(webSink, "in.c-web.", "in.c-shop.", 1)+`]}`)
	const replay = b + "/sources/shop/sinks/events/archive/replay"
	task := s.slowReplay("shop", "events")
	address := "/v1/tasks/" + task.body["taskId"].(string)
	await := func(stored int64) {
		t.Helper()
		for {
			a := s.get(address)
			switch n := s.replayOf(a).Stored; {
			case n == stored:
				return
			case n > stored || a.at("status") != "processing":
				t.Fatalf("waited for %d rows: %s", stored, a.text)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	await(1)
	s.want(409, "stream.api.taskIsRunning", testToken, "POST", replay, `{"run":"other"}`)
	s.stop()
	s.start()
	await(2)
	s.want(409, "stream.api.taskIsRunning", testToken, "POST", replay, `{"run":"other"}`)
	s.want(200, "", testToken, "DELETE", replay, "")
	if _, err := s.ended(task.body["taskId"].(string)); err != nil {
		t.Fatal(err)
	}
	if a := s.get(address); a.at("status") != "error" || s.replayOf(a).Stored != 2 || !strings.Contains(a.text, "cancelled") {
		t.Errorf("after the cancellation: %s", a.text)
	}
	s.want(404, "stream.api.taskNotFound", testToken, "DELETE", replay, "")
	if a := s.done("POST", replay, `{"run":"slow"}`); s.replayOf(a).Stored != 4 {
		t.Errorf("at the end: %s", a.text)
	}
}

// Without an archive a source cannot keep its raw events, and nothing is replayed.
func TestNoArchive(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.done("POST", b+"/sources", webSource)
	if a := s.want(400, "stream.api.badRequest", testToken, "PATCH", b+"/sources/web/settings", archiveOn); !strings.Contains(a.text, "no archive") {
		t.Errorf("got %s, want strings.Contains(a.text, \"no archive\")", a.text)
	}
	if a := s.task("POST", b+"/sources/web/sinks/events/archive/replay", `{"run":"x"}`); a.at("status") != "error" || a.at("errorName") != "stream.api.badRequest" {
		t.Errorf("got %s, want a.at(\"status\") == \"error\" and a.at(\"errorName\") == \"stream.api.badRequest\"", a.text)
	}
}
