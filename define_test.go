package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

func TestDefinitionReportsEveryProblem(t *testing.T) {
	bad := forebay.Source{ID: "Web!", Type: "ftp", Settings: forebay.Settings{Upload: trigger.Conditions{Interval: time.Hour}}}
	for i := range forebay.MaxSinks + 1 {
		bad.Sinks = append(bad.Sinks, forebay.Sink{ID: fmt.Sprint("s", i), Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Body("b")}}})
	}
	bad.Sinks[1].ID = "s0"
	bad.Sinks[2].Table.ID = ""
	bad.Sinks[3].Table.Columns = nil
	for range 101 {
		bad.Sinks[4].Table.Columns = append(bad.Sinks[4].Table.Columns, mapping.Body("same"))
	}
	bad.Sinks[5].Table.Columns = mapping.Columns{mapping.Template("t", "Body(")}
	bad.Sinks[6].Settings.Import.Count = -1
	_, err := forebay.Compile(bad, forebay.Options{})
	var def *forebay.DefinitionError
	if !errors.As(err, &def) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{
		"ID: ", `Type "ftp"`, "at most 100", "Settings: Upload.Interval: 1h0m0s", `"s0": the ID is used twice`,
		`"s2": Table.ID`, `"s3"`, `"s4"`, `"s5"`, `"s6": Settings: Import.Count: -1`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not tell of %s:\n%v", want, err)
		}
	}
}

func TestLimitOfSources(t *testing.T) {
	e, _ := openMemory(t)
	for i := range forebay.DefaultMaxSources {
		mustDefine(t, e, forebay.Source{ID: fmt.Sprint("s", i)})
	}
	if err := e.Define(t.Context(), forebay.Source{ID: "one-more"}); !errors.Is(err, forebay.ErrTooManySources) {
		t.Fatalf("error %v", err)
	}
	mustDefine(t, e, forebay.Source{ID: "s0", Disabled: true}) // a change of one that exists
	if n := len(e.Sources()); n != forebay.DefaultMaxSources {
		t.Fatalf("got %d sources, want %v", n, forebay.DefaultMaxSources)
	}
}

func TestDefineRefusesATableWithOtherColumns(t *testing.T) {
	e, mem := openMemory(t)
	must(t, mem.Ensure(t.Context(), driver.Table{ID: "in.c-web.users", Columns: datatype.UntypedColumns("a", "b")}))
	var schema *driver.SchemaError
	if err := e.Define(t.Context(), events()); !errors.As(err, &schema) || schema.Table != "in.c-web.users" {
		t.Fatalf("error %v, want a SchemaError", err)
	}
	if _, ok := e.Source("web"); ok {
		t.Fatal("the refused definition is in force")
	}
}

// A table that the target will never have is refused when it is named, and not when its rows have waited for days.
func TestDefineRefusesATableThatCannotBe(t *testing.T) {
	mem := buffertest.NewMemory()
	never, down := errors.New("no such name"), errors.New("down")
	for _, tt := range []struct{ answer, want error }{{driver.Permanent(never), never}, {down, nil}} {
		e, err := forebay.Open("data", forebay.Options{Target: refusing{mem, tt.answer}, Staging: mem, Buffer: localdisk.On(buffer.Tuning{}, vfs.NewMem())})
		must(t, err)
		defer e.Close()
		if err := e.Define(t.Context(), events()); !errors.Is(err, tt.want) {
			t.Errorf("the target says %v: Define returns %v, want %v", tt.answer, err, tt.want)
		}
		if _, ok := e.Source("web"); ok != (tt.want == nil) {
			t.Errorf("the target says %v: the definition is in force: %v", tt.answer, ok)
		}
	}
}

