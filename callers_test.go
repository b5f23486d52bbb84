package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
)

// A brake holds up every sync of a file system while it is on.
type brake struct {
	mu      sync.Mutex
	broken  bool // the syncs that were held up fail, and all later ones
	disk    vfs.FS
	held    chan struct{}
	reached chan struct{} // closed by the first sync that is held up
}

func (b *brake) fs() vfs.FS {
	b.disk = vfs.NewMem()
	return disktest.Wrap(b.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData && op.Kind != errorfs.OpFileSyncTo {
			return nil
		}
		b.mu.Lock()
		held := b.held
		if held != nil && b.reached != nil {
			close(b.reached)
			b.reached = nil
		}
		b.mu.Unlock()
		if held != nil {
			<-held
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.broken {
			return errors.New("the disk is broken")
		}
		return nil
	}))
}

// hold returns a channel that is closed when a sync is held up.
func (b *brake) hold() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held, b.reached = make(chan struct{}), make(chan struct{})
	return b.reached
}

func (b *brake) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.held)
	b.held = nil
}

// callers is a number of them that each ingest one record at a time, all at once.
const callers = 300

// verdict is what one of them was told.
type verdict struct {
	caller int
	res    forebay.Result
	err    error
}

// together lets all callers ingest one record each and returns their verdicts. While, unless nil, is called when the disk
// is held up and callers wait for it.
func together(e *forebay.Engine, b *brake, ingest func(caller int) (forebay.Result, error), while func()) []verdict {
	reached := b.hold()
	verdicts := make([]verdict, callers)
	var all sync.WaitGroup
	for i := range verdicts {
		all.Go(func() {
			res, err := ingest(i)
			verdicts[i] = verdict{i, res, err}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-reached:
	case <-ended: // those whose contexts end may leave before any row reaches the disk
	}
	if while != nil {
		while()
	}
	b.release()
	all.Wait()
	return verdicts
}

func (b *brake) setBroken(broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = broken
}

func openBraked(t *testing.T, change ...func(*forebay.Options)) (*forebay.Engine, *buffertest.Memory, *brake) {
	t.Helper()
	b := new(brake)
	e, mem := openMemory(t, append(change, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, b.fs()) })...)
	mustDefine(t, e, events())
	return e, mem, b
}

// rowsOf counts the rows of the callers in a table, by the id in its first column.
func rowsOf(t *testing.T, e *forebay.Engine, mem *buffertest.Memory) map[int]int {
	t.Helper()
	must(t, e.FlushAll(t.Context()))
	rows := make(map[int]int)
	for _, row := range mem.Rows("in.c-web.users") {
		if id, err := strconv.Atoi(row[0]); err != nil {
			t.Fatal(err)
		} else {
			rows[id]++
		}
	}
	return rows
}

// Each of many concurrent callers gets the verdict of its record, and each row that is stored is there once.
func TestManyCallersHaveTheirOwnVerdicts(t *testing.T) {
	const rounds = 5
	e, mem, b := openBraked(t)
	bad := func(id int) bool { return id%7 == 3 }
	for round := range rounds {
		for _, v := range together(e, b, func(i int) (forebay.Result, error) {
			id := round*callers + i
			body := fmt.Sprintf(`{"id":%d,"user":{"name":"Ada"}}`, id)
			if bad(id) {
				body = `{"id":1}`
			}
			return e.Ingest(t.Context(), "web", mapping.JSON([]byte(body)))
		}, nil) {
			var sinkErr *forebay.SinkError
			switch {
			case len(v.res.Sinks) != 2 || v.res.Sinks[1].Status != forebay.Stored:
				t.Fatalf("caller %d: %+v, %v", v.caller, v.res, v.err)
			case bad(round*callers + v.caller):
				if !errors.As(v.err, &sinkErr) || sinkErr.Sink != "users" || v.res.Sinks[0].Status != forebay.Rejected {
					t.Errorf("caller %d: %+v, %v, want a rejection by users", v.caller, v.res, v.err)
				}
			case v.err != nil || v.res.Sinks[0].Status != forebay.Stored:
				t.Errorf("caller %d: %+v, %v", v.caller, v.res, v.err)
			}
		}
	}
	rows := rowsOf(t, e, mem)
	for id := range rounds * callers {
		if want := 1; !bad(id) && rows[id] != want {
			t.Errorf("record %d: %d rows", id, rows[id])
		}
	}
}

