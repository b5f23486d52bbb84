package forebay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// heldLog confirms nothing while it is held.
type heldLog struct {
	*logOwner
	held chan struct{} // closed when it is not held
}

func (l *heldLog) Append(number uint64, batch []byte) func(context.Context) error {
	wait := l.logOwner.Append(number, batch)
	return func(ctx context.Context) error {
		select {
		case <-l.held:
			return wait(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A record for a sink with AckLocal is acknowledged before the changelog has it. One that also goes to another sink waits.
func TestAckLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		close(open)
		mem := buffertest.NewMemory()
		log := &heldLog{&logOwner{&memoryLog{}}, open}
		opts := replicatedOptions(mem, log.log)
		opts.Changelog = log
		e := mustOpen(t, opts)
		sink := func(id string, local bool) forebay.Sink {
			return forebay.Sink{ID: id, AckLocal: local, Table: forebay.Table{
				ID: "in.c-test." + id, Columns: mapping.Columns{mapping.Path("id", "id", mapping.RawString())},
			}}
		}
		mustDefine(t, e, forebay.Source{ID: "local", Sinks: []forebay.Sink{sink("a", true), sink("b", true)}})
		mustDefine(t, e, forebay.Source{ID: "both", Sinks: []forebay.Sink{sink("c", true), sink("d", false)}})
		log.held = make(chan struct{})
		ingest := func(source string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := e.Ingest(ctx, source, mapping.JSON([]byte(`{"id":"1"}`)))
			for _, s := range r.Sinks {
				err = errors.Join(err, s.Err)
			}
			return err
		}
		if err := ingest("local"); err != nil {
			t.Error(err)
		}
		if err := ingest("both"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a sink waits for the log: %v", err)
		}
		close(log.held)
		if err := ingest("both"); err != nil {
			t.Error(err)
		}
		must(t, e.FlushAll(t.Context()))
		for table, want := range map[string]int{"a": 1, "b": 1, "c": 2, "d": 2} {
			if n := len(mem.Rows("in.c-test." + table)); n != want {
				t.Errorf("table %s has %d rows, want %d", table, n, want)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
