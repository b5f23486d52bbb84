package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// fixtureDrivers are the directory drivers, of which some calls fail by the sink.
type fixtureDrivers struct {
	driver.Staging
	driver.Target
}

var errAway = errors.New("the server is away")

func (d fixtureDrivers) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if obj.SinkID == "uploading" {
		if _, err := src.WriteTo(io.Discard); err != nil {
			return err
		}
		return errAway
	}
	return d.Staging.Put(ctx, obj, src)
}

func (d fixtureDrivers) Delete(ctx context.Context, objs ...driver.Object) error {
	if id := objs[0].SinkID; id == "imported" || id == "forgotten" {
		return errAway
	}
	return d.Staging.Delete(ctx, objs...)
}

func (d fixtureDrivers) Extend(context.Context, driver.Table) error { return nil }

// Void has nothing to rule out, because no import of the fixture is running when its id is refused.
func (d fixtureDrivers) Void(context.Context, driver.Table, string) (bool, error) { return false, nil }

func (d fixtureDrivers) Import(ctx context.Context, f *driver.File) error {
	switch f.SinkID {
	case "expired", "discarded":
		return errAway
	case "importing":
		return errors.Join(f.SaveProgress(ctx, []byte("job 7")), errAway)
	case "permanent", "held":
		return driver.Permanent(errAway)
	case "poison", "split":
		rows := f.ReadRows(ctx)
		defer rows.Close()
		for rows.Next() {
			if string(rows.Cells()[1]) == bad {
				return &driver.RowsError{Rows: []driver.RowError{{Row: rows.Row(), Column: "value", Reason: "23514", Message: "violates the check"}}}
			}
		}
		if err := rows.Err(); err != nil || f.SinkID == "split" {
			return errors.Join(err, errAway)
		}
	}
	return d.Target.Import(ctx, f)
}

func writeCurrentFormat(t *testing.T, root string) {
	must(t, os.RemoveAll(root))
	disk := disktest.New(t)
	synctest.Test(t, func(t *testing.T) { writeFixture(t, root, disk, func(d time.Duration) { time.Sleep(d) }) })
	names, err := disk.List("data")
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, "data"), 0o755)
	}
	for _, name := range names {
		if info, e := disk.Stat("data/" + name); err != nil || e != nil || info.IsDir() || name == "LOCK" {
			err = errors.Join(err, e)
			continue
		}
		data, e := disk.Read("data/" + name)
		err = errors.Join(err, e, os.WriteFile(filepath.Join(root, "data", name), data, 0o644))
	}
	must(t, err)
}

