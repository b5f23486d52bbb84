package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/synctest"
)

// openStore opens a store that adds a snapshot after so many bytes. It ends with the test.
func openStore(t *testing.T, j *changelogtest.Journal, snapshotAfter int) *Store {
	t.Helper()
	s, err := Open(t.Context(), j, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.snapshotAfter = snapshotAfter
	s.Follow(func(map[string][]byte, bool) {})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// text is the record of a value.
func text(v any) []byte {
	b, _ := json.Marshal(v) // numbers and texts cannot fail
	return b
}

// number reads a counter.
func number(s *Store, key string) (n int) {
	if record, _ := s.Get(key); record != nil {
		_ = json.Unmarshal(record, &n)
	}
	return n
}

// TestJournalCounts has several stores add to the same counters, each by a commit on the condition that no other store was faster. No addition is
// lost or made twice, whatever happens to requests and responses, and with entries that were trimmed.
func TestJournalCounts(t *testing.T) {
	for seed := range uint64(casetest.Of(6, 6, 2)) {
		synctest.Test(t, func(t *testing.T) {
			j := changelogtest.NewJournal(seed, changelogtest.Faults{})
			var stores []*Store
			for range 3 {
				stores = append(stores, openStore(t, j, 3000))
			}
			j.SetFaults(changelogtest.Faults{
				Delay: 20 * time.Millisecond, Timeout: 500 * time.Millisecond,
				LostRequests: 0.05, LateRequests: 0.05, RepeatedRequests: 0.05, LostResponses: 0.1, StaleReads: 0.1,
			})
			var mu sync.Mutex
			added, unknown := map[string]int{}, 0
			var work sync.WaitGroup
			for i, s := range stores {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				work.Go(func() {
					for round := range 20 {
						key := fmt.Sprint("counter/", rng.IntN(3))
						have := number(s, key)
						// One record is of several parts, of bytes that do not compress.
						filler := ""
						if rng.IntN(10) == 0 {
							b := make([]byte, 400<<10)
							for i := range b {
								b[i] = "0123456789abcdefghijklmnopqrstuv"[rng.IntN(32)]
							}
							filler = string(b)
						}
						err := s.CommitIf(func() error {
							if number(s, key) != have {
								return catalog.ErrChanged
							}
							return nil
						}, map[string][]byte{key: text(have + 1), "filler": text(filler), fmt.Sprint("by/", i): text(round)})
						if pending, ok := errors.AsType[*catalog.PendingError](err); ok {
							<-pending.Done()
							err = pending.Outcome()
						}
						switch {
						case errors.Is(err, errJumped):
							mu.Lock()
							unknown++
							mu.Unlock()
						case err == nil:
							mu.Lock()
							added[key]++
							mu.Unlock()
						case errors.Is(err, catalog.ErrChanged):
						default:
							if _, away := errors.AsType[*catalog.JournalError](err); !away || !errors.Is(err, catalog.ErrNotCommitted) {
								t.Errorf("seed %d: %v", seed, err)
							}
						}
					}
				})
			}
			work.Wait()
			j.SetFaults(changelogtest.Faults{})
			time.Sleep(time.Second) // late requests arrive
			stores = append(stores, openStore(t, j, 3000))
			for i, s := range stores {
				if err := s.CatchUp(t.Context()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				sum := 0
				for key, want := range added {
					if got := number(s, key); got < want || got > want+unknown {
						t.Errorf("seed %d: %s in store %d is %d instead of %d", seed, key, i, got, want)
					}
					sum += number(s, key) - want
				}
				if sum > unknown {
					t.Errorf("seed %d: %d additions too much in store %d, %d are unknown", seed, sum, i, unknown)
				}
			}
			if n := j.Len(); n > 100 {
				t.Errorf("seed %d: the journal still has %d entries", seed, n)
			}
		})
	}
}

// TestJournalTrimmed cuts a store off until its unread entries are trimmed. It receives the difference.
func TestJournalTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := changelogtest.NewJournal(1, changelogtest.Faults{})
		s := openStore(t, j, 500)
		if err := s.Commit(map[string][]byte{"a": []byte("1"), "b": []byte("1")}); err != nil {
			t.Fatal(err)
		}
		late, err := Open(t.Context(), j, slog.New(slog.DiscardHandler)) // which does not follow yet
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			if err := s.Commit(map[string][]byte{"a": nil, "c": text(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if n := j.Len(); n > 20 {
			t.Fatalf("got %d entries, want at most 20", n)
		}
		took := map[string][]byte{}
		late.Follow(func(records map[string][]byte, _ bool) {
			for key, record := range records {
				took[key] = record
			}
		})
		if err := late.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%q", took); got != `map["a":"" "c":"49"]` {
			t.Errorf("it was told %s", got)
		}
		if err := late.Commit(map[string][]byte{"d": []byte("1")}); err != nil {
			t.Error(err)
		}
		if err := s.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		keys := ""
		if err := s.Scan("", func(key string, _ []byte) error { keys += key; return nil }); err != nil || keys != "bcd" {
			t.Errorf("keys %s, %v", keys, err)
		}
		if err := late.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestJournalOfALaterRelease is read by this release, which must not take it for its own.
func TestJournalOfALaterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := changelogtest.NewJournal(1, changelogtest.Faults{})
		s := openStore(t, j, snapshotBytes)
		if err := s.Commit(map[string][]byte{"a": []byte("1")}); err != nil {
			t.Fatal(err)
		}
		later := encodeEntries(commitKind, newEntryID(), map[string][]byte{"a": []byte("2")})[0]
		later[0] = journalFormat + 1
		if err := j.Append(t.Context(), 1, later); err != nil {
			t.Fatal(err)
		}
		var format *FormatError
		if _, err := Open(t.Context(), j, slog.New(slog.DiscardHandler)); !errors.As(err, &format) || !strings.Contains(err.Error(), "update this node") {
			t.Errorf("opening gives %v", err)
		}
		if err := s.Commit(map[string][]byte{"a": []byte("3")}); !errors.As(err, &format) || !errors.Is(err, catalog.ErrNotCommitted) {
			t.Errorf("a commit gives %v", err)
		}
		if number(s, "a") != 1 {
			t.Errorf("a is %d", number(s, "a"))
		}
	})
}

// TestJournalAway checks that a commit that was not sent is refused, and one that may have been stored is unknown until the journal responds.
func TestJournalAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := changelogtest.NewJournal(1, changelogtest.Faults{})
		s := openStore(t, j, snapshotBytes)
		set := func(n int) error {
			return s.CommitIf(func() error { return nil }, map[string][]byte{"a": text(n)})
		}
		j.SetFaults(changelogtest.Faults{LostRequests: 1})
		var away *catalog.JournalError
		if err := set(1); !errors.As(err, &away) || !errors.Is(err, catalog.ErrNotCommitted) {
			t.Errorf("a commit that was not sent gives %v", err)
		}
		if err := s.CatchUp(timeout(t, time.Minute)); err == nil {
			t.Error("it has caught up with a journal that does not answer")
		}
		j.SetFaults(changelogtest.Faults{})
		sent := make(chan error, 1)
		go func() {
			sent <- s.CommitIf(func() error { // the last moment before the append
				j.SetFaults(changelogtest.Faults{LostResponses: 1})
				return nil
			}, map[string][]byte{"a": text(2)})
		}()
		err := <-sent
		pending, ok := errors.AsType[*catalog.PendingError](err)
		if !ok || errors.Is(err, catalog.ErrNotCommitted) {
			t.Fatalf("a commit without an answer gives %v", err)
		}
		if err := pending.Outcome(); !errors.Is(err, pending) {
			t.Errorf("the outcome is known too early: %v", err)
		}
		j.SetFaults(changelogtest.Faults{})
		<-pending.Done()
		if err := pending.Outcome(); err != nil {
			t.Errorf("the outcome is %v", err)
		}
		if number(s, "a") != 2 || j.Len() != 1 {
			t.Errorf("a is %d, there are %d entries", number(s, "a"), j.Len())
		}
	})
}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestEntryDamage flips each byte of an entry, and cuts it. That is noticed, or changes no record.
func TestEntryDamage(t *testing.T) {
	whole := encodeEntries(commitKind, newEntryID(), map[string][]byte{"source/web": []byte(`{"secret":"s"}`), "gone": nil})[0]
	read := func(b []byte) (records map[string][]byte, err error) {
		e, err := decodeEntry(b)
		if err == nil {
			records, err = decodeRecords(e.data)
		}
		return records, err
	}
	want, err := read(whole)
	if err != nil || len(want) != 2 {
		t.Fatal(want, err)
	}
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 0x20
		if got, err := read(damaged); err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("a flipped bit in byte %d is not noticed", i)
		}
		if _, err := read(whole[:i]); err == nil {
			t.Errorf("%d bytes are read as a whole entry", i)
		}
	}
}
