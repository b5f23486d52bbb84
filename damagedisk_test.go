package forebay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	dirdriver "github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// rottenSource has two sinks, whose rows are stored compressed and plain. Two slices make a full staging, and no file is imported
// without a flush.
var rottenSource = forebay.Source{ID: "web", Sinks: []forebay.Sink{rottenSink("gzip", forebay.CompressionGzip), rottenSink("plain", forebay.CompressionNone)}}

func rottenSink(id string, c forebay.Compression) forebay.Sink {
	return forebay.Sink{
		ID: id, Table: forebay.Table{ID: "in.c-web." + id, Columns: mapping.Columns{mapping.Path("id", "id"), mapping.Path("text", "text", mapping.RawString())}},
		Settings: forebay.Settings{
			Compression: c, Upload: trigger.Conditions{Count: 20, Interval: 30 * time.Minute}, Import: trigger.Conditions{Count: 100_000, Interval: 24 * time.Hour},
		},
	}
}

// rottenOptions retry at once, so that a file that cannot be imported fails soon. They give a missing object up at the second attempt.
func rottenOptions() forebay.Options {
	return forebay.Options{Buffer: buffer.Tuning{MemTableBytes: 1 << 20, UnreadableAfter: 1, Retry: buffer.Retry{Initial: time.Millisecond, Max: 5 * time.Millisecond}}}
}

// rottenText is the text of a row. It hardly compresses, so that damage meets rows.
func rottenText(id int) string {
	rng := rand.New(rand.NewPCG(uint64(id), 5))
	text := make([]byte, 300)
	for i := range text {
		text[i] = byte('a' + rng.IntN(26))
	}
	return string(text)
}

// ingestRotten stores the rows of the ids from, …, to-1 in both sinks. said is called for each when it is acknowledged.
func ingestRotten(ctx context.Context, e *forebay.Engine, from, to int, said func(id int)) error {
	for id := from; id < to; id++ {
		if _, err := e.Ingest(ctx, "web", mapping.JSON(fmt.Appendf(nil, `{"id": %d, "text": %q}`, id, rottenText(id)))); err != nil {
			return err
		}
		said(id)
	}
	return nil
}

const rottenRows = 95 // 40 imported, 40 in staging, 15 local

