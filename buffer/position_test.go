package buffer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
)

func savedPosition(t *testing.T, b *buffer.Buffer, sink, name string) string {
	t.Helper()
	value, err := b.Sink(sink).Position(t.Context(), name)
	must(t, err)
	return string(value)
}

func at(name, value string) *buffer.Position {
	return &buffer.Position{Name: name, Value: []byte(value)}
}

// A position moves with its rows, is kept by an opening, and ends permanently.
func TestPosition(t *testing.T) {
	opts := memoryOptions(t, buffertest.NewMemory())
	b, err := buffer.Open("data", opts)
	must(t, err)
	s := define(t, b, "s")
	other := define(t, b, "other")
	if got := savedPosition(t, b, "s", "p"); got != "" {
		t.Errorf("before its start: %q", got)
	}
	must(t, b.Sink("s").SetPosition(t.Context(), *at("p", "begin")))
	for i := range 3 {
		if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "v"), Count: 1, Position: at("p", fmt.Sprint(i))},
			buffer.Rows{Sink: other, Data: row(i, "v"), Count: 1, Position: at("p", "never begun")}); err != nil {
			t.Fatal(err)
		}
	}
	if got := savedPosition(t, b, "s", "p"); got != "2" { // without waiting for the rows
		t.Errorf("behind the rows: %q", got)
	}
	if got := savedPosition(t, b, "other", "p"); got != "" {
		t.Errorf("a position that nobody began: %q", got)
	}
	must(t, b.Close())
	b = open(t, opts)
	if got := savedPosition(t, b, "s", "p"); got != "2" {
		t.Errorf("after an opening: %q", got)
	}
	s = define(t, b, "s", func(c *buffer.SinkConfig) { c.Table.ID = "in.c-test.another" })
	if got := savedPosition(t, b, "s", "p"); got != "2" {
		t.Errorf("after another definition: %q", got)
	}
	must(t, b.Sink("s").SetPosition(t.Context(), buffer.Position{Name: "p"}))
	mustStore(t, b, buffer.Rows{Sink: s, Data: row(3, "v"), Count: 1, Position: at("p", "3")})
	if got := savedPosition(t, b, "s", "p"); got != "" {
		t.Errorf("rows have begun a position that had ended: %q", got)
	}
}

func TestPositionsAreBounded(t *testing.T) {
	b := open(t, memoryOptions(t, buffertest.NewMemory()))
	define(t, b, "s")
	for i := range 16 {
		must(t, b.Sink("s").SetPosition(t.Context(), *at(fmt.Sprint(i), "x")))
	}
	if err := b.Sink("s").SetPosition(t.Context(), *at("16", "x")); !errors.Is(err, buffer.ErrTooManyPositions) {
		t.Errorf("one more: %v", err)
	}
	if err := b.Sink("s").SetPosition(t.Context(), *at("7", "y")); err != nil {
		t.Error(err)
	}
	if all, err := b.Sink("s").Positions(t.Context()); err != nil || len(all) != 16 || string(all["7"]) != "y" {
		t.Errorf("got %q, %v, want no error and len(all) == 16 and string(all[\"7\"]) == \"y\"", all, err)
	}
	for _, p := range []buffer.Position{{}, {Name: string(make([]byte, 65))}, {Name: "a", Value: make([]byte, 4097)}} {
		if err := b.Sink("s").SetPosition(t.Context(), p); err == nil {
			t.Errorf("%.20q with %d bytes was taken", p.Name, len(p.Value))
		}
	}
	for _, err := range []error{b.Sink("none").SetPosition(t.Context(), *at("p", "x")), positionError(b.Sink("none").Position(t.Context(), "p"))} {
		if !errors.Is(err, buffer.ErrUnknownSink) {
			t.Errorf("of an unknown sink: %v", err)
		}
	}
}

func positionError(_ []byte, err error) error { return err }

// A crash at any moment leaves as many rows as the position says.
func TestPositionIsInTheBatchOfItsRows(t *testing.T) {
	rng := seedtest.Rand(t)
	disk, staging := disktest.New(t), buffertest.NewMemory()
	const crashes = 10
	for crash := range crashes {
		mem := buffertest.NewMemory()
		b, err := buffer.Open("data", localdisk.On(buffer.Options{Staging: staging, Target: mem, Tuning: buffer.Tuning{MemTableBytes: 1 << 20}}, disk))
		must(t, err)
		s := define(t, b, "s")
		from := 0
		if crash == 0 {
			err = b.Sink("s").SetPosition(t.Context(), *at("p", "0"))
		} else {
			_, err = fmt.Sscan(savedPosition(t, b, "s", "p"), &from)
		}
		must(t, err)
		if crash == crashes-1 {
			must(t, b.Sink("s").Flush(t.Context()))
			wantIDs(t, mem, "in.c-test.s", 0, from)
			if from == 0 {
				t.Error("no row was stored")
			}
			must(t, b.Close())
			return
		}
		for i := range 20 + rng.IntN(20) {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{
				Sink: s, Data: row(from+i, "v"), Count: 1, Position: at("p", fmt.Sprint(from+i+1)),
			})
			if err == nil && rng.IntN(3) == 0 {
				err = ticket.Wait(t.Context())
			}
			must(t, err)
		}
		after := disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		must(t, b.Close())
		disk = after
	}
}

// plain has none of the optional interfaces of its target.
type plain struct{ driver.Target }

// Sinks can have another target, with other optional interfaces, for all that a target does.
func TestTargetOf(t *testing.T) {
	mem, other := buffertest.NewMemory(), buffertest.NewMemory()
	opts := memoryOptions(t, mem)
	opts.TargetOf = func(id string) driver.Target {
		if id == "other" {
			return plain{other}
		}
		return nil
	}
	b := open(t, opts)
	for _, id := range []string{"s", "other"} {
		put(t, b, define(t, b, id), 0, 5)
		must(t, b.Sink(id).Flush(t.Context()))
	}
	wantIDs(t, mem, "in.c-test.s", 0, 5)
	wantIDs(t, other, "in.c-test.other", 0, 5)
	if len(mem.Rows("in.c-test.other"))+len(other.Rows("in.c-test.s")) > 0 {
		t.Error("rows are in the target of the other sink")
	}
	if report, err := b.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("got %+v, %v, want no error and report.OK()", report, err)
	}
	c := buffer.SinkConfig{ID: "other", Table: driver.Table{ID: "t", Columns: columns, Extend: true}}
	if _, err := b.Define(t.Context(), c); err == nil {
		t.Error("a table of the target that cannot add columns may grow")
	}
	c.ID = "s2"
	if _, err := b.Define(t.Context(), c); err != nil {
		t.Error(err)
	}
}
