package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestCommitterStoresEveryRowOnce(t *testing.T) {
	var stored [][]byte
	c := newCommitter(func(group []byte) error {
		stored = append(stored, bytes.Clone(group))
		return nil
	})
	var callers sync.WaitGroup
	const callersN, rowsN = 16, 200
	for caller := range callersN {
		callers.Go(func() {
			for i := range rowsN {
				if err := c.append(fmt.Appendf(nil, "%02d-%03d\n", caller, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	c.close()
	rows := bytes.SplitAfter(bytes.Join(stored, nil), []byte("\n"))
	rows = rows[:len(rows)-1]
	next := make(map[string]int)
	for _, row := range rows {
		caller := string(row[:2])
		if want := fmt.Sprintf("%s-%03d\n", caller, next[caller]); string(row) != want {
			t.Fatalf("row is %q, want %q: rows of one caller keep their order", row, want)
		}
		next[caller]++
	}
	if len(rows) != callersN*rowsN {
		t.Errorf("%d rows are stored, want %d", len(rows), callersN*rowsN)
	}
}

func TestCommitterReportsTheErrorToItsGroup(t *testing.T) {
	cause := errors.New("no space")
	failing := []error{nil, cause, nil}
	c := newCommitter(func([]byte) error {
		err := failing[0]
		failing = failing[1:]
		return err
	})
	defer c.close()
	var got []error
	for range 3 {
		got = append(got, c.append([]byte("row")))
	}
	if !slices.Equal(got, []error{nil, cause, nil}) {
		t.Errorf("errors are %v, want the second append to fail alone", got)
	}
}

func TestRingStartsAgainAtTheFirstFile(t *testing.T) {
	const size = 2 << 20
	var r ring
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := r.open(nil, t.TempDir(), size); err != nil {
		t.Fatal(err)
	}
	group := bytes.Repeat([]byte("x"), size/2+1)
	for i := range ringFiles + 1 {
		if err := r.append(group); err != nil {
			t.Fatal(err)
		}
		if want := i % ringFiles; r.file != want || r.offset != int64(len(group)) {
			t.Fatalf("after group %d the ring is in file %d at %d, want file %d at %d", i, r.file, r.offset, want, len(group))
		}
	}
	for _, f := range r.files {
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != size {
			t.Errorf("%s has %d bytes, want it unchanged at %d", f.Name(), info.Size(), size)
		}
	}
}

// A store that lost a row must fail the measurement.
func TestCountKeysFindsALoss(t *testing.T) {
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, key := range []string{"a", "b"} {
		if err := db.Set([]byte(key), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := countKeys(db, 2); err != nil {
		t.Error(err)
	}
	if err := countKeys(db, 3); err == nil {
		t.Error("a missing row was not noticed")
	}
}
