package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// target is a target whose calls a test decides.
type target struct {
	*buffertest.Memory
	ensure  func(ctx context.Context, table driver.Table) error
	removed []string
}

func (t *target) Ensure(ctx context.Context, table driver.Table) error { return t.ensure(ctx, table) }

func (t *target) Extend(ctx context.Context, table driver.Table) error {
	table.ID += "+"
	return t.ensure(ctx, table)
}

func (t *target) Uncreate(_ context.Context, table, creation string) error {
	t.removed = append(t.removed, table+" "+creation)
	return nil
}

// open returns the tables of a buffer with one target.
func open(t *testing.T, to *target) (Tables, *bytes.Buffer) {
	t.Helper()
	to.Memory = buffertest.NewMemory()
	log := new(bytes.Buffer)
	logger := slog.New(slog.NewTextHandler(log, nil))
	b, err := buffer.Open(t.TempDir(), buffer.Options{Staging: to.Memory, Target: to, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return Tables{Buffer: b, Target: func(string) driver.Target { return to }, Log: logger}, log
}

func sinkOf(id string, extend bool, keeps bool) Sink {
	columns := mapping.Columns{mapping.Path("id", "id")}
	table := driver.Table{ID: "t-" + id, Columns: []datatype.Column{{Name: "id"}}, Extend: extend}
	return Sink{ID: id, Config: buffer.SinkConfig{ID: "web/" + id, Table: table, Mapping: Mapping(table, columns)}, Keeps: func() bool { return keeps }}
}

// Each kind of problem refuses the definition, or is returned and logged.
func TestEnsure(t *testing.T) {
	broken := driver.Permanent(errors.New("no such schema"))
	for _, c := range []struct {
		name    string
		err     error
		keeps   bool
		refuse  func(buffer.TableProblem) bool
		refused bool
		kept    bool
		log     string
	}{
		{name: "no problem"},
		{name: "a new table", err: broken, refused: true},
		{name: "a sink that keeps its columns", err: broken, keeps: true, kept: true, log: "change of a sink refused"},
		{name: "a caller that accepts it", err: broken, refuse: func(buffer.TableProblem) bool { return false }, log: "table cannot take the rows of a sink"},
		{name: "a target that is down", err: errors.New("connection refused"), log: "tables not checked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := &target{ensure: func(context.Context, driver.Table) error { return c.err }}
			tables, log := open(t, to)
			problems, err := tables.Ensure(t.Context(), "web", []Sink{sinkOf("a", false, c.keeps)}, Options{Refuse: c.refuse})
			if (err != nil) != c.refused || c.refused && !errors.Is(err, broken) {
				t.Errorf("Ensure failed with %v, want an error: %t", err, c.refused)
			}
			if n := len(problems); n != 0 != (driver.IsPermanent(c.err) && !c.refused) || n == 1 && problems[0].Kept != c.kept {
				t.Errorf("problems %+v, want one that is kept: %t", problems, c.kept)
			}
			if c.log != "" != strings.Contains(log.String(), "WARN") || !strings.Contains(log.String(), c.log) {
				t.Errorf("the log is %q, want %q", log, c.log)
			}
		})
	}
}

// A table begins to grow only when no other table has refused the definition.
func TestGrowthIsLast(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		var calls []string
		to := &target{ensure: func(_ context.Context, table driver.Table) error {
			calls = append(calls, table.ID)
			if refuses && table.ID == "t-b" {
				return driver.Permanent(errors.New("no such schema"))
			}
			return nil
		}}
		tables, _ := open(t, to)
		if _, err := tables.Buffer.Define(t.Context(), sinkOf("a", false, false).Config); err != nil {
			t.Fatal(err)
		}
		_, err := tables.Ensure(t.Context(), "web", []Sink{sinkOf("a", true, false), sinkOf("b", false, false)}, Options{})
		want := []string{"t-b", "t-a+"}
		if refuses {
			want = want[:1]
		}
		if !slices.Equal(calls, want) || (err != nil) != refuses {
			t.Errorf("table b refuses: %t; the target was asked for %q, %v; want %q", refuses, calls, err, want)
		}
	}
}

