package streamapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// refusing is a target that refuses the rows whose second cell is "refused".
func refusing() *buffertest.Memory {
	mem := buffertest.NewMemory()
	mem.Refuse = func(_ string, row []string) driver.RowError {
		if row[1] != "refused" {
			return driver.RowError{}
		}
		return driver.RowError{Column: "user", Reason: "23514", Message: "violates the check"}
	}
	return mem
}

// heldFile puts refused+1 rows, all of which the target refuses, into a file that is held, and returns its id.
func (s *service) heldFile(source, sink string, refused int) string {
	s.t.Helper()
	_ = s.eng.Flush(s.t.Context(), source, sink)
	for range refused + 1 {
		if _, err := s.eng.Ingest(s.t.Context(), source, mapping.JSON([]byte(`{"user":{"id":"refused"}}`))); err != nil {
			s.t.Fatal(err)
		}
	}
	var held *buffer.HeldError
	if err := s.eng.Flush(s.t.Context(), source, sink); !errors.As(err, &held) {
		s.t.Fatalf("flush: %v, want a HeldError", err)
	}
	return held.FileID
}

// A file that is held says which row was refused. It is split on request, or its rows go to the quarantine if there is room.
func TestHeldFiles(t *testing.T) {
	mem := refusing()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem}})
	const sink = b + "/sources/web/sinks/events"
	s.done("POST", b+"/sources", strings.Replace(webSource, `{"type":"table"`, `{"onReject":"quarantine","quarantine":{"maxRecords":100},"type":"table"`, 1))
	total := func() float64 { n, _ := s.get(sink + "/quarantine").at("page.totalCount").(float64); return n }

	file := s.heldFile("web", "events", 40)
	list := s.get(sink + "/statistics/files?failedFiles=true")
	if list.at("files.0.fileId") != file || list.at("files.0.refused.reason") != "23514" || list.at("files.0.refused.column") != "user" {
		t.Errorf("files %s", list.text)
	}
	s.want(404, "stream.api.sourceNotFound", testToken, "GET", b+"/failed-files?sourceId=none", "")
	s.want(400, "stream.api.badRequest", testToken, "GET", b+"/failed-files?afterId=x", "")
	if all := s.get(b + "/failed-files"); all.at("totalCount") != 1.0 || all.at("files.0.fileId") != file || all.at("files.0.sourceId") != "web" || all.at("files.0.sinkId") != "events" {
		t.Errorf("files of all sinks %s", all.text)
	}
	s.want(200, "", testToken, "POST", sink+"/files/"+file+"/split", "")
	must(t, s.eng.Flush(t.Context(), "web", "events"))
	if rows := len(mem.Rows("in.c-web.events")); rows != 0 || total() != 41 {
		t.Errorf("got %d rows, %v in the quarantine, want 0, 41", rows, total())
	}
	s.want(404, "stream.api.fileNotFound", testToken, "POST", sink+"/files/"+file+"/split", "")

	file = s.heldFile("web", "events", 50)
	s.want(200, "", testToken, "POST", sink+"/files/"+file+"/quarantine", "")
	must(t, s.eng.Flush(t.Context(), "web", "events"))
	if rows := len(mem.Rows("in.c-web.events")); rows != 0 || total() != 92 {
		t.Errorf("got %d rows, %v in the quarantine, want 0, 92", rows, total())
	}

	file = s.heldFile("web", "events", 16)
	if a := s.want(409, "stream.api.quarantineIsFull", testToken, "POST", sink+"/files/"+file+"/quarantine", ""); !strings.Contains(a.text, "17 rows") {
		t.Errorf("answer %s", a.text)
	}
	s.want(200, "", testToken, "DELETE", sink+"/files/"+file, "")
}
