package buffer_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// feed appends rows of about a kilobyte as fast as the bound of the sink allows, and returns how often it was refused.
func feed(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, from, to int) (refused int) {
	t.Helper()
	var last buffer.Ticket
	for i := from; i < to; {
		if s.Full() != nil {
			refused++
			<-time.After(100 * time.Millisecond)
			continue
		}
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, strings.Repeat("x", 1000)), Count: 1})
		if over := (*buffer.OverloadError)(nil); errors.As(err, &over) {
			refused++
			<-time.After(100 * time.Millisecond)
			continue
		}
		must(t, err)
		if i%100 == 99 {
			must(t, ticket.Wait(t.Context()))
		}
		last = ticket
		i++
	}
	must(t, last.Wait(t.Context()))
	return refused
}

// A healthy target imports the rows that fill a sink, though no condition is met before the bound. No caller waits for the
// interval.
func TestFullSinkImportsWhatFillsIt(t *testing.T) {
	for name, set := range map[string]func(*buffer.Options){
		"bound of the sink": func(o *buffer.Options) { o.MaxSinkBytes = 2 << 20 },
		"bound of all":      func(o *buffer.Options) { o.MaxDiskBytes, o.MaxSinkBytes = 2<<20, 4<<20 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := buffertest.NewMemory()
				opts := uncountedOptions(t, mem)
				set(&opts)
				b := open(t, opts)
				s := define(t, b, "a", func(c *buffer.SinkConfig) {
					c.Encoding = driver.None
					c.Import = trigger.Conditions{Interval: 30 * time.Second, Size: 50 << 20}
				})
				begin := time.Now()
				refused := feed(t, b, s, 0, 20_000)
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("20,000 rows took %s, with %d refusals", took, refused)
				}
				st, _ := b.Sink("a").Stats()
				if st.Target.Rows == 0 || st.Files[0].Reason != "pressure" {
					t.Errorf("got %s, want files closed by pressure", state(b, "a"))
				}
				if len(st.Files) > 40 {
					t.Errorf("got %d files for 20 MB in a room of 2 MB, want at most 40", len(st.Files))
				}
				must(t, b.Sink("a").Flush(t.Context()))
				wantIDs(t, mem, "in.c-test.a", 0, 20_000)
				verify(t, b)
			})
		})
	}
}

// While the target is away a sink fills its share in few files, because closing small ones would bring no room.
func TestPressureDuringAnOutageMakesFewFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &twist{Memory: buffertest.NewMemory(), importer: func(context.Context, *driver.File) error { return errors.New("away") }}
		opts := memoryOptions(t, drv.Memory)
		opts.Target, opts.MaxSinkBytes = drv, 2<<20
		b := open(t, opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) {
			c.Encoding = driver.None
			c.Import = trigger.Conditions{Interval: time.Hour, Size: 50 << 20}
		})
		for i := 0; ; i += 20 {
			data := bytes.Repeat(row(i, strings.Repeat("x", 1000)), 20)
			mustStore(t, b, buffer.Rows{Sink: s, Data: data, Count: 20})
			if s.Full() != nil {
				break
			}
		}
		if st, _ := b.Sink("a").Stats(); len(st.Files) > 9 {
			t.Errorf("got %d files, want at most 9", len(st.Files))
		}
	})
}

// A single call for which there is no room drives out what gathers, and so does a lower bound after a restart.
func TestPressureOfALargeCallAndOfALowerBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts.MaxDiskBytes, opts.MaxSinkBytes = 2<<20, 4<<20
		b := open(t, opts)
		plain := func(c *buffer.SinkConfig) { c.Encoding = driver.None }
		s := define(t, b, "a", plain)
		feed(t, b, s, 0, 800)
		large := buffer.Rows{Sink: s, Data: row(800, strings.Repeat("y", 3<<19)), Count: 1}
		_, err := b.Append(t.Context(), time.Now(), large)
		if over := (*buffer.OverloadError)(nil); !errors.As(err, &over) {
			t.Fatalf("a large call: %v, want an OverloadError", err)
		}
		synctest.Wait()
		ticket, err := b.Append(t.Context(), time.Now(), large)
		if err != nil {
			t.Fatalf("the room was not made: %v; %s", err, state(b, "a"))
		}
		must(t, ticket.Wait(t.Context()))
		synctest.Wait()
		feed(t, b, s, 801, 1101)
		must(t, b.Close())
		opts.MaxSinkBytes = 100 << 10
		again, err := buffer.Open("data", opts)
		must(t, err)
		defer again.Close()
		synctest.Wait()
		if st, _ := again.Sink("a").Stats(); st.Target.Rows != 1101 {
			t.Errorf("after the restart: %s", state(again, "a"))
		}
	})
}

// A condition that cannot be met below a bound is named, by the options to whoever asks, and in the log of Define.
func TestConditionsThatCanNeverBeMetAreNamed(t *testing.T) {
	mem := buffertest.NewMemory()
	opts := memoryOptions(t, mem)
	opts.MaxSinkBytes = 2 << 20
	var log strings.Builder
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c := buffer.SinkConfig{
		ID: "a", Table: driver.Table{ID: "t", Columns: columns},
		Upload: trigger.Conditions{Size: 1 << 20}, Import: trigger.Conditions{Size: 2 << 20},
	}
	want := "the import size of 2MB is never reached: a sink may hold 2MB (MaxSinkBytes), and from 1MB on rows are imported at once"
	if upload, imports := opts.Unreachable(c); upload != "" || imports != want {
		t.Errorf("got  %q and %q\nwant %s", upload, imports, want)
	}
	if upload, imports := (buffer.Options{}).Unreachable(c); upload != "" || imports != "" {
		t.Errorf("with the default bounds: %q and %q", upload, imports)
	}
	b := open(t, opts)
	for range 3 {
		if _, err := b.Define(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "is never reached"); n != 1 {
		t.Errorf("got %d lines in the log, want 1:\n%s", n, &log)
	}
}