func writeFixture(t *testing.T, root string, disk *disktest.Disk, sleep func(time.Duration)) {
	opts := fixtureOptions(root)
	drivers := fixtureDrivers{opts.Staging, opts.Target}
	opts.Staging, opts.Target = drivers, drivers
	opts = localdisk.On(opts, disk)
	begin := func() *buffer.Buffer {
		b, err := buffer.Open("data", opts)
		must(t, err)
		return b
	}
	// fill appends rows, each in a separate commit. Long ones are compressed by themselves.
	fill := func(b *buffer.Buffer, s *buffer.DefinedSink, from, to, size int) {
		for i := from; i < to; i++ {
			put1(t, b, s, i, strings.Repeat("basin ", size/6))
		}
	}
	with := func(e driver.Encoding, slice int64) func(*buffer.SinkConfig) {
		return func(c *buffer.SinkConfig) { c.Encoding, c.Upload.Count = e, slice }
	}
	after := func(err error) {
		t.Helper()
		must(t, err)
		sleep(3 * time.Second)
	}
	const many = 1000

	b := begin()
	fill(b, define(t, b, "expired", with(driver.Gzip, many)), 0, 3, 60)
	after(b.Sink("expired").CloseFile(t.Context(), 1))
	sleep(8 * 24 * time.Hour)
	fill(b, define(t, b, "discarded", with(driver.None, many)), 0, 2, 60)
	after(b.Sink("discarded").CloseFile(t.Context(), 1))
	after(b.Sink("discarded").Discard(t.Context(), waitingFile(t, b)))
	fill(b, define(t, b, "uploading", with(driver.Zstd, many)), 0, 5, 6000)
	after(b.Sink("uploading").CloseFile(t.Context(), 1))
	after(b.Close())
	editChunks(t, disk, func(n int, value []byte) []byte {
		if n == 2 {
			value[len(value)-1] ^= 1
		}
		return value
	})

	b = begin()
	sleep(time.Minute) // until the damage is set aside
	for _, s := range []struct {
		id       string
		encoding driver.Encoding
		size     int
	}{{"importing", driver.Gzip, 6000}, {"permanent", driver.Zstd, 60}, {"imported", driver.Gzip, 60}, {"done", driver.None, 60}, {"dropped", driver.Gzip, 60}, {"forgotten", driver.Gzip, 60}} {
		fill(b, define(t, b, s.id, with(s.encoding, 2)), 0, 5, s.size)
		after(b.Sink(s.id).CloseFile(t.Context(), 1))
	}
	after(b.Sink("dropped").Drop(t.Context()))
	after(b.Sink("forgotten").Drop(t.Context()))
	after(b.Sink("forgotten").Forget(t.Context()))
	after(b.Checkpoint(t.Context(), "copy"))
	fill(b, define(t, b, "done", with(driver.Zstd, 2)), 5, 8, 6000)
	after(b.Sink("done").CloseFile(t.Context(), 1))
	fill(b, define(t, b, "staged", with(driver.None, 2)), 0, 5, 60)
	for _, target := range []string{"second", ""} { // the file of the former definition waits for its target
		moved := define(t, b, "retargeted", with(driver.Gzip, many), func(c *buffer.SinkConfig) { c.Table.Target = target })
		fill(b, moved, len(target), len(target)+2, 60)
	}
	writeQuarantine(t, b)
	writeMoved(t, b)
	writeMovedFiles(t, b, opts, sleep)
	for refused, id := range []string{"split", "poison"} {
		putRows(t, b, define(t, b, id, with(driver.Gzip, 2), quarantined(keptForEver)), 3, func(i int) bool { return i == refused })
		after(b.Sink(id).CloseFile(t.Context(), 1))
	}
	typed := []datatype.Column{
		{Name: "id", Type: datatype.Int64, Required: true}, {Name: "value", Type: datatype.String}, {Name: "price", Type: datatype.Decimal(5, 2)}, {Name: "any"},
	}
	cells := func(b *buffer.Buffer, s *buffer.DefinedSink, rows ...string) {
		t.Helper()
		for _, row := range rows {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: []byte(row + "\n"), Count: 1})
			must(t, errors.Join(err, ticket.Wait(t.Context())))
		}
	}
	cells(b, define(t, b, "typed", with(driver.Gzip, 2), func(c *buffer.SinkConfig) { c.Table.Columns = typed }),
		`"0",,"1.50","x"`, `"1","",,""`, `"2","null",,"null"`)
	for _, columns := range [][]datatype.Column{typed[:2], typed, typed[:2]} {
		extended := define(t, b, "extended", with(driver.Zstd, 2), func(c *buffer.SinkConfig) {
			c.Table.Columns, c.Table.Extend, c.Mapping = columns, true, fmt.Appendf(nil, "mapping of %d columns", len(columns))
		})
		if len(columns) == 2 {
			cells(b, extended, `"3",`, `"4","v"`, `"5",""`)
		}
	}
	writing := define(t, b, "writing")
	fill(b, writing, 10, 12, 60)
	fill(b, writing, 12, 14, 6000)
	for key := range 3 {
		if key > 0 {
			mustOnce(t, b, key, writing)
		}
	}
	after(b.Close())
}

// keptForEver keeps records of the year of the fixtures, which a fake clock has written.
func keptForEver(q *buffer.QuarantineBounds) { q.MaxAge = 200 * 365 * 24 * time.Hour }

// writeQuarantine leaves a sink with a row, records as they arrived, one that was edited, and positions, one of which has ended.
func writeQuarantine(t *testing.T, b *buffer.Buffer) {
	t.Helper()
	s := define(t, b, "rejected", quarantined(keptForEver))
	reject(t, b, s, "first", "second", "third", "fourth")
	held := list(t, b, "rejected")
	ended := buffer.Position{Name: "ended", Value: []byte("begin")}
	err := errors.Join(
		b.Sink("rejected").UpdateRejected(t.Context(), held[1].ID, held[1].Revision, []byte("still why"), []byte("edited")),
		b.Sink("rejected").SetPosition(t.Context(), *at("run", "begin")), b.Sink("rejected").SetPosition(t.Context(), ended),
	)
	ended.Value = nil
	outcomes, replayed := s.ReplayRejected(t.Context(), time.Now(), buffer.ReplayRow{ID: held[2].ID, Revision: held[2].Revision, Row: row(3, "third")})
	_, discarded := b.Sink("rejected").DiscardRejected(t.Context(), held[3].ID)
	must(t, errors.Join(append(outcomes, err, b.Sink("rejected").SetPosition(t.Context(), ended), replayed, discarded)...))
	ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(0, "v"), Count: 1, Position: at("run", "1")})
	must(t, errors.Join(err, ticket.Wait(t.Context())))
}

