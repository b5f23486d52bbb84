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
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// waitingFile stores an event and returns the id of the file of a sink that waits.
func (s *service) waitingFile(source, sink string) string {
	s.t.Helper()
	if _, err := s.eng.Ingest(s.t.Context(), source, mapping.JSON([]byte(`{"user":{"id":1}}`))); err != nil {
		s.t.Fatal(err)
	}
	st, err := s.cat.SinkStatistics(source, sink)
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

// TestRetryAndDiscard: a table that was changed from outside is reported by the task that meets it; after it was fixed a
// retry of the sink, or of the source, imports at once; a file that nobody wants is given up.
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
	for i, path := range []string{sink + "/retry", b + "/sources/web/retry"} {
		s.want(200, "", testToken, "POST", path, "") // nothing has failed
		mem.Alter("in.c-web.events", "other")
		a := s.done("PATCH", b+"/sources/web/settings", fmt.Sprintf(`{"settings":[{"key":%q,"value":%d}]}`, count, i+3))
		if a.at("warnings.0.sinkId") != "events" || !strings.Contains(a.text, "in.c-web.events") {
			t.Errorf("task %s", a.text)
		}
		held()
		mem.Alter("in.c-web.events", columns...)
		s.want(200, "", testToken, "POST", path, "")
		<-imported // else the next attempt is minutes away
		if rows := len(mem.Rows("in.c-web.events")); rows != i+1 {
			t.Errorf("%d rows after the retry, want %d", rows, i+1)
		}
		if err := s.eng.Flush(t.Context(), "web", "events"); err != nil {
			t.Fatal(err)
		}
	}
	mem.Alter("in.c-web.events", "other")
	file := held()
	s.want(200, "", testToken, "DELETE", sink+"/files/"+file.FileID, "")
	s.want(404, "stream.api.fileNotFound", testToken, "DELETE", sink+"/files/"+file.FileID, "")
	if a := s.get(sink + "/statistics/total"); a.at("lost.discarded") != 1.0 {
		t.Errorf("statistics %s", a.text)
	}
}

// TestPayloadTestTakesWhatIngestionTakes: a body that ingestion would refuse for its size is refused, sent or decompressed.
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
