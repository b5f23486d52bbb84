package streamapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// waitingFile stores an event and returns the id of the file of a sink that waits.
func (s *service) waitingFile(source, sink string) string {
	s.t.Helper()
	if _, err := s.eng.Ingest(s.t.Context(), source, mapping.JSON([]byte(`{"user":{"id":1}}`))); err != nil {
		s.t.Fatal(err)
	}
	st, err := s.cat.Handle(source, sink).Statistics(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range st.Files {
		if f.State == buffer.FileWriting {
			return f.ID
		}
	}
	s.t.Fatalf("no file waits: %+v", st.Files)
	return ""
}

// TestRetryAndDiscard checks that a table that was changed from outside is reported by the task that meets it. After it was fixed a
// retry of the sink, the source or the file imports at once. A file that is not needed is given up.
func TestRetryAndDiscard(t *testing.T) {
	mem := buffertest.NewMemory()
	imported := make(chan struct{}, 10)
	mem.After = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport {
			imported <- struct{}{}
		}
		return nil
	}
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem}})
	s.done("POST", b+"/sources", webSource)
	const sink = b + "/sources/web/sinks/events"
	columns := mem.Columns("in.c-web.events")
	held := func() fileBody {
		t.Helper()
		s.waitingFile("web", "events")
		var held *buffer.HeldError
		if err := s.eng.Flush(t.Context(), "web", "events"); !errors.As(err, &held) {
			t.Fatalf("flush: %v, want a HeldError", err)
		}
		var list filesBody
		if err := json.Unmarshal([]byte(s.get(sink+"/statistics/files?failedFiles=true").text), &list); err != nil || len(list.Files) != 1 {
			t.Fatalf("files %+v, %v", list, err)
		}
		if f := list.Files[0]; f.RetryAttempt == 0 || !strings.Contains(f.RetryReason, "in.c-web.events") {
			t.Errorf("file %+v", f)
		}
		return list.Files[0]
	}
	for i, path := range []string{sink + "/retry", b + "/sources/web/retry", sink + "/files/ID/retry"} {
		if i < 2 {
			s.want(200, "", testToken, "POST", path, "") // nothing has failed
		}
		mem.Alter("in.c-web.events", datatype.UntypedColumns("other")...)
		a := s.done("PATCH", b+"/sources/web/settings", fmt.Sprintf(`{"settings":[{"key":%q,"value":%d}]}`, count, i+3))
		if a.at("warnings.0.sinkId") != "events" || !strings.Contains(a.text, "in.c-web.events") {
			t.Errorf("task %s", a.text)
		}
		path = strings.Replace(path, "ID", held().FileID, 1)
		mem.Alter("in.c-web.events", columns...)
		s.want(200, "", testToken, "POST", path, "")
		<-imported // else the next attempt is minutes away
		if rows := len(mem.Rows("in.c-web.events")); rows != i+1 {
			t.Errorf("got %d rows after the retry, want %d", rows, i+1)
		}
		must(t, s.eng.Flush(t.Context(), "web", "events"))
		if strings.Contains(path, "/files/") {
			s.want(404, "stream.api.fileNotFound", testToken, "POST", path, "") // it is in the table
		}
	}
	mem.Alter("in.c-web.events", datatype.UntypedColumns("other")...)
	file := held()
	s.want(200, "", testToken, "DELETE", sink+"/files/"+file.FileID, "")
	s.want(404, "stream.api.fileNotFound", testToken, "DELETE", sink+"/files/"+file.FileID, "")
	if a := s.get(sink + "/statistics/total"); a.at("lost.discarded") != 1.0 {
		t.Errorf("statistics %s", a.text)
	}
}

// TestSettingWithoutEffect checks that a condition above half of a bound is never met, and both the task and the settings say so.
func TestSettingWithoutEffect(t *testing.T) {
	s := newService(t, serviceOptions{engine: forebay.Options{Target: buffertest.NewMemory(), Buffer: buffer.Tuning{MaxSinkBytes: 40 << 20}}})
	s.done("POST", b+"/sources", webSource)
	const key, never = "storage.level.target.import.trigger.size", "The import size of 30MB is never reached"
	warnings := func(path string) (list []string) {
		var body settingsBody
		must(t, json.Unmarshal([]byte(s.get(path+"/settings").text), &body))
		for _, setting := range body.Settings {
			if setting.Warning != "" {
				list = append(list, setting.Key+" "+setting.Warning)
			}
		}
		return list
	}
	for _, path := range []string{b + "/sources/web/sinks/events", b + "/sources/web"} {
		a := s.done("PATCH", path+"/settings", `{"settings":[{"key":"`+key+`","value":"30MB"}]}`)
		if text, _ := a.at("result").(string); !strings.Contains(text, never) {
			t.Errorf("%s: task says %q", path, text)
		}
		if list := warnings(path); len(list) != 1 || !strings.HasPrefix(list[0], key+" "+never) {
			t.Errorf("%s: got %q, want len(list) == 1 and strings.HasPrefix(list[0], key+\" \"+never)", path, list)
		}
		a = s.done("PATCH", path+"/settings", `{"settings":[{"key":"`+key+`","value":"20MB"}]}`)
		if list := warnings(path); len(list) != 0 || strings.Contains(a.text, "never") {
			t.Errorf("%s: %q with a size that is reached: %s", path, list, a.text)
		}
	}
}

// TestPayloadTestTakesWhatIngestionTakes checks that a body that ingestion would refuse for its size is refused, sent or decompressed.
func TestPayloadTestTakesWhatIngestionTakes(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.done("POST", b+"/sources", webSource)
	body := func(size int) string { return `{"user":{"id":1},"x":"` + strings.Repeat("x", size-24) + `"}` }
	if n := len(body(1000)); n != 1000 {
		t.Fatal(n)
	}
	s.want(200, "", testToken, "POST", b+"/sources/web/test", body(stream.DefaultMaxBodyBytes))
	s.want(413, "stream.api.bodyTooLarge", testToken, "POST", b+"/sources/web/test", body(stream.DefaultMaxBodyBytes+1))
	if err := (Options{Auth: s.api.opts.Auth, IngestURL: "http://in", Ingest: stream.Options{MaxBodyBytes: 99}}).Validate(); err == nil || !strings.Contains(err.Error(), "MaxBodyBytes") {
		t.Errorf("error %v", err)
	}
}
