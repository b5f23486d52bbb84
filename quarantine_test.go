package forebay_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// keeping gives the first sink of events, which needs a field id, a quarantine.
func keeping(s *forebay.Source) { s.Sinks[0].OnReject = forebay.Quarantine }

// lenient replaces its columns by columns that take every event.
func lenient(s *forebay.Source) {
	s.Sinks[0].Table.Columns = mapping.Columns{
		mapping.Path("id", "id", mapping.Default("none")), mapping.Path("user", "user.name", mapping.RawString(), mapping.Default("")),
	}
}

func rejectedOf(t *testing.T, e *forebay.Engine, f forebay.RejectedFilter) (all []forebay.RejectedRecord) {
	t.Helper()
	for r, err := range e.Sink("web", "users").Quarantine().List(t.Context(), f) {
		must(t, err)
		all = append(all, r)
	}
	return all
}

const good, bad = `{"id":1,"user":{"name":"Ada"}}`, `{"user":{"name":"Bob"}}`

// A record that one sink cannot map is kept by it, with everything that its mapping reads, and is a row of the others.
func TestQuarantinedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t)
		mustDefine(t, e, events(keeping, func(s *forebay.Source) { s.KeepHeaders = []string{"x-shop"} }))
		arrived := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		header := http.Header{
			"Content-Type": {"application/json"}, "X-Shop": {"7", "8"}, "Idempotency-Key": {"k"}, "Authorization": {"canary-1"},
			"X-Api-Key": {"canary-2"}, "COOKIE": {"canary-3"}, "X-Hub-Signature-256": {"canary-4"},
		}
		res, err := e.Ingest(t.Context(), "web", &mapping.Record{
			Body: []byte(bad), Header: header, Host: "h", ClientIP: netip.MustParseAddr("192.0.2.1"), Received: arrived,
		})
		var cause *mapping.Error
		if err != nil || res.Sinks[0].Status != forebay.Quarantined || !errors.As(res.Sinks[0].Err, &cause) || res.Sinks[1].Status != forebay.Stored {
			t.Fatalf("got %+v, %v, want quarantined with its cause, stored, no error", res, err)
		}
		all := rejectedOf(t, e, forebay.RejectedFilter{})
		if len(all) != 1 || all[0].Reason != "missingValue" || all[0].Column != "id" || all[0].Message != cause.Error() || all[0].Failed != 0 ||
			len(all[0].Mapping) != 8 || all[0].Source != "web" || all[0].Sink != "users" || !all[0].At.Equal(time.Now()) {
			t.Errorf("the quarantine has %+v", all)
		}
		c, err := e.Sink("web", "users").Quarantine().Get(t.Context(), all[0].ID)
		must(t, err)
		rec := c.Record
		if string(rec.Body) != bad || string(c.Came) != bad || rec.Host != "h" || rec.ClientIP != netip.MustParseAddr("192.0.2.1") ||
			!rec.Received.Equal(arrived) || rec.Header.Get("Content-Type") != "application/json" || !slices.Equal(rec.Header["X-Shop"], []string{"7", "8"}) ||
			rec.Header.Get("Idempotency-Key") != "k" || len(rec.Header) != 3 {
			t.Errorf("the record is %+v", rec)
		}
		if want := []string{"Authorization", "COOKIE", "X-Api-Key", "X-Hub-Signature-256"}; !slices.Equal(c.Removed, want) {
			t.Errorf("the headers %q were removed, want %q", c.Removed, want)
		}
		must(t, e.Flush(t.Context(), "web"))
		if len(mem.Rows("in.c-web.users")) != 0 || len(mem.Rows("in.c-web.raw")) != 1 {
			t.Errorf("the tables have %v and %v", mem.Rows("in.c-web.users"), mem.Rows("in.c-web.raw"))
		}
	})
}

