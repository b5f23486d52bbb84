package buffertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/suitetest"
)

// Staging checks a driver against the contract of [driver.Staging]. Each check is a subtest and calls open once for an empty
// staging. open registers cleanup with t.Cleanup.
func Staging(t *testing.T, open func(t *testing.T) driver.Staging) {
	t.Helper()
	for _, c := range stagingChecks {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

type stagingCheck struct {
	name string
	run  func(t tb, s driver.Staging)
}

var stagingChecks = []stagingCheck{
	{"PutThenOpen", putThenOpen},
	{"PutLargeObject", putLargeObject},
	{"PutAgain", putAgain},
	{"PutFails", putFails},
	{"PutAgainFails", putAgainFails},
	{"PutCancelled", putCancelled},
	{"PutConcurrently", putConcurrently},
	{"PutSameObjectConcurrently", putSameObjectConcurrently},
	{"OpenAbsent", openAbsent},
	{"OpenTwice", openTwice},
	{"Delete", deleteObjects},
	{"LookAlikeIDs", lookAlikeIDs},
}

func newObject(id string, e driver.Encoding, rows int) driver.Object {
	return driver.Object{ID: id, FileID: "file-1", SinkID: "source/sink", Encoding: e, Rows: int64(rows), RawBytes: int64(rows) * 40}
}

// put stores an object and reports readers that were left open.
func put(t tb, ctx context.Context, s driver.Staging, obj driver.Object, src *source) error {
	t.Helper()
	err := s.Put(ctx, obj, src)
	if n := src.open.Load(); n != 0 {
		t.Errorf("Put returned with %d readers of its source open", n)
	}
	return err
}

func mustPut(t tb, s driver.Staging, obj driver.Object, data []byte) {
	t.Helper()
	if err := put(t, t.Context(), s, obj, bytesSource(data)); err != nil {
		t.Fatalf("Put(%s) = %v, want nil", obj.ID, err)
	}
}

func read(ctx context.Context, s driver.Staging, obj driver.Object) ([]byte, error) {
	rc, err := s.Open(ctx, obj)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(rc)
	return data, errors.Join(err, rc.Close())
}

// expectObject demands one of the given contents.
func expectObject(t tb, s driver.Staging, obj driver.Object, want ...[]byte) {
	t.Helper()
	got, err := read(t.Context(), s, obj)
	if err != nil {
		t.Errorf("reading %s: %v", obj.ID, err)
		return
	}
	for _, w := range want {
		if bytes.Equal(got, w) {
			return
		}
	}
	t.Errorf("%s has %d bytes that differ from the %d bytes that were put", obj.ID, len(got), len(want[0]))
}

func expectAbsent(t tb, s driver.Staging, obj driver.Object) {
	t.Helper()
	got, err := read(t.Context(), s, obj)
	if err == nil {
		t.Errorf("%s is visible with %d bytes, want fs.ErrNotExist", obj.ID, len(got))
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening %s: %v, want an error that matches fs.ErrNotExist", obj.ID, err)
	}
}

// Open returns the stored bytes, not decoded ones.
func putThenOpen(t tb, s driver.Staging) {
	for _, e := range encodings {
		for _, members := range []int{1, 3} {
			obj := newObject(fmt.Sprintf("%s-%d", e, members), e, 30)
			data := encode(e, makeRows(1, 30, 3), members)
			mustPut(t, s, obj, data)
			expectObject(t, s, obj, data)
		}
	}
}

func putLargeObject(t tb, s driver.Staging) {
	obj := newObject("large", driver.None, 3000)
	data := encode(driver.None, largeRows(1, 3000, 3), 1)
	mustPut(t, s, obj, data)
	expectObject(t, s, obj, data)
}

// After a crash the same rows may arrive as other bytes.
func putAgain(t tb, s driver.Staging) {
	obj := newObject("again", driver.Gzip, 200)
	rows := makeRows(1, 200, 3)
	long, short := encode(driver.Gzip, rows, 20), encode(driver.Gzip, rows, 1)
	mustPut(t, s, obj, long)
	mustPut(t, s, obj, long)
	expectObject(t, s, obj, long)
	mustPut(t, s, obj, short)
	expectObject(t, s, obj, short, long)
	mustPut(t, s, obj, long)
	expectObject(t, s, obj, long, short)
}

// A source that breaks off leaves nothing, wherever it breaks.
func putFails(t tb, s driver.Staging) {
	data := encode(driver.None, makeRows(1, 1000, 3), 1)
	for name, src := range map[string]*source{
		"open":   {failOpen: true},
		"start":  brokenSource(data, 0),
		"middle": brokenSource(data, len(data)/2),
		"end":    brokenSource(data, len(data)),
	} {
		obj := newObject("fails-"+name, driver.None, 1000)
		expectRetryable(t, "Put with a source that fails at the "+name, put(t, t.Context(), s, obj, src), errInjected)
		expectAbsent(t, s, obj)
		mustPut(t, s, obj, data)
		expectObject(t, s, obj, data)
	}
}

func putAgainFails(t tb, s driver.Staging) {
	obj := newObject("again-fails", driver.None, 1000)
	data := encode(driver.None, makeRows(1, 1000, 3), 1)
	mustPut(t, s, obj, data)
	for _, n := range []int{0, len(data) / 2, len(data)} {
		// A driver that finds the object need not read, so success is allowed too.
		_ = put(t, t.Context(), s, obj, brokenSource(data, n))
		expectObject(t, s, obj, data)
	}
}

func putCancelled(t tb, s driver.Staging) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	obj := newObject("cancelled", driver.None, 1)
	stream := &endless{row: []byte("\"cancelled\"\n"), cancel: cancel}
	err := put(t, ctx, s, obj, &source{reader: func() io.Reader { return stream }})
	stream.expectNoticed(t, "Put", err)
	expectAbsent(t, s, obj)

	data := []byte("\"cancelled\"\n")
	if err := put(t, ctx, s, obj, bytesSource(data)); err == nil {
		expectObject(t, s, obj, data)
	}
	mustPut(t, s, obj, data)
	expectObject(t, s, obj, data)
}

func putConcurrently(t tb, s driver.Staging) {
	const n = 16
	object := func(i int) (driver.Object, []byte) {
		return newObject(fmt.Sprintf("concurrent-%d", i), driver.None, 500), encode(driver.None, makeRows(uint64(i), 500, 3), 1)
	}
	for i, err := range suitetest.Together(n, func(i int) error {
		obj, data := object(i)
		if err := s.Put(t.Context(), obj, bytesSource(data)); err != nil {
			return err
		}
		if i%4 != 0 {
			return nil
		}
		return s.Delete(t.Context(), obj)
	}) {
		obj, data := object(i)
		switch {
		case err != nil:
			t.Errorf("%s: got %v, want no error", obj.ID, err)
		case i%4 != 0:
			expectObject(t, s, obj, data)
		default:
			expectAbsent(t, s, obj)
		}
	}
}

func putSameObjectConcurrently(t tb, s driver.Staging) {
	obj := newObject("same", driver.None, 1000)
	data := encode(driver.None, makeRows(1, 1000, 3), 1)
	for round := range 3 {
		for i, err := range suitetest.Together(8, func(i int) error {
			if i%2 == 0 {
				return s.Put(t.Context(), obj, bytesSource(data))
			}
			// An object that can be found is complete.
			got, err := read(t.Context(), s, obj)
			if round == 0 && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !bytes.Equal(got, data) {
				return fmt.Errorf("read %d bytes that differ from the %d bytes that were put", len(got), len(data))
			}
			return err
		}) {
			if err != nil {
				t.Errorf("call %d on the same object: %v", i, err)
			}
		}
		expectObject(t, s, obj, data)
	}
}

func openAbsent(t tb, s driver.Staging) {
	expectAbsent(t, s, newObject("absent", driver.None, 1))
	mustPut(t, s, newObject("present", driver.None, 1), []byte("\"a\"\n"))
	expectAbsent(t, s, newObject("absent", driver.None, 1))
}

// Readers are independent of each other.
func openTwice(t tb, s driver.Staging) {
	obj := newObject("twice", driver.None, 500)
	data := encode(driver.None, makeRows(1, 500, 3), 1)
	mustPut(t, s, obj, data)
	first, err := s.Open(t.Context(), obj)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer first.Close()
	head := make([]byte, 100)
	if _, err := io.ReadFull(first, head); err != nil {
		t.Fatalf("reading: %v", err)
	}
	expectObject(t, s, obj, data)
	rest, err := io.ReadAll(first)
	if err != nil || !bytes.Equal(append(head, rest...), data) {
		t.Errorf("the first reader gave %d bytes and %v after a second one was used, want %d bytes", len(head)+len(rest), err, len(data))
	}
}

func deleteObjects(t tb, s driver.Staging) {
	data := []byte("\"a\"\n")
	var objs []driver.Object
	for i := range 4 {
		obj := newObject(fmt.Sprintf("delete-%d", i), driver.None, 1)
		mustPut(t, s, obj, data)
		objs = append(objs, obj)
	}
	del := func(objs ...driver.Object) {
		t.Helper()
		if err := s.Delete(t.Context(), objs...); err != nil {
			t.Errorf("Delete = %v, want nil", err)
		}
	}
	del()
	del(newObject("delete-never", driver.None, 1))
	del(objs[0])
	del(objs[:3]...) // the first is already gone
	del(objs[:3]...)
	for _, obj := range objs[:3] {
		expectAbsent(t, s, obj)
	}
	expectObject(t, s, objs[3], data)
}

// Ids that share a prefix, a suffix or their length are different ids.
func lookAlikeIDs(t tb, s driver.Staging) {
	long := strings.Repeat("0123456789abcdef", 4)
	ids := []string{"a", "a-", "a-b", "a-b-c", "ab", "a0", "0", "00", "-", "--", "con", long[:63], long, long[:63] + "e"}
	for _, id := range ids {
		mustPut(t, s, newObject(id, driver.None, 1), []byte(`"`+id+"\"\n"))
	}
	for _, id := range ids {
		expectObject(t, s, newObject(id, driver.None, 1), []byte(`"`+id+"\"\n"))
	}
	if err := s.Delete(t.Context(), newObject("a", driver.None, 1), newObject(long, driver.None, 1)); err != nil {
		t.Errorf("Delete = %v, want nil", err)
	}
	for _, id := range ids {
		if id == "a" || id == long {
			expectAbsent(t, s, newObject(id, driver.None, 1))
		} else {
			expectObject(t, s, newObject(id, driver.None, 1), []byte(`"`+id+"\"\n"))
		}
	}
}