// The tables of a sink that did not change are not asked for.
func TestDefinedSinkIsNotChecked(t *testing.T) {
	to := &target{ensure: func(_ context.Context, table driver.Table) error { return fmt.Errorf("asked for %s", table.ID) }}
	tables, log := open(t, to)
	s := sinkOf("a", false, false)
	if _, err := tables.Buffer.Define(t.Context(), s.Config); err != nil {
		t.Fatal(err)
	}
	if problems, err := tables.Ensure(t.Context(), "web", []Sink{s}, Options{}); err != nil || len(problems) > 0 || log.Len() > 0 {
		t.Errorf("problems %v, %v, log %q; want none", problems, err, log)
	}
}

// A target that does not respond costs one timeout, for any number of tables, and one that ignores its context is abandoned.
func TestTargetThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		done := map[error]int{}
		results := make(chan error, 100)
		callAll(t.Context(), 100, func(context.Context, int) error { <-release; return nil }, func(_ int, err error) { results <- err })
		for range 100 {
			switch err := <-results; {
			case errors.Is(err, errNotChecked):
				done[errNotChecked]++
			case errors.Is(err, context.DeadlineExceeded):
				done[context.DeadlineExceeded]++
			default:
				t.Errorf("a call ended with %v", err)
			}
		}
		if done[context.DeadlineExceeded] != atOnce || done[errNotChecked] != 100-atOnce {
			t.Errorf("got %v, want %d calls that were abandoned, and the others not made", done, atOnce)
		}
		close(release)
	})
}

func TestUncreate(t *testing.T) {
	to := &target{}
	tables, _ := open(t, to)
	list := []driver.Table{{ID: "a"}, {ID: "b"}}
	used := func(id string) func(driver.Table) (string, bool) {
		return func(table driver.Table) (string, bool) { return "web/" + id, table.ID == id }
	}
	if err := tables.Uncreate(t.Context(), "mark", list, used("b")); err == nil || !strings.Contains(err.Error(), `sink "web/b" uses it`) || len(to.removed) > 0 {
		t.Errorf("with a table in use: %v, removed %q; want an error that names the sink, and none removed", err, to.removed)
	}
	if err := tables.Uncreate(t.Context(), "mark", list[:1], used("b")); err != nil || !slices.Equal(to.removed, []string{"a mark"}) {
		t.Errorf("removed %q, %v, want table a with its mark", to.removed, err)
	}
}

// Last has what a definition stored, for the same table with Extend alone.
func TestLast(t *testing.T) {
	tables, _ := open(t, &target{})
	if _, err := tables.Buffer.Define(t.Context(), sinkOf("a", true, false).Config); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id    string
		table driver.Table
		want  bool
	}{
		{"web/a", driver.Table{ID: "t-a", Extend: true}, true},
		{"web/a", driver.Table{ID: "t-a"}, false},
		{"web/a", driver.Table{ID: "t-b", Extend: true}, false},
		{"web/a", driver.Table{ID: "t-a", Extend: true, Target: "other"}, false},
		{"web/b", driver.Table{ID: "t-a", Extend: true}, false},
	} {
		columns, made, ok := tables.Last(c.id, c.table)
		if ok != c.want || ok && (len(columns) != 1 || columns[0].Name != "id" || len(made) != 1) {
			t.Errorf("got %s, table %+v: columns %v, %v, %t; want %t", c.id, c.table, columns, made, ok, c.want)
		}
	}
}

func TestRenames(t *testing.T) {
	before := mapping.Columns{mapping.Path("user", "user.id"), mapping.Path("n", "n")}
	for _, c := range []struct {
		columns mapping.Columns
		want    []string
	}{
		{before, nil},
		{mapping.Columns{mapping.Path("person", "user.id"), before[1]}, []string{"user → person"}},
		{mapping.Columns{mapping.Path("person", "person.id"), before[1]}, nil},
		{mapping.Columns{mapping.Path("USER", "user.id"), before[1]}, nil},
	} {
		if got := Renames(before, c.columns); !slices.Equal(got, c.want) {
			t.Errorf("got %v: renames %q, want %q", c.columns, got, c.want)
		}
	}
}
