package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// narrow is a target with limits.
type narrow struct {
	*buffertest.Memory
	limits datatype.Limits
}

func (n narrow) Limits() datatype.Limits { return n.limits }

// fan is a source with a sink for each target. All tables have the same name.
func fan(targets ...string) forebay.Source {
	s := forebay.Source{ID: "web"}
	for i, target := range targets {
		s.Sinks = append(s.Sinks, forebay.Sink{ID: fmt.Sprint("sink-", i), Table: forebay.Table{
			ID: "events", Target: target, Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("text", "text", mapping.DataType(datatype.String))},
		}})
	}
	return s
}

func ingestText(t *testing.T, e *forebay.Engine, text string) (forebay.Result, error) {
	t.Helper()
	return e.Ingest(t.Context(), "web", mapping.JSON(fmt.Appendf(nil, `{"text":%q}`, text)))
}

func texts(m *buffertest.Memory) (list []string) {
	for _, row := range m.Rows("events") {
		list = append(list, row[1])
	}
	slices.Sort(list)
	return list
}

// One record becomes a row in each target, and each target applies its limits. Tables with the same name in two targets are two tables.
func TestTargets(t *testing.T) {
	lake := narrow{buffertest.NewMemory(), datatype.Limits{MaxCell: 40}}
	e, mem := openMemory(t, func(o *forebay.Options) { o.Targets = map[string]driver.Target{"lake": lake} })
	mustDefine(t, e, fan("", "lake"))
	if _, err := ingestText(t, e, "short"); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 50)
	res, err := ingestText(t, e, long)
	if err == nil || res.Sinks[0].Status != forebay.Stored || res.Sinks[1].Status != forebay.Rejected {
		t.Errorf("got %+v, want that only the target with the limit rejects", res)
	}
	must(t, e.Flush(t.Context(), "web"))
	if a, b := texts(mem), texts(lake.Memory); !slices.Equal(a, []string{"short", long}) || !slices.Equal(b, []string{"short"}) {
		t.Errorf("the tables have %q and %q", a, b)
	}
	for i, s := range e.Stats().Sinks {
		if want := []string{"", "lake"}[i]; s.Table.Target != want || s.Files[0].Table.Target != want {
			t.Errorf("sink %s is in target %q, its file in %q, want %q", s.Sink, s.Table.Target, s.Files[0].Table.Target, want)
		}
	}
	if o := e.Options(); o.TargetNamed("lake") != driver.Target(lake) || o.TargetNamed("") != o.Target || o.TargetNamed("no") != nil {
		t.Error("TargetNamed does not return the targets of the options")
	}
	report, err := e.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("verify: %+v %v", report, err)
	}
}

