package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// padded is an event with a body of about a kilobyte.
func padded(id int) *mapping.Record {
	return mapping.JSON(fmt.Appendf(nil, `{"id":%d,"user":{"name":"%s"}}`, id, strings.Repeat("x", 1000)))
}

// tight opens an engine with small shares and a target that takes a second.
func tight(t *testing.T) (*forebay.Engine, *buffertest.Memory) {
	t.Helper()
	e, mem := openMemory(t, func(o *forebay.Options) { o.Buffer.MaxSinkBytes = 64 << 10 })
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport {
			<-time.After(time.Second)
		}
		return nil
	}
	mustDefine(t, e, events(func(s *forebay.Source) {
		s.Settings = forebay.Settings{Compression: forebay.CompressionNone, Import: trigger.Conditions{Interval: 24 * time.Hour}}
	}))
	return e, mem
}

// Each way to bring records waits for room, and all of them arrive once, in their order.
func TestIntakeWaitsForRoom(t *testing.T) {
	const n = 400
	for name, bring := range map[string]func(t *testing.T, in forebay.Intake){
		"Ingest": func(t *testing.T, in forebay.Intake) {
			for i := range n {
				mustIngest(t, in, "web", padded(i))
			}
		},
		"Submit": func(t *testing.T, in forebay.Intake) {
			var list []forebay.Pending
			for i := range n {
				p, err := in.Submit(t.Context(), "web", padded(i))
				must(t, err)
				list = append(list, p)
			}
			for _, p := range list {
				if _, err := p.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		},
		"IngestBatch": func(t *testing.T, in forebay.Intake) {
			for i := 0; i < n; i += 20 {
				var recs []*mapping.Record
				for k := range 20 {
					recs = append(recs, padded(i+k))
				}
				if _, err := in.IngestBatch(t.Context(), "web", recs); err != nil {
					t.Fatal(err)
				}
			}
		},
		"IngestOnce": func(t *testing.T, in forebay.Intake) {
			for i := range n {
				for range 2 {
					if _, err := in.IngestOnce(t.Context(), "web", forebay.Once{Key: fmt.Sprint(i)}, []*mapping.Record{padded(i)}); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
		"IngestAtomic": func(t *testing.T, in forebay.Intake) {
			for i := range n {
				one := slices.Values([]*mapping.Record{padded(i)})
				if _, err := in.IngestAtomic(t.Context(), "web", forebay.Batch{Records: one}); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, mem := tight(t)
				bring(t, e.WaitForRoom())
				must(t, e.Flush(t.Context(), "web"))
				rows := mem.Rows("in.c-web.users")
				if len(rows) != n || len(mem.Rows("in.c-web.raw")) != n {
					t.Fatalf("got %d and %d rows, want %d", len(rows), len(mem.Rows("in.c-web.raw")), n)
				}
				for i, r := range rows {
					if r[0] != fmt.Sprint(i) {
						t.Fatalf("row %d has the id %s", i, r[0])
					}
				}
			})
		})
	}
}

// At the end of its context a call says which resource was full, and has stored nothing at any sink.
func TestIntakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := tight(t)
		mem.Alter("in.c-web.raw", datatype.UntypedColumns("other")...)
		in := e.WaitForRoom()
		n := 0
		for ; ; n++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := in.Ingest(ctx, "web", padded(n))
			cancel()
			if err == nil {
				continue
			}
			var over *buffer.OverloadError
			if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &over) || over.Resource != "sink" {
				t.Fatalf("got %v, want errors.Is(err, context.DeadlineExceeded) and errors.As(err, &over) and over.Resource == \"sink\"", err)
			}
			break
		}
		mem.Alter("in.c-web.raw", datatype.UntypedColumns("uuid", "at", "body")...)
		must(t, e.Flush(t.Context(), "web"))
		if users, raw := len(mem.Rows("in.c-web.users")), len(mem.Rows("in.c-web.raw")); users != n || raw != n {
			t.Errorf("got %d and %d rows, want %d", users, raw, n)
		}
	})
}

// The error of a batch names each cause once, with the places of its records, and stays short.
func TestBatchErrorNamesEachCauseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := tight(t)
		mem.Alter("in.c-web.raw", datatype.UntypedColumns("other")...)
		var recs []*mapping.Record
		for i := range 1000 {
			recs = append(recs, padded(i))
		}
		recs[3], recs[7] = mapping.JSON([]byte(`{"user":{"name":"a"}}`)), mapping.JSON([]byte(`{"user":{"name":"b"}}`))
		var err error
		for range 3 { // until the share is used up
			time.Sleep(time.Minute)
			_, err = e.IngestBatch(t.Context(), "web", recs)
		}
		var batch *forebay.BatchError
		if !errors.As(err, &batch) || batch.Records != 1000 || len(batch.Causes) < 2 || len(batch.Causes) > 3 {
			t.Fatalf("got %+v, want 1000 records with 2 or 3 causes", batch)
		}
		if over := (*buffer.OverloadError)(nil); !errors.As(err, &over) {
			t.Error("the OverloadError cannot be found")
		}
		if m := (*mapping.Error)(nil); !errors.As(err, &m) {
			t.Error("the mapping.Error cannot be found")
		}
		if text := err.Error(); len(text) > 1000 || !strings.Contains(text, "records 3, 7: ") || !strings.Contains(text, "records 0-999: ") {
			t.Errorf("got %d bytes, %.2000s, want at most 1000 with the numbers of the records", len(text), text)
		}
	})
}

// A source without an enabled sink says in the result that no sink keeps the record.
func TestDroppedRecordsAreNamed(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks[0].Disabled, s.Sinks[1].Disabled = true, true }))
	mustDefine(t, e, forebay.Source{ID: "none"})
	for _, id := range []string{"web", "none"} {
		res, err := e.Ingest(t.Context(), id, padded(1))
		if err != nil || !res.Dropped || len(res.Sinks) != 0 {
			t.Errorf("Ingest: %+v, %v", res, err)
		}
		list, err := e.IngestBatch(t.Context(), id, []*mapping.Record{padded(1), padded(2)})
		if err != nil || !list[0].Dropped || !list[1].Dropped {
			t.Errorf("IngestBatch: %+v, %v", list, err)
		}
		p, err := e.Submit(t.Context(), id, padded(1))
		must(t, err)
		if res, err := p.Wait(t.Context()); err != nil || !res.Dropped {
			t.Errorf("Submit: %+v, %v", res, err)
		}
	}
	mustDefine(t, e, events())
	if res, err := e.Ingest(t.Context(), "web", padded(1)); err != nil || res.Dropped {
		t.Errorf("with sinks: %+v, %v", res, err)
	}
}