// writeMoved leaves a record of another engine in the quarantine, and one that arrives.
func writeMoved(t *testing.T, b *buffer.Buffer) {
	t.Helper()
	define(t, b, "moved", quarantined(keptForEver))
	for _, name := range []string{"here", "arriving"} {
		other := openEmpty(t)
		reject(t, other, define(t, other, "moved", quarantined(keptForEver)), name)
		receive(t, b, other, "of "+name, 1)
		closeBuffer(t, other)
	}
	must(t, b.Moves().EndArrival(t.Context(), "of here", true))
}

// writeMovedFiles leaves a file of another engine that waits for its import, and one that arrives.
func writeMovedFiles(t *testing.T, b *buffer.Buffer, opts buffer.Options, sleep func(time.Duration)) {
	t.Helper()
	define(t, b, "held")
	for i, name := range []string{"here", "arriving"} {
		other := openAt(t, "data", localdisk.On(opts, disktest.New(t)))
		put(t, other, define(t, other, "held", smallSlices), 3*i, 3*i+3)
		must(t, other.Sink("held").CloseFile(t.Context(), 1))
		sleep(3 * time.Second)
		moveFiles(t, b, other, "files of "+name, 1)
		closeBuffer(t, other)
	}
	must(t, b.Moves().EndArrival(t.Context(), "files of here", true))
	sleep(3 * time.Second)
}

// describeRejected says why a record was rejected, and gives its current and its original bytes.
func describeRejected(t *testing.T, in *buffer.Inspection, r buffer.Rejected) string {
	t.Helper()
	_, record, came, err := in.RejectedRecord(t.Context(), r.SinkID, r.ID)
	must(t, err)
	text := fmt.Sprintf("at %s, revision %d, edited %v, info %q, %q, came as %q", r.At.Format(time.DateTime), r.Revision, r.Edited, r.Info, record, came)
	if r.Poison != nil {
		text += fmt.Sprintf(", refused in %s: %s, columns %v", r.Poison.FileID, r.Poison.RowError, r.Poison.Columns)
	}
	return text
}

// replayFixture replays the quarantine of writeQuarantine, if the fixture has one.
func replayFixture(t *testing.T, b *buffer.Buffer) {
	t.Helper()
	if _, ok := b.Sink("rejected").Stats(); !ok {
		return
	}
	if got, err := b.Sink("rejected").Positions(t.Context()); err != nil || len(got) != 1 || string(got["run"]) != "1" {
		t.Errorf("the positions are %q, %v; want run at 1", got, err)
	}
	s := define(t, b, "rejected", quarantined(keptForEver))
	wantRecords(t, b, "rejected", "first, edited from second")
	for i, r := range list(t, b, "rejected") {
		outcomes, err := s.ReplayRejected(t.Context(), time.Now(), buffer.ReplayRow{ID: r.ID, Revision: r.Revision, Row: row(i+1, "replayed")})
		if err := errors.Join(append(outcomes, err)...); err != nil {
			t.Error(err)
		}
	}
	if got := records(t, b, "rejected"); got != "" {
		t.Errorf("not replayed: %s", got)
	}
	wantRecords(t, b, "poison", string(row(1, bad)))
	if _, ok := b.Sink("moved").Stats(); !ok {
		return
	}
	if _, ok := b.Sink("held").Stats(); ok {
		if err := b.Moves().EndArrival(t.Context(), "files of arriving", true); err != nil {
			t.Error(err)
		}
	}
	wantRecords(t, b, "moved", "here")
	if err := b.Moves().EndArrival(t.Context(), "of arriving", true); err != nil {
		t.Error(err)
	}
	wantRecords(t, b, "moved", "here, arriving")
}
