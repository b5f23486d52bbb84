package buffer_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// TestStories plays the scripts of testdata/stories. Each is one buffer with its drivers in memory, on a fake clock.
// Between two commands, only the effects of the earlier ones happen. README.md there explains the commands.
//
//	go test ./buffer -run TestStories -rewrite
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t)
				datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
					out := ""
					if d.Cmd == "wait" {
						time.Sleep(duration(t, d.CmdArgs[0].Key))
					} else {
						out = s.play(t, d)
					}
					synctest.Wait()
					return out + s.news()
				})
			})
		})
	}
}

// story is what one script has built.
type story struct {
	disk  *disktest.Disk
	mem   *buffertest.Memory
	opts  buffer.Options
	b     *buffer.Buffer
	down  map[buffertest.Op]*atomic.Bool
	sinks map[string]*buffer.DefinedSink
	cells map[string]int // of a row of a sink
	next  map[string]int // the next row of a sink
	calls map[buffertest.Op]int
	ended chan string // outcomes of commands that wait
}

func newStory(t *testing.T) *story {
	s := &story{
		disk: disktest.New(t), mem: buffertest.NewMemory(), sinks: map[string]*buffer.DefinedSink{}, next: map[string]int{},
		cells: map[string]int{},
		calls: map[buffertest.Op]int{}, ended: make(chan string, 100), down: map[buffertest.Op]*atomic.Bool{},
	}
	for _, op := range []buffertest.Op{buffertest.OpPut, buffertest.OpImport, buffertest.OpDelete} {
		s.down[op] = new(atomic.Bool)
	}
	s.mem.Before = func(_ context.Context, c buffertest.Call) error {
		if down := s.down[c.Op]; down != nil && down.Load() {
			return errors.New("down")
		}
		return nil
	}
	s.opts = memoryOptions(t, s.mem)
	s.opts.Retry.Jitter = -1
	t.Cleanup(func() {
		if s.b != nil {
			_ = s.b.Close() // it may be closed
		}
	})
	return s
}

func (s *story) open(t *testing.T) string {
	t.Helper()
	b, err := buffer.Open("data", localdisk.On(s.opts, s.disk))
	if err != nil {
		return fmt.Sprintln("error:", err)
	}
	s.b = b
	clear(s.sinks)
	return ""
}

func (s *story) play(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	ctx := t.Context()
	id := ""
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		id = d.CmdArgs[0].Key
	}
	failure := func(err error) string {
		if err == nil {
			return ""
		}
		return s.text("error: " + err.Error())
	}
	switch d.Cmd {
	case "open":
		var retention string
		d.MaybeScanArgs(t, "sink-bytes", &s.opts.MaxSinkBytes)
		d.MaybeScanArgs(t, "disk-bytes", &s.opts.MaxDiskBytes)
		if d.MaybeScanArgs(t, "retention", &retention) {
			s.opts.Retention = duration(t, retention)
		}
		return s.open(t)
	case "close":
		return failure(s.b.Close())
	case "power-cut":
		s.disk = s.disk.Cut(vfs.CrashCloneCfg{})
		return failure(s.b.Close()) // of a process that the disk no longer sees
	case "define":
		return s.define(t, d, id)
	case "drop":
		return failure(s.b.Sink(id).Drop(ctx))
	case "forget":
		return failure(s.b.Sink(id).Forget(ctx))
	case "put":
		return s.put(t, d, id)
	case "down", "up":
		s.down[buffertest.Op(id)].Store(d.Cmd == "down")
	case "alter":
		var columns string
		d.ScanArgs(t, "columns", &columns)
		s.mem.Alter(id, storyColumns(columns)...)
	case "flush":
		limit := "1m"
		d.MaybeScanArgs(t, "for", &limit)
		ctx, cancel := context.WithTimeout(ctx, duration(t, limit))
		if d.HasArg("wait") {
			go func() {
				defer cancel()
				s.ended <- fmt.Sprintf("flush %s ended: %s", id, cmp.Or(failure(s.b.Sink(id).Flush(ctx)), "all is in the table\n"))
			}()
			return ""
		}
		defer cancel()
		return failure(s.b.Sink(id).Flush(ctx))
	case "retry":
		return failure(s.b.Sink(id).Retry(ctx))
	case "discard":
		return failure(s.b.Sink(id).Discard(ctx, s.waiting(id)))
	case "damaged", "forget-damage":
		return s.damaged(t, d.Cmd == "forget-damage")
	case "rot":
		return s.rot(t, id)
	case "state":
		return s.state(id)
	case "table":
		return s.table(id)
	case "rows":
		return s.rows(id)
	case "verify":
		return s.verify(t)
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	return ""
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}