// fillRotten leaves rows on each level, in tables, in staging, and in open slices.
func fillRotten(ctx context.Context, dir string, said func(id int)) (*forebay.Engine, error) {
	e, err := forebay.Open(dir, rottenOptions())
	if err != nil {
		return nil, err
	}
	err = e.Define(ctx, rottenSource)
	if err == nil {
		err = ingestRotten(ctx, e, 0, 40, said)
	}
	if err == nil {
		err = e.FlushAll(ctx)
	}
	if err == nil {
		err = ingestRotten(ctx, e, 40, 80, said)
	}
	for staged := int64(0); err == nil && staged < 80; {
		if staged = 0; ctx.Err() != nil {
			err = ctx.Err()
		}
		for _, s := range e.Stats().Sinks {
			staged += s.Staging.Rows
		}
		runtime.Gosched()
	}
	if err == nil {
		err = ingestRotten(ctx, e, 80, rottenRows, said)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// rottenStates are the states in which an engine leaves a data directory: after Close, after a second Open and Close, which move everything
// from the log into small tables, when its process is killed while it is idle, and when it is killed while it stores rows.
var rottenStates = []string{"closed", "tables", "idle", "killed"}

// rottenFolders are data directories in these states, with the number of rows in each.
func rottenFolders(t *testing.T) (folders map[string]string, rows map[string]int) {
	t.Helper()
	root := t.TempDir()
	folders, rows = map[string]string{}, map[string]int{}
	for _, name := range rottenStates {
		folders[name], rows[name] = filepath.Join(root, name), rottenRows
	}
	e, err := fillRotten(t.Context(), folders["closed"], func(int) {})
	if err == nil {
		err = disktest.Copy(folders["closed"], folders["idle"])
	}
	if err == nil {
		err = e.Close()
	}
	if err == nil {
		err = disktest.Copy(folders["closed"], folders["tables"])
	}
	if err == nil {
		e, err = forebay.Open(folders["tables"], rottenOptions())
	}
	if err == nil {
		err = e.Close()
	}
	must(t, err)
	p := proctest.Start(t, "TestRandomDamageOnDisk", folders["killed"])
	p.Lines(rottenRows+20, 10*time.Millisecond, func(line string) {
		if id, err := strconv.Atoi(line); err == nil {
			rows["killed"] = id + 1
		}
	})
	return folders, rows
}

// TestRandomDamageOnDisk damages random files of data directories on a real disk, in the local level and in staging. The engine
// starts. Each acknowledged row is in its table once, as it was sent, or is reported either as damage, or as a file that waits with the error
// of its import. A row in an intact object in staging is in its table. FOREBAY_CASES=all damages 1,000 directories, and the log has the figures by
// the kind of the damaged file.
func TestRandomDamageOnDisk(t *testing.T) {
	if dir, ok := proctest.Child(); ok {
		e, err := fillRotten(t.Context(), dir, func(id int) { fmt.Println(id) })
		if err == nil {
			err = ingestRotten(t.Context(), e, rottenRows, 1<<30, func(id int) { fmt.Println(id) })
		}
		t.Fatal(err) // it is killed before
	}
	folders, rows := rottenFolders(t)
	first := seedtest.Of(t)
	sum := rottenTally{}
	defer sum.log(t)
	for i := range casetest.Of(1000, 40, 20) {
		seed := first + uint64(i)
		rng := rand.New(rand.NewPCG(seed, 0))
		from := rottenStates[rng.IntN(len(rottenStates))]
		t.Run(fmt.Sprintf("%d %s", i, from), func(t *testing.T) {
			r := &rotten{t: t, dir: filepath.Join(t.TempDir(), "data"), rows: rows[from], noted: rows[from], damaged: map[string]bool{}}
			if from == "idle" || from == "killed" {
				r.noted = max(80, (rows[from]/20-1)*20) // an upload began after them
			}
			must(t, disktest.Copy(folders[from], r.dir))
			r.damage(rng)
			defer func() {
				if sum.add(r); t.Failed() {
					t.Logf("seed %d, %s: %s", seed, from, strings.Join(r.what, "; "))
				}
			}()
			r.check()
		})
	}
}

// rotten is a damaged data directory.
type rotten struct {
	t     *testing.T
	dir   string
	rows  int      // ids of acknowledged rows: 0, 1, …
	what  []string // the damaged parts
	noted int      // ids of them that the note of the log's length covers
	kinds []string // of the damaged files
	// damaged are the paths of the damaged files.
	damaged map[string]bool
	rottenFigures
	// These say that files of a kind were damaged: that of the format, objects in staging, logs, and the note of the log's length.
	format, staged, log, reach bool
}

// damage damages a file, and sometimes several, but not the log of a killed process together with reach, which alone says how long it was.
func (r *rotten) damage(rng *rand.Rand) {
	r.t.Helper()
	part := "local"
	if rng.IntN(5) == 0 {
		part = "staging"
	}
	paths, err := disktest.Files(filepath.Join(r.dir, part))
	if err != nil || len(paths) == 0 {
		r.t.Fatalf("%v: %s has no files", err, part)
	}
	for range 1 + max(0, rng.IntN(6)-3) {
		path := paths[rng.IntN(len(paths))]
		if _, err := os.Stat(path); err != nil {
			continue // it was deleted just before
		}
		log, reach := strings.HasSuffix(path, ".log"), filepath.Base(path) == "reach"
		if log && r.reach || reach && r.log {
			continue
		}
		how, err := disktest.Damage(rng, path)
		if err != nil {
			r.t.Fatal(err)
		}
		r.what = append(r.what, strings.TrimPrefix(path, r.dir)+": "+how)
		r.damaged[path] = true
		r.kinds = append(r.kinds, rottenKind(part, filepath.Base(path)))
		r.staged = r.staged || part == "staging"
		r.log, r.reach = r.log || log, r.reach || reach
		r.format = r.format || filepath.Base(path) == "forebay-format"
	}
}

// open opens the engine. With other text in the file of the format it refuses, and works without the file.
func (r *rotten) open() *forebay.Engine {
	r.t.Helper()
	e, err := forebay.Open(r.dir, rottenOptions())
	if _, refused := errors.AsType[*buffer.FormatError](err); refused && r.format {
		if err := os.Remove(filepath.Join(r.dir, "local", "forebay-format")); err != nil {
			r.t.Fatal(err)
		}
		e, err = forebay.Open(r.dir, rottenOptions())
	}
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.started = 1
	return e
}

// check opens the damaged folder, stores some rows more, lets everything flow, and looks for each row.
func (r *rotten) check() {
	t := r.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := r.open()
	defer func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	const added, first = 3, 1 << 20 // ids that no process has used
	if err := e.Define(ctx, rottenSource); err != nil {
		t.Fatalf("define: %v", err)
	}
	if err := ingestRotten(ctx, e, first, first+added, func(int) {}); err != nil {
		t.Fatalf("ingest: %v", err)
	}
	r.drain(ctx, e)
	if report, err := e.Verify(ctx); err != nil || !report.OK() && !r.staged {
		t.Errorf("the ledger: %+v, %v", report, err)
	}
	list, err := e.Buffer().Damaged(ctx)
	must(t, err)
	for _, s := range e.Stats().Sinks {
		if s.Source == "web" {
			r.checkTable(s, list, first, added)
		}
	}
}

// drain flushes until nothing moves. A file that has lost all of its objects stays, and its import fails again and again.
func (r *rotten) drain(ctx context.Context, e *forebay.Engine) {
	r.t.Helper()
	flushing, stop := context.WithCancel(ctx)
	defer stop()
	flushed := make(chan error, 1)
	go func() { flushed <- e.FlushAll(flushing) }()
	for {
		select {
		case err := <-flushed:
			if err != nil {
				r.stuck = 1
				r.t.Fatalf("flush: %v", err)
			}
			return
		case <-time.After(time.Millisecond):
			if r.staged && settled(e) {
				stop()
				<-flushed // the flush gives up
				return
			}
		}
	}
}

// settled reports whether each row is in its table, or in a file whose import fails more often than it takes to give objects up.
func settled(e *forebay.Engine) bool {
	for _, s := range e.Stats().Sinks {
		for _, f := range s.Files {
			over := f.State == buffer.FileImported || f.State == buffer.FileExpired || f.State == buffer.FileDiscarded
			if !over && f.Attempt < 3 {
				return false
			}
		}
	}
	return true
}

// checkTable looks for the rows of a sink.
func (r *rotten) checkTable(s forebay.SinkStats, list []buffer.Damage, first, added int) {
	t := r.t
	t.Helper()
	seen := map[int]int{}
	for row, err := range dirdriver.Tables(filepath.Join(r.dir, "tables")).Rows("in.c-web." + s.Sink) {
		must(t, err)
		id, err := strconv.Atoi(row[0])
		if err != nil || row[1] != rottenText(id) {
			t.Errorf("sink %s: the table has a row that was not sent: %.60q", s.Sink, row)
		}
		if seen[id]++; seen[id] == 2 {
			r.doubled++
			t.Errorf("sink %s: row %d is there twice", s.Sink, id)
		}
	}
	missing := int64(0)
	sure := r.rows
	if r.log {
		sure = r.noted // the end of the log of a killed process looks like a write that was torn
	}
	for id := range sure {
		if seen[id] == 0 {
			missing++
		}
	}
	for id := first; id < first+added; id++ {
		if seen[id] == 0 && !r.staged {
			t.Errorf("sink %s: row %d, which came after the damage, is missing", s.Sink, id)
		}
	}
	reported, uncounted := s.Staging.Rows, false
	for _, d := range list {
		if d.SinkID == "" || d.SinkID == s.ID {
			reported += d.Rows
			uncounted = uncounted || d.Uncounted
		}
	}
	r.lost += missing
	r.reported = max(r.reported, min(1, int64(len(list))))
	wasted := r.whole(s, func(id int) bool { return seen[id] == 0 })
	if r.wasted += wasted; wasted > 0 && !slices.Contains(r.kinds, "records") {
		t.Errorf("sink %s: %d rows that lie whole in staging are not in the table, and the copy of the records is intact; damage %+v", s.Sink, wasted, list)
	}
	if missing > reported && !uncounted {
		r.silent += missing - reported
		t.Errorf("sink %s: %d rows are missing, %d are reported, damage %+v", s.Sink, missing, reported, list)
	}
}

// whole returns how many of the rows that are not in the table of a sink are in staging.
func (r *rotten) whole(s forebay.SinkStats, absent func(id int) bool) (rows int64) {
	encoding := driver.None
	if s.Sink == "gzip" {
		encoding = driver.Gzip
	}
	paths, err := disktest.Files(filepath.Join(r.dir, "staging"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, path := range paths {
		if r.damaged[path] || filepath.Base(filepath.Dir(path)) == parts.TempDir { // the killed process had not finished that upload, so it is no object
			continue
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the object was imported and deleted meanwhile
		}
		if err != nil {
			r.t.Fatal(err)
		}
		if (encoding == driver.Gzip) != bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			continue
		}
		src, err := driver.Decode(encoding, io.NopCloser(bytes.NewReader(data)))
		if err != nil {
			continue
		}
		data, err = io.ReadAll(src)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			id, text, _ := strings.Cut(strings.Trim(line, "\"\n"), `","`)
			if n, err := strconv.Atoi(id); err == nil && text == rottenText(n) && absent(n) {
				rows++
			}
		}
	}
	return rows
}

// rottenFigures say how damaged data directories ended.
type rottenFigures struct {
	cases    int64 // with this kind of damage
	started  int64 // cases
	reported int64 // cases with a report
	lost     int64 // acknowledged rows that are in no table
	wasted   int64 // of them, whole in staging
	doubled  int64 // rows
	silent   int64 // lost rows without a report
	stuck    int64 // cases
}

func (f *rottenFigures) add(o rottenFigures) {
	f.cases++
	f.started += o.started
	f.reported += o.reported
	f.lost += o.lost
	f.wasted += o.wasted
	f.doubled += o.doubled
	f.silent += o.silent
	f.stuck += o.stuck
}

// rottenTally has figures by the kind of the damaged file.
type rottenTally map[string]*rottenFigures

func (sum rottenTally) add(r *rotten) {
	kind := "several"
	if len(r.kinds) == 1 {
		kind = r.kinds[0]
	}
	for _, k := range []string{kind, "all"} {
		if sum[k] == nil {
			sum[k] = &rottenFigures{}
		}
		sum[k].add(r.rottenFigures)
	}
}

func (sum rottenTally) log(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(sum)) {
		t.Logf("%-10s %+v", kind, *sum[kind])
	}
}

// rottenKind is the kind of a file.
func rottenKind(part, name string) string {
	switch {
	case part == "staging":
		return part
	case filepath.Ext(name) != "" && !strings.HasPrefix(name, "marker."):
		return filepath.Ext(name)
	}
	kind, _, _ := strings.Cut(name, "-")
	if kind == "forebay" {
		return name
	}
	return kind
}
