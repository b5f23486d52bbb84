package changelogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// TestJournal checks a driver's [changelog.Journal]. open returns a new one without entries. All of it together takes a driver with real
// servers a few seconds.
func TestJournal(t *testing.T, open func(t *testing.T) changelog.Journal) {
	t.Run("Append", func(t *testing.T) { checkJournalAppend(t, open(t)) })
	t.Run("OneAtAPosition", func(t *testing.T) { checkJournalRace(t, open(t)) })
	t.Run("Wait", func(t *testing.T) { checkJournalWait(t, open(t)) })
	t.Run("Trim", func(t *testing.T) { checkJournalTrim(t, open(t)) })
}

// readJournal returns what Read yields, with each entry's position checked.
func readJournal(t *testing.T, j changelog.Journal, from changelog.Position) (data [][]byte, err error) {
	t.Helper()
	next := from
	for e, err := range j.Read(t.Context(), from) {
		if err != nil {
			return data, err
		}
		if next == 0 {
			next = e.Position
		}
		if e.Position != next {
			t.Fatalf("entry %d comes in the place of %d", e.Position, next)
		}
		next++
		data = append(data, e.Data)
	}
	return data, nil
}

func checkJournalAppend(t *testing.T, j changelog.Journal) {
	if data, err := readJournal(t, j, 0); len(data) > 0 || err != nil {
		t.Errorf("a new journal has %d entries, %v", len(data), err)
	}
	var want [][]byte
	for i, data := range [][]byte{[]byte("one"), {}, bytes.Repeat([]byte("x"), changelog.PartBytes)} {
		if err := j.Append(t.Context(), changelog.Position(i), data); err != nil {
			t.Fatal(err)
		}
		want = append(want, data)
	}
	for from := range changelog.Position(5) {
		data, err := readJournal(t, j, from)
		if rest := want[max(from, 1)-1:]; err != nil || !slices.EqualFunc(data, rest, bytes.Equal) {
			t.Errorf("a read from %d yields %d entries, %v", from, len(data), err)
		}
	}
	if _, err := readJournal(t, j, 5); !errors.Is(err, changelog.ErrWentBack) {
		t.Errorf("a read behind the entry that comes next gives %v", err)
	}
	for _, after := range []changelog.Position{0, 2, 4} {
		if err := j.Append(t.Context(), after, []byte("refused")); !errors.Is(err, changelog.ErrLost) {
			t.Errorf("an append behind %d gives %v", after, err)
		}
	}
	if data, err := readJournal(t, j, 0); err != nil || len(data) != 3 {
		t.Errorf("got %d entries, %v, want 3, no error", len(data), err)
	}
}

// checkJournalRace has several callers append after the end that each of them knows.
func checkJournalRace(t *testing.T, j changelog.Journal) {
	const callers, each = 4, 5
	var work sync.WaitGroup
	for caller := range callers {
		work.Go(func() {
			end := changelog.Position(0)
			for round := 0; round < each; {
				err := j.Append(t.Context(), end, fmt.Append(nil, caller, round))
				if err == nil {
					round++
					end++
					continue
				}
				if !errors.Is(err, changelog.ErrLost) {
					t.Errorf("append: %v", err)
					return
				}
				rest, err := readJournal(t, j, end+1)
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				end += changelog.Position(len(rest))
			}
		})
	}
	work.Wait()
	data, err := readJournal(t, j, 0)
	if err != nil || len(data) != callers*each {
		t.Errorf("%d entries instead of %d, %v", len(data), callers*each, err)
	}
	for caller := range callers {
		round := 0
		for _, d := range data {
			if bytes.Equal(d, fmt.Append(nil, caller, round)) {
				round++
			}
		}
		if round != each {
			t.Errorf("caller %d has %d entries in order", caller, round)
		}
	}
}

func checkJournalWait(t *testing.T, j changelog.Journal) {
	seen := make(chan error, 1)
	go func() {
		for {
			if err := j.Wait(t.Context(), 0); err != nil {
				seen <- err
				return
			}
			if data, err := readJournal(t, j, 0); err != nil || len(data) > 0 {
				seen <- err
				return
			}
		}
	}()
	if err := j.Append(t.Context(), 0, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := <-seen; err != nil {
		t.Error(err)
	}
	if err := j.Wait(t.Context(), 0); err != nil {
		t.Errorf("a wait for an entry that is there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		_ = j.Wait(ctx, 1)
	}
	if err := j.Wait(ctx, 1); err == nil {
		t.Error("a wait ends without an error after its context")
	}
}

func checkJournalTrim(t *testing.T, j changelog.Journal) {
	for i := range changelog.Position(5) {
		if err := j.Append(t.Context(), i, fmt.Append(nil, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Trim(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if data, err := readJournal(t, j, 1); err != nil || len(data) != 5 {
		t.Errorf("a trim up to position 0 leaves %q, %v", data, err)
	}
	for range 2 {
		if err := j.Trim(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := readJournal(t, j, 0); err != nil || len(data) != 2 || string(data[0]) != "4" {
		t.Errorf("entries %q, %v", data, err)
	}
	if _, err := readJournal(t, j, 3); !errors.Is(err, changelog.ErrTrimmed) {
		t.Errorf("a read of what was trimmed gives %v", err)
	}
	if err := j.Append(t.Context(), 5, []byte("6")); err != nil {
		t.Error(err)
	}
	if data, err := readJournal(t, j, 4); err != nil || len(data) != 3 {
		t.Errorf("entries %q, %v", data, err)
	}
}