func (s *story) define(t *testing.T, d *datadriven.TestData, id string) string {
	t.Helper()
	table, names := "t."+id, "id+value"
	c := buffer.SinkConfig{ID: id, Encoding: driver.None}
	d.MaybeScanArgs(t, "table", &table)
	d.MaybeScanArgs(t, "columns", &names)
	c.Table = driver.Table{ID: table, Columns: storyColumns(names), Extend: d.HasArg("extend")}
	for _, step := range []struct {
		name string
		c    *trigger.Conditions
	}{{"upload", &c.Upload}, {"import", &c.Import}} {
		var interval string
		if d.MaybeScanArgs(t, step.name+"-interval", &interval) {
			step.c.Interval = duration(t, interval)
		}
		d.MaybeScanArgs(t, step.name+"-count", &step.c.Count)
		d.MaybeScanArgs(t, step.name+"-size", &step.c.Size)
	}
	handle, err := s.b.Define(t.Context(), c)
	if err != nil {
		return fmt.Sprintln("error:", err)
	}
	s.sinks[id], s.cells[id] = handle, len(c.Table.Columns)
	return ""
}

// storyColumns reads columns like "id+n:int64".
func storyColumns(text string) []datatype.Column {
	var columns []datatype.Column
	for c := range strings.SplitSeq(text, "+") {
		name, typ, _ := strings.Cut(c, ":")
		columns = append(columns, datatype.Column{Name: name, Type: datatype.Type(typ)})
	}
	return columns
}

// put appends rows one by one and waits until they are on disk. With "wait" it waits for room too, in the background.
func (s *story) put(t *testing.T, d *datadriven.TestData, id string) string {
	t.Helper()
	rows, size, ctx := 1, 1, t.Context()
	d.MaybeScanArgs(t, "rows", &rows)
	d.MaybeScanArgs(t, "size", &size)
	sink, first := s.sinks[id], s.next[id]
	cell := `,"` + strings.Repeat("x", size) + `"`
	if d.HasArg("null") {
		cell = ","
	}
	cells := strings.Repeat(cell, s.cells[id]-1)
	add := func(appendRows func(context.Context, time.Time, ...buffer.Rows) (buffer.Ticket, error), n int) error {
		data := fmt.Sprintf("%q%s\n", strconv.Itoa(n), cells)
		ticket, err := appendRows(ctx, time.Now(), buffer.Rows{Sink: sink, Data: []byte(data), Count: 1})
		if err != nil {
			return err
		}
		return ticket.Wait(ctx)
	}
	if d.HasArg("wait") {
		s.next[id] += rows
		go func() {
			for n := first; n < first+rows; n++ {
				if err := add(s.b.AppendWhenRoom, n); err != nil {
					s.ended <- s.text(fmt.Sprintf("put %s: row %d: %v", id, n, err))
					return
				}
			}
			s.ended <- fmt.Sprintf("put %s: rows %d to %d are stored\n", id, first, first+rows-1)
		}()
		return ""
	}
	for n := first; n < first+rows; n++ {
		err := sink.Full()
		if err == nil {
			err = add(s.b.Append, n)
		}
		if err != nil {
			return s.text(fmt.Sprintf("row %d: %v", n, err))
		}
		s.next[id]++
	}
	return ""
}

