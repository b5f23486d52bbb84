package forebay_test

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// A record whose mapping panics, because its body cannot be read, does so where it came from and nowhere else.
func TestCombinedRecordThatPanics(t *testing.T) {
	e, mem, b := openCrowded(t)
	unreadable, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Munmap(unreadable); err != nil {
			t.Error(err)
		}
	}()
	panics := func(i int) bool { return i%50 == 7 }
	var caught atomic.Int32
	for _, v := range together(e, b, func(i int) (forebay.Result, error) {
		debug.SetPanicOnFault(true) // of this goroutine
		rec := mapping.JSON(fmt.Appendf(nil, `{"id":%d,"user":{"name":"Ada"}}`, i))
		if panics(i) {
			rec.Body = unreadable
			defer func() {
				if recover() != nil {
					caught.Add(1)
				}
			}()
		}
		return e.Ingest(t.Context(), "web", rec)
	}, nil) {
		if v.err != nil {
			t.Errorf("caller %d: %v", v.caller, v.err)
		}
	}
	if n := caught.Load(); n != callers/50 {
		t.Errorf("%d callers panicked, want %d", n, callers/50)
	}
	rows := rowsOf(t, e, mem)
	for id := range callers {
		if want := 1; !panics(id) && rows[id] != want {
			t.Errorf("record %d: %d rows", id, rows[id])
		}
	}
}