// No byte of a secret header or parameter reaches the disk, whatever the case of its name, even if the source keeps all headers.
func TestQuarantineStoresNoSecrets(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openMemory(t, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, disk) })
	mustDefine(t, e, events(keeping, func(s *forebay.Source) { s.KeepHeaders = []string{"*"} }))
	// As short as bodies and headers are. Compressed bytes would not be found.
	_, err := e.Ingest(t.Context(), "web", &mapping.Record{Body: []byte(`{"visible":1}`), Format: mapping.FormatJSON, Header: http.Header{
		"authorization": {"canary"}, "Cookie": {"canary"}, "X-ACCESS-TOKEN": {"canary"}, "X-Seen": {"visible"},
	}, Request: mapping.RequestLine{Query: "Api_KEY=canary&seen=visible"}})
	must(t, err)
	var found []string
	for _, dir := range []string{"data", "data/local"} {
		names, err := disk.List(dir)
		must(t, err)
		for _, name := range names {
			file, err := disk.Open(dir + "/" + name)
			must(t, err)
			data, err := io.ReadAll(file) // which takes the lock of the file: the engine runs
			if err := file.Close(); err != nil {
				t.Error(err)
			}
			if err != nil {
				continue // a folder
			}
			if bytes.Contains(data, []byte("canary")) {
				t.Errorf("%s has a secret", name)
			}
			if bytes.Contains(data, []byte("visible")) {
				found = append(found, name)
			}
		}
	}
	if len(found) == 0 {
		t.Error("no file has the record: this test finds nothing")
	}
}