// news returns the outcomes of commands that waited, and the calls of drivers since the last command.
func (s *story) news() string {
	var lines []string
	for len(s.ended) > 0 {
		lines = append(lines, <-s.ended)
	}
	slices.Sort(lines) // outcomes of one moment have no order
	var out strings.Builder
	out.WriteString(strings.Join(lines, ""))
	now := map[buffertest.Op]map[bool]int{}
	for _, c := range s.mem.Calls() {
		if now[c.Op] == nil {
			now[c.Op] = map[bool]int{}
		}
		now[c.Op][c.Err == nil]++
	}
	for _, op := range []buffertest.Op{buffertest.OpPut, buffertest.OpImport, buffertest.OpDelete} {
		all := now[op][true] + now[op][false]
		if n := all - s.calls[op]; n > 0 {
			fmt.Fprintf(&out, "%s ×%d\n", op, n)
		}
		s.calls[op] = all
	}
	return out.String()
}

// text hides the ids of the instance, which are random.
func (s *story) text(line string) string {
	words := strings.Fields(line)
	for i, word := range words {
		for _, kind := range []string{"-f", "-s"} {
			if at := strings.LastIndex(word, kind); at >= 8 && !strings.Contains(word[:at], "=") && strings.Count(word, "-") >= 1 {
				if _, err := strconv.ParseUint(strings.TrimRight(word[at+2:], ":,"), 36, 64); err == nil {
					words[i] = "ID" + word[len(strings.TrimRight(word, ":,")):]
				}
			}
		}
	}
	return strings.Join(words, " ") + "\n"
}

// waiting returns the id of the oldest file that has not ended.
func (s *story) waiting(sink string) string {
	st, _ := s.b.Sink(sink).Stats()
	for _, f := range st.Files {
		if f.State == buffer.FileWriting || f.State == buffer.FileClosing || f.State == buffer.FileImporting {
			return f.ID
		}
	}
	return "none"
}

