package console_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
)

// sharedStore is a shared store with one catalog. It does not respond while away is set.
type sharedStore struct {
	mu      sync.Mutex
	records map[string][]byte
	took    func(records map[string][]byte, own bool)
	away    atomic.Bool
}

func (s *sharedStore) Get(key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.records[key]), nil
}

func (s *sharedStore) Scan(prefix string, visit func(key string, record []byte) error) error {
	s.mu.Lock()
	found := maps.Clone(s.records)
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if strings.HasPrefix(key, prefix) {
			if err := visit(key, found[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sharedStore) Commit(records map[string][]byte) error {
	return s.CommitIf(func() error { return nil }, records)
}

func (s *sharedStore) CommitIf(check func() error, records map[string][]byte) error {
	if err := check(); err != nil {
		return errors.Join(catalog.ErrNotCommitted, err)
	}
	s.mu.Lock()
	for key, record := range records {
		if s.records[key] = record; record == nil {
			delete(s.records, key)
		}
	}
	s.mu.Unlock()
	s.took(records, true)
	return nil
}

func (s *sharedStore) Follow(took func(records map[string][]byte, own bool)) { s.took = took }

func (s *sharedStore) CatchUp(context.Context) error {
	if s.away.Load() {
		return &catalog.JournalError{Err: errors.New("no response")}
	}
	return nil
}

func (s *sharedStore) Close() error { return nil }

// Pages with definitions warn while the journal does not respond, because changes made through other nodes may be missing.
func TestDefinitionsThatMayBeOld(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := &sharedStore{records: map[string][]byte{}}
	cat, err := catalog.Open("", eng, catalog.Options{Shared: catalog.SharedOptions{Store: store, Node: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cat.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	})
	c := consoleOf(t, eng, console.Options{Catalog: cat})
	for _, away := range []bool{false, true, false} {
		store.away.Store(away)
		w := send(t, c, "/defs.list", operator, nil)
		if warning := w.Header().Get("X-Stream-Warning"); w.Code != 200 || strings.Contains(warning, "other nodes") != away {
			t.Errorf("with a journal that does not respond (%t) the list has the status %d and the warning %q, want 200 and a warning only then", away, w.Code, warning)
		}
	}
}