// After the cause is fixed, records become rows, each once, with the time of their arrival, of this sink alone.
func TestReplay(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events(keeping))
	var recs []*mapping.Record
	for i := range 5 {
		recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"user":{"name":"u%d"}}`, i)))
	}
	results, err := e.IngestBatch(t.Context(), "web", append(recs, mapping.JSON([]byte(good))))
	if err != nil || results[0].Sinks[0].Status != forebay.Quarantined || results[5].Sinks[0].Status != forebay.Stored {
		t.Fatalf("got %+v, %v, want no error and results[0].Sinks[0].Status == %v and results[5].Sinks[0].Status == %v", results, err, forebay.Quarantined, forebay.Stored)
	}
	q := e.Sink("web", "users").Quarantine()
	all := rejectedOf(t, e, forebay.RejectedFilter{})
	if len(all) != 5 {
		t.Fatalf("got %+v, want len(all) == 5", all)
	}
	// With the same definition they fail again and keep their place.
	res, err := q.ReplayAll(t.Context(), forebay.RejectedFilter{})
	if err != nil || res != (forebay.ReplayResult{Rejected: 5}) {
		t.Fatalf("got %+v, %v, want no error and res == (forebay.ReplayResult{Rejected: 5})", res, err)
	}
	again := rejectedOf(t, e, forebay.RejectedFilter{})
	if again[0].ID != all[0].ID || !again[0].At.Equal(all[0].At) || again[0].Failed != 1 || again[0].TriedAt.IsZero() || again[0].Revision != 1 {
		t.Errorf("after a replay that failed: %+v, was %+v", again[0], all[0])
	}
	// One is repaired by hand.
	if err := q.Edit(t.Context(), all[1].ID, 0, []byte(good)); !errors.Is(err, buffer.ErrRejectedChanged) {
		t.Errorf("an edit of an earlier revision: %v", err)
	}
	must(t, q.Edit(t.Context(), all[1].ID, 1, []byte(`{"id":11,"user":{"name":"edited"}}`)))
	c, err := q.Get(t.Context(), all[1].ID)
	if err != nil || string(c.Came) != string(recs[1].Body) || !strings.Contains(string(c.Record.Body), "edited") || !c.Edited || c.Failed != 1 {
		t.Errorf("after the edit: %+v, %v", c, err)
	}
	cells, err := q.Test(t.Context(), all[1].ID)
	if err != nil || cells[0].Value != "11" || cells[1].Value != "edited" {
		t.Errorf("test: %+v, %v", cells, err)
	}
	if cells, err = q.Test(t.Context(), all[0].ID); err != nil || cells[0].Err == nil || cells[1].Value != "u0" {
		t.Errorf("test: %+v, %v", cells, err)
	}
	// Another body is tested and not stored.
	if cells, err = q.TestBody(t.Context(), all[0].ID, []byte(`{"id":12}`)); err != nil || cells[0].Value != "12" || cells[0].Err != nil {
		t.Errorf("test of a body: %+v, %v", cells, err)
	}
	if c, err := q.Get(t.Context(), all[0].ID); err != nil || string(c.Record.Body) != string(recs[0].Body) || c.Edited || c.Revision != 1 {
		t.Errorf("after the test of a body: %+v, %v", c, err)
	}
	if name, err := q.Mapping(t.Context()); err != nil || name != all[0].Mapping {
		t.Errorf("the mapping is %q, %v, and has rejected as %q", name, err, all[0].Mapping)
	}
	if res, err = q.Replay(t.Context(), all[1].ID, all[1].ID, all[0].ID); err != nil || res != (forebay.ReplayResult{Replayed: 1, Gone: 1, Rejected: 1}) {
		t.Errorf("got %+v, %v, want no error and res == (forebay.ReplayResult{Replayed: 1, Gone: 1, Rejected: 1})", res, err)
	}
	if n, err := q.Discard(t.Context(), all[4].ID); n != 1 || err != nil {
		t.Errorf("discard: %d, %v", n, err)
	}
	// The rest fits a new definition.
	mustDefine(t, e, events(keeping, lenient))
	if name, err := q.Mapping(t.Context()); err != nil || name == all[0].Mapping || len(name) != 8 {
		t.Errorf("the new mapping is %q, %v", name, err)
	}
	if res, err = q.ReplayAll(t.Context(), forebay.RejectedFilter{After: all[0].ID, Reason: "missingValue", Column: "id", Text: "ID"}); err != nil || res.Replayed != 2 {
		t.Errorf("got %+v, %v, want no error and res.Replayed == 2", res, err)
	}
	if res, err = q.ReplayAll(t.Context(), forebay.RejectedFilter{Reason: "notIntegral"}); err != nil || res != (forebay.ReplayResult{}) {
		t.Errorf("got %+v, %v, want no error and res == (forebay.ReplayResult{})", res, err)
	}
	if n, err := q.DiscardAll(t.Context(), forebay.RejectedFilter{Until: time.Now().Add(time.Hour)}); n != 1 || err != nil {
		t.Errorf("discard all: %d, %v", n, err)
	}
	must(t, e.Flush(t.Context(), "web"))
	var rows []string
	for _, row := range mem.Rows("in.c-web.users") {
		rows = append(rows, strings.Join(row, " "))
	}
	slices.Sort(rows)
	if want := []string{"\"none\" u2", "\"none\" u3", "1 Ada", "11 edited"}; !slices.Equal(rows, want) {
		t.Errorf("the table has %q, want %q", rows, want)
	}
	if n := len(mem.Rows("in.c-web.raw")); n != 6 {
		t.Errorf("the other table has %d rows", n)
	}
	report, err := e.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("got %+v, %v, want no error and report.OK()", report, err)
	}
	var unknown forebay.SinkQuarantine = e.Sink("web", "nobody").Quarantine()
	if _, err := unknown.Replay(t.Context(), "x-x000000000001"); !errors.Is(err, forebay.ErrUnknownSink) {
		t.Errorf("an unknown sink: %v", err)
	}
	for _, err := range unknown.List(t.Context(), forebay.RejectedFilter{}) {
		if !errors.Is(err, forebay.ErrUnknownSink) {
			t.Errorf("an unknown sink: %v", err)
		}
	}
}

// A call that is repeated with its key adds nothing, and gets the verdict of the first call.
func TestQuarantineOnce(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping))
	once := forebay.Once{Key: "k"}
	for i := range 3 {
		recs := []*mapping.Record{mapping.JSON([]byte(good)), mapping.JSON([]byte(bad)), mapping.JSON([]byte(good))}
		results, err := e.IngestOnce(t.Context(), "web", once, recs)
		must(t, err)
		for r, want := range []forebay.Status{forebay.Stored, forebay.Quarantined, forebay.Stored} {
			if s := results[r].Sinks[0]; s.Status != want || s.Replayed != (i > 0) {
				t.Errorf("call %d, record %d: %+v", i, r, s)
			}
		}
		if i == 1 { // even when the record has left the quarantine
			mustDefine(t, e, events(keeping, lenient))
			if res, err := e.Sink("web", "users").Quarantine().ReplayAll(t.Context(), forebay.RejectedFilter{}); err != nil || res.Replayed != 1 {
				t.Errorf("got %+v, %v, want no error and res.Replayed == 1", res, err)
			}
		}
	}
	for _, s := range e.Stats().Sinks {
		if want := map[string]int64{"users": 1, "raw": 0}[s.Sink]; s.Accepted != 3 || s.Quarantine.Added != want {
			t.Errorf("sink %s: %+v", s.Sink, s)
		}
	}
}

// The call returns when the record is on disk, even where rows are acknowledged in memory.
func TestQuarantineIsDurableWithSyncUnsafe(t *testing.T) {
	for name, call := range map[string]func(t *testing.T, e *forebay.Engine) error{
		"Ingest": func(t *testing.T, e *forebay.Engine) error {
			_, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(bad)))
			return err
		},
		"Submit": func(t *testing.T, e *forebay.Engine) error {
			p, err := e.Submit(t.Context(), "web", mapping.JSON([]byte(bad)))
			if err == nil {
				_, err = p.Wait(t.Context())
			}
			return err
		},
		"IngestAtomic": func(t *testing.T, e *forebay.Engine) error {
			res, err := e.IngestAtomic(t.Context(), "web", forebay.Batch{Records: slices.Values([]*mapping.Record{mapping.JSON([]byte(bad)), mapping.JSON([]byte(good))})})
			if res.Quarantined != 1 || res.Rejected != 0 || res.Records != 2 || res.First != nil {
				t.Errorf("got %+v, want 2 records, one of them quarantined, none rejected", res)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewCrashableMem()
				e, _ := openMemory(t, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, disk); o.Buffer.SyncInterval = time.Hour })
				mustDefine(t, e, events(keeping, func(s *forebay.Source) { s.Settings.Sync = forebay.SyncUnsafe }))
				mustIngest(t, e, "web", mapping.JSON([]byte(good)))
				must(t, call(t, e))
				mem := buffertest.NewMemory()
				tuning := localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disk.CrashClone(vfs.CrashCloneCfg{}))
				after, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, Buffer: tuning})
				must(t, err)
				defer after.Close()
				if n := len(rejectedOf(t, after, forebay.RejectedFilter{})); n != 1 {
					t.Errorf("after the power cut the quarantine has %d records, want 1", n)
				}
			})
		})
	}
}

// A large batch goes in portions. Each record is kept once, and in its order.
func TestQuarantineOfALargeBatch(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping, func(s *forebay.Source) {
		s.Sinks[0].Quarantine = buffer.QuarantineBounds{MaxRecords: 60, MaxBytes: 60 * 51_000} // handed-over records count once
	}))
	var recs []*mapping.Record
	for i := range 60 {
		recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, i, strings.Repeat("x", 50_000))))
	}
	if _, err := e.IngestBatch(t.Context(), "web", recs); err != nil {
		t.Fatal(err)
	}
	all := rejectedOf(t, e, forebay.RejectedFilter{})
	if len(all) != len(recs) {
		t.Fatalf("the quarantine has %d records, want %d", len(all), len(recs))
	}
	for i, r := range all {
		if c, err := e.Sink("web", "users").Quarantine().Get(t.Context(), r.ID); err != nil || !bytes.Equal(c.Came, recs[i].Body) {
			t.Errorf("record %d is %.30s, %v", i, c.Came, err)
		}
	}
}

// What was to be kept and is not on disk has failed.
func TestQuarantineOnAFailingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.EIO
			}
			return nil
		})}
		e, _ := openMemory(t, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, disktest.Wrap(vfs.NewMem(), toggle)) })
		mustDefine(t, e, events(keeping))
		toggle.On()
		res, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(bad)))
		toggle.Off()
		if _, failed := errors.AsType[*buffer.FailedError](err); !failed || res.Sinks[0].Status != forebay.Failed {
			t.Errorf("got %+v, %v, want failed and res.Sinks[0].Status == %v", res, err, forebay.Failed)
		}
		for e.Ready() != nil {
			time.Sleep(time.Second)
		}
	})
}

// A full quarantine refuses its record and not the rows next to it. A record that never fits is rejected.
func TestFullQuarantine(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping, func(s *forebay.Source) {
		s.Sinks[0].Quarantine = buffer.QuarantineBounds{MaxRecords: 2, MaxBytes: 4 << 10}
	}))
	recs := []*mapping.Record{mapping.JSON([]byte(bad)), mapping.JSON([]byte(good)), mapping.JSON([]byte(bad)), mapping.JSON([]byte(bad))}
	large := mapping.JSON(fmt.Appendf(nil, `{"text":"%s"}`, strings.Repeat("x", 5000)))
	for i, r := range append(recs, large) {
		res, err := e.Ingest(t.Context(), "web", r)
		want := []forebay.Status{forebay.Quarantined, forebay.Stored, forebay.Quarantined, forebay.Failed, forebay.Rejected}[i]
		over, full := errors.AsType[*buffer.OverloadError](err)
		if s := res.Sinks[0]; s.Status != want || (err != nil) != (i > 2) || full != (i == 3) || full && over.Resource != "quarantine" {
			t.Errorf("record %d: %+v, %v", i, s, err)
		}
		if res.Sinks[1].Status != forebay.Stored {
			t.Errorf("record %d at the other sink: %+v", i, res.Sinks[1])
		}
	}
	_, err := e.Compile(events(func(s *forebay.Source) {
		s.Sinks[0].OnReject = 7
		s.Sinks[0].Quarantine.MaxAge = -1
	}))
	if err == nil || !strings.Contains(err.Error(), "OnReject") || !strings.Contains(err.Error(), "MaxAge") {
		t.Errorf("compile: %v", err)
	}
}

// A Go value is kept as its JSON, and a document that has none is rejected.
func TestQuarantineOfDocuments(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping))
	type user struct {
		Name string `json:"name"`
	}
	mustIngest(t, e, "web", mapping.From(map[string]user{"user": {"Eve"}}))
	all := rejectedOf(t, e, forebay.RejectedFilter{})
	if len(all) != 1 {
		t.Fatalf("got %+v, want len(all) == 1", all)
	}
	c, err := e.Sink("web", "users").Quarantine().Get(t.Context(), all[0].ID)
	if err != nil || string(c.Record.Body) != `{"user":{"name":"Eve"}}` || c.Record.Format != mapping.FormatJSON {
		t.Errorf("got %+v, %v, want no error and string(c.Record.Body) == `{\"user\":{\"name\":\"Eve\"}}` and c.Record.Format == %v", c.Record, err, mapping.FormatJSON)
	}
	mustDefine(t, e, events(keeping, lenient))
	if res, err := e.Sink("web", "users").Quarantine().ReplayAll(t.Context(), forebay.RejectedFilter{}); err != nil || res.Replayed != 1 {
		t.Errorf("got %+v, %v, want no error and res.Replayed == 1", res, err)
	}
	if _, err := e.Ingest(t.Context(), "web", mapping.From(make(chan int))); err == nil {
		t.Error("a channel is in the quarantine")
	}
}