// A target that is down, or refuses the login, fails for every table in the same way. One warning names them all.
func TestDefineWarnsOnceOfATargetThatIsDown(t *testing.T) {
	mem := buffertest.NewMemory()
	var log lockedBuffer
	e, err := forebay.Open("data", forebay.Options{
		Target: refusing{mem, errors.New("wrong password")}, Staging: mem, Buffer: localdisk.On(buffer.Tuning{}, vfs.NewMem()),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	must(t, err)
	defer e.Close()
	source := events()
	more := source.Sinks[0]
	more.ID, more.Table.ID = "another", "in.c-web.another"
	source.Sinks = append(source.Sinks, more)
	must(t, e.Define(t.Context(), source))
	text := log.out.String()
	if n := strings.Count(text, "wrong password"); n != 1 || !strings.Contains(text, "in.c-web.another") || !strings.Contains(text, source.Sinks[0].Table.ID) {
		t.Errorf("the error is logged %d times, want once, with both tables:\n%s", n, text)
	}
}

// refusing has no table.
type refusing struct {
	driver.Target
	err error
}

func (r refusing) Ensure(context.Context, driver.Table) error { return r.err }

// A restart finds tables that no longer match. Ingestion continues, and the rows wait in staging.
func TestKnownDefinitionIsTakenAgainWhateverTheTableIs(t *testing.T) {
	fs := vfs.NewMem()
	share := func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, fs) }
	e, _ := openMemory(t, share)
	mustDefine(t, e, events())
	must(t, e.Close())
	e, mem := openMemory(t, share)
	must(t, mem.Ensure(t.Context(), driver.Table{ID: "in.c-web.users", Columns: datatype.UntypedColumns("a", "b")}))
	mustDefine(t, e, events())
	mustIngest(t, e, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`)))
	var held *buffer.HeldError
	if err := e.Flush(t.Context(), "web", "users"); !errors.As(err, &held) {
		t.Fatalf("flush: %v, want a HeldError", err)
	}
}

func TestRemovedSourceDrains(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	mustIngest(t, e, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`)))
	must(t, e.Remove(t.Context(), "web"))
	if _, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(`{}`))); !errors.Is(err, forebay.ErrUnknownSource) {
		t.Fatalf("ingest: %v", err)
	}
	must(t, e.FlushAll(t.Context()))
	if users, raw := len(mem.Rows("in.c-web.users")), len(mem.Rows("in.c-web.raw")); users != 1 || raw != 1 {
		t.Fatalf("got %d and %d rows, want 1 and 1", users, raw)
	}
}

