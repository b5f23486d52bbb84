package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// One goroutine has many records in progress. Each row is stored once, in the order of the calls, with the bytes that
// the record had at the call.
func TestSubmittedRecordsAreStoredInOrder(t *testing.T) {
	const records, window = 3000, 100
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	rec := new(mapping.Record)
	var body []byte
	var pending [window]forebay.Pending
	wait := func(p forebay.Pending) {
		t.Helper()
		res, err := p.Wait(t.Context())
		must(t, err)
		if len(res.Sinks) != 2 || res.Sinks[0].Status != forebay.Stored || res.Sinks[1].Status != forebay.Stored {
			t.Fatalf("result %+v, want both sinks to have stored the record", res)
		}
	}
	for i := range records {
		if i >= window {
			wait(pending[i%window])
		}
		body = fmt.Appendf(body[:0], `{"id":%d,"user":{"name":"Ada"}}`, i)
		rec.Reset()
		rec.Body, rec.Format = body, mapping.FormatJSON
		var err error
		if pending[i%window], err = e.Submit(t.Context(), "web", rec); err != nil {
			t.Fatal(err)
		}
	}
	for i := range window {
		wait(pending[(records+i)%window])
	}
	must(t, e.FlushAll(t.Context()))
	users := mem.Rows("in.c-web.users")
	if len(users) != records || len(mem.Rows("in.c-web.raw")) != records {
		t.Fatalf("got %d and %d rows, want %d", len(users), len(mem.Rows("in.c-web.raw")), records)
	}
	for i, row := range users {
		if row[0] != strconv.Itoa(i) || row[1] != "Ada" {
			t.Fatalf("row %d is %q", i, row)
		}
	}
}

// What a sink has to say about a record comes with Wait, as from Ingest.
func TestSubmitTellsWhoRejects(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events())
	p, err := e.Submit(t.Context(), "web", mapping.JSON([]byte(`{"id":1}`)))
	must(t, err)
	res, err := p.Wait(t.Context())
	var sinkErr *forebay.SinkError
	if !errors.As(err, &sinkErr) || sinkErr.Sink != "users" || sinkErr.Status != forebay.Rejected {
		t.Errorf("error %v, want the error of the sink without a value", err)
	}
	if len(res.Sinks) != 2 || res.Sinks[0].Status != forebay.Rejected || res.Sinks[1].Status != forebay.Stored {
		t.Errorf("result %+v, want rejected and stored", res)
	}
}

// A body that fills several portions for two sinks has one result all the same.
func TestSubmitOfManyPortions(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	body := fmt.Appendf(nil, `{"id":1,"user":{"name":"%s"}}`, strings.Repeat("a", 5<<18))
	p, err := e.Submit(t.Context(), "web", mapping.JSON(body))
	must(t, err)
	for range 2 { // to wait again changes nothing
		if res, err := p.Wait(t.Context()); err != nil || len(res.Sinks) != 2 {
			t.Fatalf("result %+v, error %v", res, err)
		}
	}
	must(t, e.FlushAll(t.Context()))
	users, raw := mem.Rows("in.c-web.users"), mem.Rows("in.c-web.raw")
	if len(users) != 1 || len(users[0][1]) != 5<<18 || len(raw) != 1 || raw[0][2] != string(body) {
		t.Error("a table misses the row")
	}
}

func TestSubmitRefusesTheCall(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events())
	mustDefine(t, e, forebay.Source{ID: "off", Disabled: true})
	mustDefine(t, e, forebay.Source{ID: "empty"})
	rec := mapping.JSON([]byte(`{"id":1,"user":{"name":"Ada"}}`))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		source string
		rec    *mapping.Record
		want   error
	}{
		{"unknown source", t.Context(), "none", rec, forebay.ErrUnknownSource},
		{"disabled source", t.Context(), "off", rec, forebay.ErrDisabledSource},
		{"ended context", ended, "web", rec, context.Canceled},
	} {
		if _, err := e.Submit(c.ctx, c.source, c.rec); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := e.Submit(t.Context(), "web", nil); err == nil {
		t.Error("a nil record was taken")
	}
	p, err := e.Submit(t.Context(), "empty", rec)
	if res, e := p.Wait(t.Context()); err != nil || e != nil || len(res.Sinks) != 0 {
		t.Errorf("a source without sinks: %+v, %v, %v", res, err, e)
	}
	must(t, e.Close())
	if _, err := e.Submit(t.Context(), "web", rec); !errors.Is(err, forebay.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