// ingestAndClear uses the memory of the record again as soon as it is its caller's.
func ingestAndClear(ctx context.Context, e *forebay.Engine, body []byte) (forebay.Result, error) {
	res, err := e.Ingest(ctx, "web", mapping.JSON(body))
	clear(body)
	return res, err
}

// A caller whose context ends leaves while the disk still writes, and the others stay.
func TestCallersLeaveAlone(t *testing.T) {
	e, mem, b := openBraked(t)
	leaves := func(i int) bool { return i%2 == 0 }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond) // by a clock, which orders nothing for the race detector
	defer cancel()
	var left sync.WaitGroup
	left.Add(callers / 2)
	verdicts := together(e, b, func(i int) (forebay.Result, error) {
		of := t.Context()
		if leaves(i) {
			defer left.Done()
			of = ctx
		}
		return ingestAndClear(of, e, fmt.Appendf(nil, `{"id":%d,"user":{"name":"Ada"}}`, i))
	}, left.Wait)
	rows := rowsOf(t, e, mem)
	for _, v := range verdicts {
		switch {
		case !leaves(v.caller) && v.err != nil:
			t.Errorf("caller %d, who stayed: %v", v.caller, v.err)
		case leaves(v.caller) && (!errors.Is(v.err, context.DeadlineExceeded) || len(v.res.Sinks) > 0 && v.res.Sinks[0].Status != forebay.Failed):
			t.Errorf("caller %d, who left: %+v, %v", v.caller, v.res, v.err)
		}
		if n := rows[v.caller]; n > 1 || n < 1 && !leaves(v.caller) {
			t.Errorf("record %d: %d rows", v.caller, n)
		}
	}
}

// A caller whose context ends leaves even while there is no room in memory, however long other callers may wait for it.
func TestCallersLeaveWithoutRoom(t *testing.T) {
	e, mem, b := openBraked(t, func(o *forebay.Options) { o.Buffer.MaxPendingBytes, o.Buffer.AdmissionWait = 1<<20, time.Hour })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	long := strings.Repeat("x", 1900)
	var left sync.WaitGroup
	left.Add(callers)
	verdicts := together(e, b, func(i int) (forebay.Result, error) {
		defer left.Done()
		return ingestAndClear(ctx, e, fmt.Appendf(nil, `{"id":%d,"user":{"name":"%s"}}`, i, long))
	}, left.Wait)
	rows := rowsOf(t, e, mem)
	for _, v := range verdicts {
		if !errors.Is(v.err, context.DeadlineExceeded) || rows[v.caller] > 1 {
			t.Errorf("caller %d: %+v, %v, %d rows", v.caller, v.res, v.err, rows[v.caller])
		}
	}
}

// When there is no room for the rows of many, each gets that error, and acknowledged rows are stored.
func TestManyCallersAreRefused(t *testing.T) {
	e, mem, b := openBraked(t, func(o *forebay.Options) { o.Buffer.MaxPendingBytes, o.Buffer.AdmissionWait = 1<<20, -1 })
	long := strings.Repeat("x", 1900)
	stored := make(map[int]bool)
	var once sync.Once
	refused := make(chan struct{})
	for _, v := range together(e, b, func(i int) (forebay.Result, error) {
		res, err := e.Ingest(t.Context(), "web", mapping.JSON(fmt.Appendf(nil, `{"id":%d,"user":{"name":"%s"}}`, i, long)))
		if err != nil {
			once.Do(func() { close(refused) })
		}
		return res, err
	}, func() { <-refused }) { // as the disk stands still, one caller must be
		var over *buffer.OverloadError
		switch {
		case v.err == nil:
			stored[v.caller] = true
		case !errors.As(v.err, &over) || over.Resource != "memory" || v.res.Sinks[0].Status != forebay.Failed:
			t.Errorf("caller %d: %+v, %v", v.caller, v.res, v.err)
		}
	}
	rows := rowsOf(t, e, mem)
	if len(rows) != len(stored) {
		t.Errorf("%d rows, %d callers were told so, want %v", len(rows), len(stored), len(stored))
	}
	for id := range rows {
		if !stored[id] {
			t.Errorf("record %d was refused and is stored", id)
		}
	}
}