// Definitions change under load. Every accepted record is in exactly one table of its sink, mapped for its columns.
func TestRedefinitionUnderLoad(t *testing.T) {
	e, mem := openMemory(t)
	define := func(version int) {
		mustDefine(t, e, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "a", Table: forebay.Table{
			ID: fmt.Sprint("in.c-web.v", version),
			Columns: mapping.Columns{
				mapping.Path("id", "id"), mapping.Template("version", fmt.Sprint(version)),
			},
		}}}})
	}
	const versions, workers, each = 5, 4, 100
	define(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				if _, err := e.Ingest(t.Context(), "web", mapping.JSON(fmt.Appendf(nil, `{"id":"%d-%d"}`, w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for v := 1; v < versions; v++ {
		define(v)
	}
	wg.Wait()
	must(t, e.Flush(t.Context(), "web"))
	seen := map[string]bool{}
	for v := range versions {
		for _, r := range mem.Rows(fmt.Sprint("in.c-web.v", v)) {
			if r[1] != fmt.Sprint(v) {
				t.Errorf("table v%d has a row of version %s", v, r[1])
			}
			if seen[r[0]] {
				t.Errorf("%s is stored twice", r[0])
			}
			seen[r[0]] = true
		}
	}
	if len(seen) != workers*each {
		t.Errorf("got %d records, want %d", len(seen), workers*each)
	}
}

func TestChangeOfSourceSettingsImportsAtAllItsSinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t)
		mustDefine(t, e, events())
		mustIngest(t, e, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`)))
		mustDefine(t, e, events(func(s *forebay.Source) { s.Settings.Upload.Interval = 10 * time.Second }))
		synctest.Wait()
		if users, raw := len(mem.Rows("in.c-web.users")), len(mem.Rows("in.c-web.raw")); users != 1 || raw != 1 {
			t.Fatalf("got %d and %d rows in the tables, want what waited at once", users, raw)
		}
	})
}

func TestCountersOutliveDefinitions(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events())
	bad := mapping.JSON([]byte(`{"id":1}`))
	if _, err := e.Ingest(t.Context(), "web", bad); err == nil {
		t.Fatal("no rejection")
	}
	mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks[0].Disabled, s.Sinks[1].Disabled = true, true }))
	if res, err := e.Ingest(t.Context(), "web", bad); err != nil || len(res.Sinks) != 0 {
		t.Fatalf("got %+v %v, want no error and len(res.Sinks) == 0", res, err)
	}
	mustDefine(t, e, events())
	st := e.Stats()
	if st.Dropped["web"] != 1 {
		t.Errorf("dropped %v, want 1", st.Dropped)
	}
	for _, s := range st.Sinks {
		if s.Sink == "users" && s.Rejected["missingValue"] != 1 {
			t.Errorf("rejected %v, want 1", s.Rejected)
		}
	}
}

// The options of the engine lower the least interval of imports for its sources.
func TestImportIntervalOfTheOptions(t *testing.T) {
	quick := events(func(s *forebay.Source) { s.Settings.Import.Interval = 2 * time.Second })
	e, _ := openMemory(t)
	if err := e.Define(t.Context(), quick); err == nil || !strings.Contains(err.Error(), "below the minimum 30s") {
		t.Errorf("with the default: %v", err)
	}
	e, _ = openMemory(t, func(o *forebay.Options) { o.Buffer.MinImportInterval = time.Second })
	mustDefine(t, e, quick)
}

func TestIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "my_source-2": true, "0_0": true, "": false, "_a": false, "a_": false, "-a": false, "A": false, "a.b": false, "a/b": false,
		strings.Repeat("a", 48): true, strings.Repeat("a", 49): false,
	} {
		if _, err := forebay.Compile(forebay.Source{ID: id}, forebay.Options{}); (err == nil) != want {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	src := forebay.Source{ID: "web", Secret: "hidden-1", OldSecret: "hidden-2", OldSecretUntil: time.Now()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, v := range []any{src, &src, []forebay.Source{src}, map[string]forebay.Source{"a": src}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "hidden") {
				t.Errorf("%s of %T: got %s, want no secret", verb, v, text)
			}
		}
	}
}

// Ids are part of paths, keys and pages. Ids that a stranger might use to attack them are refused, for a source as for a sink.
func TestIDsOfStrangersAreRefused(t *testing.T) {
	table := forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Body("b")}}
	for _, id := range []string{
		"", "<img src=x>", `"><svg onload=alert(1)>`, "a'b", "..", "../etc", "a/b", `a\b`, "a b", "a.b", "A", "é", "a\u200bb", "a\u202eb", "a\x00", "a\xff", "-a", "a_",
		"{{a}}", "${a}", "%2e%2e", "a\n", "javascript:alert", strings.Repeat("x", forebay.MaxIDLength+1),
	} {
		for what, def := range map[string]forebay.Source{
			"source": {ID: id, Sinks: []forebay.Sink{{ID: "k", Table: table}}}, "sink": {ID: "s", Sinks: []forebay.Sink{{ID: id, Table: table}}},
		} {
			var problems *forebay.DefinitionError
			if _, err := forebay.Compile(def, forebay.Options{}); !errors.As(err, &problems) || !strings.Contains(err.Error(), "ID: ") {
				t.Errorf("the id %q of a %s: %v", id, what, err)
			}
		}
	}
	longest := strings.Repeat("x", forebay.MaxIDLength)
	if _, err := forebay.Compile(forebay.Source{ID: longest, Sinks: []forebay.Sink{{ID: longest, Table: table}}}, forebay.Options{}); err != nil {
		t.Errorf("the longest id: %v", err)
	}
}

func TestMaxSources(t *testing.T) {
	e, _ := openMemory(t, func(o *forebay.Options) { o.MaxSources = 2 })
	for _, id := range []string{"a", "b"} {
		mustDefine(t, e, forebay.Source{ID: id})
	}
	err := e.Define(t.Context(), forebay.Source{ID: "c"})
	if want := `define source "c": the engine has too many sources: Options.MaxSources is 2: remove a source, or raise it`; !errors.Is(err, forebay.ErrTooManySources) || err.Error() != want {
		t.Errorf("Define of a third source = %v, want %q", err, want)
	}
	for _, n := range []int{-1, 100_001} {
		if err := (forebay.Options{MaxSources: n}).Validate(); err == nil {
			t.Errorf("Validate with MaxSources %d = nil, want an error", n)
		}
	}
}

// KeepHeaders refuses texts that are no names, and names whose values are never kept.
func TestKeepHeadersAreChecked(t *testing.T) {
	for name, problem := range map[string]string{
		"X-Shop-Id": "", "*": "", "": "is not the name", "X Shop": "is not the name", "X-Shop:": "is not the name", "X-\xff": "is not the name",
		"authorization": "sounds like a secret", "X-Api-Key": "sounds like a secret",
	} {
		_, err := forebay.Compile(forebay.Source{ID: "web", KeepHeaders: []string{name}}, forebay.Options{})
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: got %v, want %q", name, err, problem)
		}
	}
}