// A record carries the version of the definition that has rejected it, even after a restart, and of the definition that rejects it again. Another
// version starts another file, so that refused rows show their version.
func TestQuarantineKeepsVersions(t *testing.T) {
	e, mem := openMemory(t)
	mem.Refuse = func(_ string, row []string) driver.RowError {
		if strings.Contains(row[0], "refused") {
			return driver.RowError{Reason: "23514", Message: "no"}
		}
		return driver.RowError{}
	}
	version := func(n int) func(*forebay.Source) { return func(s *forebay.Source) { s.Sinks[0].Version = n } }
	for n := 1; n <= 3; n++ {
		mustDefine(t, e, events(keeping, version(n)))
		for _, body := range []string{bad, `{"id":"refused","user":{"name":"b"}}`, good} {
			mustIngest(t, e, "web", mapping.JSON([]byte(body)))
		}
	}
	mustDefine(t, e, events(keeping, version(4)))
	must(t, e.Flush(t.Context(), "web"))
	want := func(counts map[int]int) {
		t.Helper()
		for n, want := range counts {
			list := rejectedOf(t, e, forebay.RejectedFilter{Version: n})
			for _, r := range list {
				if n != 0 && r.Version != n || len(r.Mapping) != 8 {
					t.Errorf("got %+v, want version %d", r, n)
				}
			}
			if len(list) != want {
				t.Errorf("got %d records of version %d, want %d", len(list), n, want)
			}
		}
	}
	want(map[int]int{1: 2, 2: 2, 3: 2, 4: 0, 0: 6})
	if res, err := e.Sink("web", "users").Quarantine().ReplayAll(t.Context(), forebay.RejectedFilter{Version: 2, Reason: "missingValue"}); err != nil || res.Rejected != 1 {
		t.Errorf("got %+v, %v, want no error and res.Rejected == 1", res, err)
	}
	want(map[int]int{1: 2, 2: 1, 3: 2, 4: 1})
	if _, err := forebay.Compile(events(version(-1)), forebay.Options{}); err == nil {
		t.Error("a version below zero is no definition error")
	}
}