// A definition with an unknown name is refused. Options with invalid names are refused.
func TestTargetsThatAreUnknown(t *testing.T) {
	e, mem := openMemory(t, func(o *forebay.Options) { o.Targets = map[string]driver.Target{"lake": buffertest.NewMemory()} })
	err := e.Define(t.Context(), fan("sea"))
	if want := `source "web": sink "sink-0": Table.Target: "sea", must be one of ["lake"] or empty`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	err = forebay.Options{Target: mem, Targets: map[string]driver.Target{"The Lake": mem, "none": nil}}.Validate()
	for _, want := range []string{`the name of a target in Targets: "The Lake": only a-z`, `the target "none" in Targets is nil`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The caller may use its map for other options once the engine is open.
func TestTargetsAreCopied(t *testing.T) {
	targets := map[string]driver.Target{"lake": buffertest.NewMemory()}
	e, _ := openMemory(t, func(o *forebay.Options) { o.Targets = targets })
	delete(targets, "lake")
	mustDefine(t, e, fan("lake"))
	if _, err := ingestText(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	if err := e.Flush(t.Context(), "web"); err != nil {
		t.Error(err)
	}
}

// Targets that hang block only their workers. The imports of other targets continue, for any number of sinks that wait for such a target.
func TestTargetThatHangsHoldsUpNoOther(t *testing.T) {
	lake := buffertest.NewMemory()
	hang, begun := make(chan struct{}), make(chan struct{}, 100)
	lake.Before = func(ctx context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport {
			begun <- struct{}{}
			select {
			case <-hang:
			case <-ctx.Done():
			}
		}
		return nil
	}
	e, mem := openMemory(t, func(o *forebay.Options) {
		o.Targets, o.Buffer.Imports = map[string]driver.Target{"lake": lake}, 2
	})
	defer close(hang)
	s := fan("lake", "lake", "lake", "lake", "")
	for i := range s.Sinks {
		s.Sinks[i].Table.ID = fmt.Sprint("events-", i)
	}
	mustDefine(t, e, s)
	for range 3 {
		if _, err := ingestText(t, e, "x"); err != nil {
			t.Fatal(err)
		}
	}
	hung, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := make(chan error, 1)
	go func() { waiting <- e.Flush(hung, "web", "sink-0", "sink-1", "sink-2", "sink-3") }()
	for range 2 { // all workers of the lake are busy
		<-begun
	}
	done, cancelDone := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancelDone()
	if err := e.Flush(done, "web", "sink-4"); err != nil {
		t.Fatalf("the working target waits for the target that hangs: %v", err)
	}
	if n := len(mem.Rows("events-4")); n != 3 || len(lake.Rows("events-0")) != 0 {
		t.Errorf("the table has %d rows, want 3, and no rows in the target that hangs", n)
	}
	cancel()
	<-waiting
}

// BenchmarkHungTarget measures how long a flush of 100 sinks takes whose imports take 2 ms each, alone and together with 20 sinks whose target hangs, in turn:
//
//	go test . -run '^$' -bench HungTarget -benchtime 50x
//
// hung/alone is the ratio of the medians.
func BenchmarkHungTarget(b *testing.B) {
	type side struct {
		engine *forebay.Engine
		took   []time.Duration
	}
	open := func(hung bool) *side {
		mem, lake := buffertest.NewMemory(), buffertest.NewMemory()
		begun := make(chan struct{}, 100)
		lake.Before = func(ctx context.Context, c buffertest.Call) error {
			if c.Op != buffertest.OpImport {
				return nil
			}
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImport {
				<-time.After(2 * time.Millisecond)
			}
			return nil
		}
		e, err := forebay.Open("data", forebay.Options{
			Staging: mem, Target: mem, Targets: map[string]driver.Target{"lake": lake}, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.NewMem()),
		})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		flushed := make(chan error, 1)
		b.Cleanup(func() {
			cancel()
			if err := e.Close(); err != nil {
				b.Error(err)
			}
			<-flushed
		})
		for id, targets := range map[string][]string{"web": make([]string, 100), "lake": slices.Repeat([]string{"lake"}, 20)} {
			s := fan(targets...)
			s.ID = id
			for i := range s.Sinks {
				s.Sinks[i].Table.ID = fmt.Sprint(id, "-", i)
			}
			if err := e.Define(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}
		if !hung {
			flushed <- nil
			return &side{engine: e}
		}
		if _, err := e.Ingest(b.Context(), "lake", mapping.JSON([]byte(`{"text":"x"}`))); err != nil {
			b.Fatal(err)
		}
		go func() { flushed <- e.Flush(ctx, "lake") }()
		for range 4 { // all workers of the lake are busy
			<-begun
		}
		return &side{engine: e}
	}
	sides := []*side{open(false), open(true)}
	for b.Loop() {
		for _, s := range sides {
			begin := time.Now()
			if _, err := s.engine.Ingest(b.Context(), "web", mapping.JSON([]byte(`{"text":"x"}`))); err != nil {
				b.Fatal(err)
			}
			if err := s.engine.Flush(b.Context(), "web"); err != nil {
				b.Fatal(err)
			}
			s.took = append(s.took, time.Since(begin))
		}
	}
	var medians [2]float64
	for i, s := range sides {
		slices.Sort(s.took)
		medians[i] = s.took[len(s.took)/2].Seconds() * 1000
		b.ReportMetric(medians[i], []string{"alone", "hung"}[i]+"-ms")
	}
	b.ReportMetric(medians[1]/medians[0], "hung/alone")
	b.ReportMetric(0, "ns/op")
}

// If a target hangs, all tables of other targets are checked, for any number of tables.
func TestTargetThatHangsLeavesTablesOfOthersChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lake := buffertest.NewMemory()
		lake.Before = func(ctx context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpEnsure {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		e, mem := openMemory(t, func(o *forebay.Options) { o.Targets = map[string]driver.Target{"lake": lake} })
		refused := driver.Permanent(errors.New("the table has other columns"))
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpEnsure {
				return refused
			}
			return nil
		}
		targets := slices.Repeat([]string{"lake"}, 40)
		if err := e.Define(t.Context(), fan(append(targets, "")...)); !errors.Is(err, refused) {
			t.Errorf("got %v, want the error of the working target", err)
		}
	})
}

// A definition moves a sink to a different target. Waiting rows go to the old target, and later rows go to the new target.
func TestSinkMovesToAnotherTarget(t *testing.T) {
	lake, disk := buffertest.NewMemory(), vfs.NewMem()
	mem := buffertest.NewMemory()
	open := func(targets map[string]driver.Target) *forebay.Engine {
		e, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, Targets: targets, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disk)})
		must(t, err)
		return e
	}
	closed := func(e *forebay.Engine) {
		must(t, e.Close())
	}
	e := open(nil)
	mustDefine(t, e, fan(""))
	if _, err := ingestText(t, e, "1 old"); err != nil {
		t.Fatal(err)
	}
	closed(e) // the row waits

	e = open(map[string]driver.Target{"lake": lake})
	mustDefine(t, e, fan("lake"))
	if _, err := ingestText(t, e, "2 new"); err != nil {
		t.Fatal(err)
	}
	mustDefine(t, e, fan("lake")) // the same again moves nothing
	closed(e)

	// The target of waiting rows is missing. The rows are held with this reason, and no other target gets them.
	e = open(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := e.FlushAll(ctx)
	var held *buffer.HeldError
	if !errors.As(err, &held) || !strings.Contains(err.Error(), `there is no target "lake"`) {
		t.Errorf("got %v, want that the rows wait for the target", err)
	}
	closed(e)

	e = open(map[string]driver.Target{"lake": lake})
	mustDefine(t, e, fan(""))
	if _, err := ingestText(t, e, "3 old again"); err != nil {
		t.Fatal(err)
	}
	must(t, e.Flush(ctx, "web"))
	if a, b := texts(mem), texts(lake); !slices.Equal(a, []string{"1 old", "3 old again"}) || !slices.Equal(b, []string{"2 new"}) {
		t.Errorf("the old target has %q, the new one %q", a, b)
	}
	report, err := e.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("verify: %+v %v", report, err)
	}
	closed(e)
}