func (s *story) state(id string) string {
	st, known := s.b.Sink(id).Stats()
	if !known {
		return "unknown\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "accepted %d: local %d, staging %d, table %d", st.Accepted, st.Local.Rows, st.Staging.Rows, st.Target.Rows)
	for _, lost := range []struct {
		name string
		rows int64
	}{{"expired", st.Expired.Rows}, {"discarded", st.Discarded.Rows}, {"damaged", st.Damaged.Rows}} {
		if lost.rows > 0 {
			fmt.Fprintf(&out, ", %s %d", lost.name, lost.rows)
		}
	}
	if st.Dropped {
		out.WriteString(", dropped")
	}
	out.WriteString("\n")
	for i, f := range st.Files {
		fmt.Fprintf(&out, "file %d: %s, %d rows", i+1, f.State, f.Level.Rows)
		if f.Reason != "" {
			fmt.Fprintf(&out, ", closed by %s", f.Reason)
		}
		if f.Attempt > 0 && f.State == buffer.FileImporting {
			fmt.Fprintf(&out, ", failed ×%d: %s", f.Attempt, strings.TrimSuffix(s.text(f.RetryReason), "\n"))
		}
		out.WriteString("\n")
	}
	if st.Version > 0 {
		fmt.Fprintf(&out, "version %d of the columns, retired: %v\n", st.Version, st.Retired)
	}
	var slicesIn []string
	for _, state := range []buffer.SliceState{buffer.SliceWriting, buffer.SliceUploading, buffer.SliceUploaded, buffer.SliceImported} {
		if n := st.Slices[state]; n > 0 {
			slicesIn = append(slicesIn, fmt.Sprintf("%s ×%d", state, n))
		}
	}
	if len(slicesIn) > 0 {
		fmt.Fprintf(&out, "slices: %s\n", strings.Join(slicesIn, ", "))
	}
	return out.String()
}

// table prints the columns of a table and the sorted first cells of its rows, as ranges.
func (s *story) table(id string) string {
	var ranges []string
	var rows []int
	for _, text := range ids(s.mem, id) {
		n, _ := strconv.Atoi(text)
		rows = append(rows, n)
	}
	slices.Sort(rows)
	for from, i := 0, 0; i < len(rows); i++ {
		switch {
		case i+1 < len(rows) && rows[i+1] == rows[i]+1:
			continue
		case from == i:
			ranges = append(ranges, fmt.Sprint(rows[i]))
		default:
			ranges = append(ranges, fmt.Sprintf("%d-%d", rows[from], rows[i]))
		}
		from = i + 1
	}
	return fmt.Sprintf("(%s): %s; %d objects in staging\n", strings.Join(datatype.Names(s.mem.Columns(id)), ", "), strings.Join(ranges, ", "), len(s.mem.Objects()))
}

// rows prints a table whole.
func (s *story) rows(id string) string {
	var out strings.Builder
	for _, c := range s.mem.Columns(id) {
		fmt.Fprintf(&out, "%s:%s ", c.Name, c.Type)
	}
	out.WriteString("\n")
	for _, row := range s.mem.Rows(id) {
		out.WriteString(strings.ReplaceAll(strings.Join(row, " "), buffertest.Null, "NULL") + "\n")
	}
	return out.String()
}

func (s *story) verify(t *testing.T) string {
	t.Helper()
	report, err := s.b.Verify(t.Context())
	if err != nil {
		return fmt.Sprintln("error:", err)
	}
	var out strings.Builder
	for _, sink := range report.Sinks {
		for _, difference := range sink.Differences {
			fmt.Fprintf(&out, "%s: %s\n", sink.ID, difference)
		}
	}
	if out.Len() == 0 {
		return "the ledger holds\n"
	}
	return out.String()
}

// offsets are numbers of bytes and files, and checksums.
var offsets = regexp.MustCompile(`\b[0-9a-f]*\d[0-9a-f]*\b`)

// damaged prints the list of the disk's losses. With forget the list ends.
func (s *story) damaged(t *testing.T, forget bool) string {
	t.Helper()
	list, err := s.b.Damaged(t.Context())
	if err != nil {
		return fmt.Sprintln("error:", err)
	}
	var out strings.Builder
	for _, d := range list {
		if forget {
			err = errors.Join(err, s.b.ForgetDamage(t.Context(), d.ID))
			continue
		}
		if d.Store != "" {
			out.WriteString("the store was set aside as a whole: ")
		} else {
			fmt.Fprintf(&out, "sink %q, chunks %d to %d: ", d.SinkID, d.FirstChunk, d.LastChunk)
		}
		fmt.Fprintf(&out, "%d rows", d.Rows)
		if d.Uncounted {
			out.WriteString(" or more")
		}
		fmt.Fprintf(&out, ": %s\n", offsets.ReplaceAllString(d.Reason, "N"))
	}
	if err != nil {
		return fmt.Sprintln("error:", err)
	}
	return out.String()
}

// rot changes bytes on the disk of a closed buffer, in the first "chunk", the "list" of tables, or a row wherever it is.
func (s *story) rot(t *testing.T, what string) string {
	t.Helper()
	each := func(at func(name string, data []byte) int) {
		names, err := s.disk.List("data")
		for _, name := range names {
			if info, e := s.disk.Stat("data/" + name); e != nil || info.IsDir() {
				continue // a store that was set aside
			}
			f, e := s.disk.Open("data/" + name)
			if e != nil {
				t.Fatal(e)
			}
			data, e := io.ReadAll(f)
			err = errors.Join(err, e, f.Close())
			if i := at(name, data); i >= 0 {
				rot(t, s.disk, "data/"+name, func(int) int { return i })
			}
		}
		must(t, err)
	}
	switch what {
	case "chunk":
		editChunks(t, s.disk, func(n int, value []byte) []byte {
			if n == 0 {
				value[len(value)-1] ^= 4
			}
			return value
		})
	case "list":
		each(func(name string, _ []byte) int {
			if !strings.HasPrefix(name, "MANIFEST-") {
				return -1
			}
			return 10
		})
	default:
		each(func(_ string, data []byte) int { return bytes.Index(data, fmt.Appendf(nil, "%q,", what)) })
	}
	return ""
}
