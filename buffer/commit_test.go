package buffer

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

// An operation holds the state that it found when it was requested. When the store fails before its commit and is opened
// again, it must not act on the state that was read since, or the end of an import would be counted twice. Rows that wait
// in the same group are stored all the same.
func TestOperationsEndWithTheStateTheyWereMadeFor(t *testing.T) {
	b, err := Open("data", localdisk.On(Options{Staging: nothing{}, Target: nothing{}, Tuning: Tuning{SyncInterval: time.Hour}}, disktest.New(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := b.Define(t.Context(), SinkConfig{ID: "a", Table: driver.Table{ID: "in.c-test.a", Columns: datatype.UntypedColumns("id")}})
	if err != nil {
		t.Fatal(err)
	}
	for b.syncs.underway.Load() > 0 { // the end of Define's commit sets gate.expect
		runtime.Gosched()
	}
	// The committer waits for callers that do not come.
	b.gate.mu.Lock()
	b.gate.expect = 1 << 30
	b.gate.cur.probed = true
	group := b.gate.cur
	b.gate.mu.Unlock()
	ticket, err := b.Append(t.Context(), time.Now(), Rows{Sink: s, Data: []byte("\"1\"\n"), Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	ended := make(chan error, 1)
	go func() { ended <- b.do(t.Context(), func(*txn) { ran = true }) }()
	for group.waiters.Load() == 0 {
		runtime.Gosched()
	}

	_ = b.fail(errors.New("the cable was pulled"))
	for b.failure() != nil {
		runtime.Gosched()
	}
	group.complete.Store(true)
	b.gate.kick()
	var failed *FailedError
	if err := <-ended; !errors.As(err, &failed) || ran {
		t.Errorf("the operation ran: %v; its error is %v", ran, err)
	}
	if err := ticket.Wait(t.Context()); err != nil {
		t.Errorf("the row beside it: %v", err)
	}
	if st := b.Stats().Sinks[0]; st.Local.Rows != 1 {
		t.Errorf("%d rows are stored, want 1", st.Local.Rows)
	}
}

// nothing is a staging and a target that are never reached.
type nothing struct{}

func (nothing) Put(context.Context, driver.Object, driver.Content) error {
	return errors.ErrUnsupported
}

func (nothing) Open(context.Context, driver.Object) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}

func (nothing) Delete(context.Context, ...driver.Object) error { return nil }

func (nothing) Ensure(context.Context, driver.Table) error { return nil }

func (nothing) Import(context.Context, *driver.File) error { return errors.ErrUnsupported }