// openMoving opens an engine on two folders of tables.
func openMoving(folder string) (*forebay.Engine, error) {
	tables := func(name string) *dir.TableDir { return dir.Tables(filepath.Join(folder, name)) }
	return forebay.Open(filepath.Join(folder, "data"), forebay.Options{
		Target: tables("first"), Targets: map[string]driver.Target{"second": tables("second")}, Buffer: buffer.Tuning{MinImportInterval: time.Second},
	})
}

// moveUntilKilled moves a sink from one target to the other and back, and prints the number of the last row that is on disk.
func moveUntilKilled(folder string, from int) error {
	e, err := openMoving(folder)
	if err != nil {
		return err
	}
	ctx := context.Background()
	often := trigger.Conditions{Interval: time.Second, Count: 50, Size: 1 << 20}
	for n := from; ; n++ {
		if n%20 == 0 || n == from {
			s := fan([]string{"", "second"}[n/20%2])
			s.Settings = forebay.Settings{Upload: trigger.Conditions{Interval: time.Second, Count: 50, Size: 1 << 20}, Import: often}
			if err := e.Define(ctx, s); err != nil {
				return err
			}
		}
		if _, err := e.IngestOnce(ctx, "web", forebay.Once{Key: strconv.Itoa(n)}, []*mapping.Record{mapping.JSON(fmt.Appendf(nil, `{"text":"%d"}`, n))}); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// A process is killed repeatedly while it moves a sink between two targets. Each row is in one of the targets, once.
func TestKillsWhileASinkMoves(t *testing.T) {
	if folder, ok := proctest.Child(); ok {
		folder, from, _ := strings.Cut(folder, "|")
		n, _ := strconv.Atoi(from)
		t.Fatal(moveUntilKilled(folder, n))
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	folder, last := t.TempDir(), -1
	rng := seedtest.Rand(t)
	for range 3 * proctest.Kills(t) {
		p := proctest.Start(t, t.Name(), fmt.Sprint(folder, "|", last+1))
		p.Lines(1+rng.IntN(90), time.Duration(rng.Int64N(int64(10*time.Millisecond))), func(line string) {
			n, err := strconv.Atoi(line)
			if err != nil {
				t.Fatalf("%q: got %v, want no error", line, err)
			}
			last = n
		})
	}
	e, err := openMoving(folder)
	must(t, err)
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, e.FlushAll(ctx))
	seen := map[int]int{}
	for _, name := range []string{"first", "second"} {
		files, err := filepath.Glob(filepath.Join(folder, name, "events", "*.csv"))
		if err != nil || len(files) == 0 {
			t.Errorf("the %s target has no rows: %v", name, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			must(t, err)
			for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
				n, err := strconv.Atoi(strings.Trim(strings.Split(line, ",")[1], `"`))
				must(t, err)
				seen[n]++
			}
		}
	}
	for n := range last + 1 {
		if seen[n] != 1 {
			t.Errorf("row %d is there %d times", n, seen[n])
		}
	}
	for n, times := range seen {
		if n > last+1 || times != 1 {
			t.Errorf("row %d, after %d, is there %d times", n, last, times)
		}
	}
	t.Logf("%d rows", last+1)
	report, err := e.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("verify: %+v %v", report, err)
	}
}

// Events for the application go to one target. The same events go to a second target for analytics.
func ExampleTable_target() {
	ctx := context.Background()
	data, err := os.MkdirTemp("", "forebay")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(data)
	app, lake := dir.Tables(filepath.Join(data, "app")), dir.Tables(filepath.Join(data, "lake")) // such as PostgreSQL and Parquet
	e, err := forebay.Open(filepath.Join(data, "forebay"), forebay.Options{Target: app, Targets: map[string]driver.Target{"lake": lake}})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	err = e.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{
		{ID: "users", Table: forebay.Table{ID: "users", Columns: mapping.Columns{mapping.Path("name", "user.name", mapping.RawString())}}},
		{ID: "events", Table: forebay.Table{ID: "events", Target: "lake", Columns: mapping.Columns{mapping.Body("body")}}},
	}})
	if err != nil {
		panic(err)
	}
	if _, err := e.Ingest(ctx, "web", mapping.JSON([]byte(`{"user":{"name":"Ada"}}`))); err != nil {
		panic(err)
	}
	if err := e.Flush(ctx, "web"); err != nil {
		panic(err)
	}
	for row := range app.Cells("users") {
		fmt.Printf("app: %s\n", row)
	}
	for row := range lake.Cells("events") {
		fmt.Printf("lake: %s\n", row)
	}

	// Output:
	// app: [Ada]
	// lake: [{"user":{"name":"Ada"}}]
}

// A shadow whose table is in another target applies the limits of this target, and the sink keeps its own.
func TestShadowHasTheLimitsOfItsTarget(t *testing.T) {
	lake := narrow{buffertest.NewMemory(), datatype.Limits{MaxCell: 40}}
	e, _ := openMemory(t, func(o *forebay.Options) { o.Targets = map[string]driver.Target{"lake": lake} })
	mustDefine(t, e, fan(""))
	s, err := e.Sink("web", "sink-0").Shadow(t.Context(), fan("lake").Sinks[0], forebay.ShadowOptions{})
	must(t, err)
	for _, text := range []string{"short", strings.Repeat("x", 50)} {
		if _, err := ingestText(t, e, text); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.Close(); r.Compared != 2 || r.Equal != 1 || r.OnlyCurrent != 1 || len(r.Errors) != 1 || r.Errors[0].Column != "text" || !r.Errors[0].Changed {
		t.Errorf("got %+v, want that the lake rejects one of two records", r)
	}
}
