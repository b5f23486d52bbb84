package catalog

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

	"github.com/forebay/forebay/changelog/changelogtest"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/synctest"
)

// openJournal opens a store that adds a snapshot after so many bytes. It ends with the test.
func openJournal(t *testing.T, j *changelogtest.Journal, snapshotAfter int) *journalStore {
	t.Helper()
	opened, err := OpenJournal(t.Context(), j, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*journalStore)
	s.snapshotAfter = snapshotAfter
	s.follow(func(map[string][]byte, bool) {})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// number reads a counter.
func number(s Store, key string) (n int) {
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
			var stores []*journalStore
			for range 3 {
				stores = append(stores, openJournal(t, j, 3000))
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
						err := s.commitIf(func() error {
							if number(s, key) != have {
								return ErrChanged
							}
							return nil
						}, map[string][]byte{key: encode(have + 1), "filler": encode(filler), fmt.Sprint("by/", i): encode(round)})
						stored := err == nil
						if pending, ok := errors.AsType[*pendingError](err); ok {
							<-pending.commit.done
							stored, err = pending.outcome()
						}
						switch {
						case errors.Is(err, errJumped):
							mu.Lock()
							unknown++
							mu.Unlock()
						case stored:
							mu.Lock()
							added[key]++
							mu.Unlock()
						case errors.Is(err, ErrChanged), err == nil:
						default:
							if _, away := errors.AsType[*JournalError](err); !away || !errors.Is(err, ErrNotCommitted) {
								t.Errorf("seed %d: %v", seed, err)
							}
						}
					}
				})
			}
			work.Wait()
			j.SetFaults(changelogtest.Faults{})
			time.Sleep(time.Second) // late requests arrive
			stores = append(stores, openJournal(t, j, 3000))
			for i, s := range stores {
				if err := s.catchUp(t.Context()); err != nil {
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
		s := openJournal(t, j, 500)
		if err := s.Commit(map[string][]byte{"a": []byte("1"), "b": []byte("1")}); err != nil {
			t.Fatal(err)
		}
		late, err := OpenJournal(t.Context(), j, slog.New(slog.DiscardHandler)) // which does not follow yet
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			if err := s.Commit(map[string][]byte{"a": nil, "c": encode(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if n := j.Len(); n > 20 {
			t.Fatalf("%d entries, want at most 20", n)
		}
		took := map[string][]byte{}
		late.(sharedStore).follow(func(records map[string][]byte, _ bool) {
			for key, record := range records {
				took[key] = record
			}
		})
		if err := late.(sharedStore).catchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%q", took); got != `map["a":"" "c":"49"]` {
			t.Errorf("it was told %s", got)
		}
		if err := late.Commit(map[string][]byte{"d": []byte("1")}); err != nil {
			t.Error(err)
		}
		if err := s.catchUp(t.Context()); err != nil {
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
		s := openJournal(t, j, snapshotBytes)
		if err := s.Commit(map[string][]byte{"a": []byte("1")}); err != nil {
			t.Fatal(err)
		}
		later := encodeEntries(commitKind, newEntryID(), map[string][]byte{"a": []byte("2")})[0]
		later[0] = journalFormat + 1
		if err := j.Append(t.Context(), 1, later); err != nil {
			t.Fatal(err)
		}
		var format *FormatError
		if _, err := OpenJournal(t.Context(), j, slog.New(slog.DiscardHandler)); !errors.As(err, &format) || !strings.Contains(err.Error(), "update this node") {
			t.Errorf("opening gives %v", err)
		}
		if err := s.Commit(map[string][]byte{"a": []byte("3")}); !errors.As(err, &format) || !errors.Is(err, ErrNotCommitted) {
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
		s := openJournal(t, j, snapshotBytes)
		set := func(n int) error {
			return s.commitIf(func() error { return nil }, map[string][]byte{"a": encode(n)})
		}
		j.SetFaults(changelogtest.Faults{LostRequests: 1})
		var away *JournalError
		if err := set(1); !errors.As(err, &away) || !errors.Is(err, ErrNotCommitted) {
			t.Errorf("a commit that was not sent gives %v", err)
		}
		if err := s.catchUp(timeout(t, time.Minute)); err == nil {
			t.Error("it has caught up with a journal that does not answer")
		}
		j.SetFaults(changelogtest.Faults{})
		sent := make(chan error, 1)
		go func() {
			sent <- s.commitIf(func() error { // the last moment before the append
				j.SetFaults(changelogtest.Faults{LostResponses: 1})
				return nil
			}, map[string][]byte{"a": encode(2)})
		}()
		err := <-sent
		pending, ok := errors.AsType[*pendingError](err)
		if !ok || errors.Is(err, ErrNotCommitted) {
			t.Fatalf("a commit without an answer gives %v", err)
		}
		if _, err := pending.outcome(); err == nil {
			t.Error("the outcome is known too early")
		}
		j.SetFaults(changelogtest.Faults{})
		<-pending.commit.done
		if stored, err := pending.outcome(); !stored || err != nil {
			t.Errorf("the outcome is %v, %v", stored, err)
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