// When the disk fails, each caller gets that error for its own record. Acknowledged rows are stored once, and nothing twice.
func TestManyCallersOnAFailingDisk(t *testing.T) {
	e, mem, b := openBraked(t, func(o *forebay.Options) { o.Buffer.Retry.Initial = time.Millisecond })
	verdicts := together(e, b, func(i int) (forebay.Result, error) {
		return e.Ingest(t.Context(), "web", mapping.JSON(fmt.Appendf(nil, `{"id":%d,"user":{"name":"Ada"}}`, i)))
	}, func() { b.setBroken(true) })
	b.setBroken(false)
	for fault := new(buffer.FailedError); errors.As(e.FlushAll(t.Context()), &fault); { // until it is reopened
		runtime.Gosched()
	}
	rows := rowsOf(t, e, mem)
	failed := 0
	for _, v := range verdicts {
		var fault *buffer.FailedError
		if v.err != nil {
			failed++
			if !errors.As(v.err, &fault) || len(v.res.Sinks) != 2 || v.res.Sinks[1].Status != forebay.Failed {
				t.Errorf("caller %d: %+v, %v", v.caller, v.res, v.err)
			}
		}
		if n := rows[v.caller]; n > 1 || n < 1 && v.err == nil {
			t.Errorf("record %d: %d rows, %v", v.caller, n, v.err)
		}
	}
	if failed == 0 {
		t.Error("no call failed")
	}
}

// After a Close during many calls acknowledged rows are there at the next opening, and the other callers get an error.
func TestManyCallersAndClose(t *testing.T) {
	e, mem, b := openBraked(t)
	var closed sync.WaitGroup
	stored := make(map[int]bool)
	for _, v := range together(e, b, func(i int) (forebay.Result, error) {
		return e.Ingest(t.Context(), "web", mapping.JSON(fmt.Appendf(nil, `{"id":%d,"user":{"name":"Ada"}}`, i)))
	}, func() {
		closed.Go(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}) {
		if v.err == nil {
			stored[v.caller] = true
		} else if !errors.Is(v.err, forebay.ErrClosed) {
			t.Errorf("caller %d: %v", v.caller, v.err)
		}
	}
	closed.Wait()
	again, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{}, b.disk)})
	must(t, err)
	defer again.Close()
	rows := rowsOf(t, again, mem)
	for id := range callers {
		if (rows[id] == 1) != stored[id] || rows[id] > 1 {
			t.Errorf("record %d: %d rows, acknowledged: %v", id, rows[id], stored[id])
		}
	}
}

// badDocument panics when it is read.
type badDocument struct{ mapping.Document }

// A document is code of its caller. Where it panics, its caller alone is affected, and nothing of its record is stored.
func TestDocumentsStayWithTheirCallers(t *testing.T) {
	e, mem, b := openBraked(t)
	panics := func(i int) bool { return i%10 == 0 }
	var caught atomic.Int32
	for _, v := range together(e, b, func(i int) (forebay.Result, error) {
		defer func() {
			if recover() != nil {
				caught.Add(1)
			}
		}()
		rec := mapping.JSON(fmt.Appendf(nil, `{"id":%d,"user":{"name":"Ada"}}`, i))
		if panics(i) {
			rec.Document = badDocument{}
		}
		return e.Ingest(t.Context(), "web", rec)
	}, nil) {
		if !panics(v.caller) && v.err != nil {
			t.Errorf("caller %d: %v", v.caller, v.err)
		}
	}
	if n := caught.Load(); n != callers/10 {
		t.Errorf("%d callers panicked, want %d", n, callers/10)
	}
	rows := rowsOf(t, e, mem)
	for id := range callers {
		if want := map[bool]int{false: 1}[panics(id)]; rows[id] != want {
			t.Errorf("record %d: %d rows, want %d", id, rows[id], want)
		}
	}
}

// Portions are never refused for their size where each row would have been taken.
func TestPortionsFitIntoASmallMemory(t *testing.T) {
	e, mem := openMemory(t, func(o *forebay.Options) { o.Buffer.MaxPendingBytes = 1 << 20 })
	mustDefine(t, e, events())
	body := fmt.Sprintf(`{"id":1,"user":{"name":"%s"}}`, strings.Repeat("x", 300<<10))
	recs := make([]*mapping.Record, 6)
	for i := range recs {
		recs[i] = mapping.JSON([]byte(body))
	}
	if _, err := e.WaitForRoom().IngestBatch(t.Context(), "web", recs); err != nil {
		t.Fatal(err)
	}
	must(t, e.FlushAll(t.Context()))
	if users, raw := len(mem.Rows("in.c-web.users")), len(mem.Rows("in.c-web.raw")); users != len(recs) || raw != len(recs) {
		t.Errorf("got %d and %d rows, want %d", users, raw, len(recs))
	}
}
