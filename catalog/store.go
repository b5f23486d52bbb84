package catalog

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
)

// Store keeps records in the order of their keys. Implementations must be safe for concurrent use.
type Store interface {
	// Get returns the record of a key; nil when there is none. The caller owns the bytes.
	Get(key string) ([]byte, error)
	// Scan calls visit for every record whose key begins with prefix, in ascending order, until visit fails. The bytes
	// are valid during the call only.
	Scan(prefix string, visit func(key string, record []byte) error) error
	// Commit writes all records, or none of them, and returns once they are durable. A nil record removes its key.
	Commit(records map[string][]byte) error
	// Close is called once, after all other calls.
	Close() error
}

// memory of the default store: definitions are small.
const storeMemory = 1 << 20

// OpenStore opens the default store: a pebble database in a folder, which it creates if need be. One process has it open
// at a time.
func OpenStore(dir string, log *slog.Logger) (Store, error) {
	db, err := pebble.Open(dir, &pebble.Options{
		MemTableSize: storeMemory,
		CacheSize:    storeMemory,
		Logger:       storeLogger{log},
	})
	if err != nil {
		return nil, fmt.Errorf("catalog: open %s: %w", dir, err)
	}
	return &pebbleStore{db}, nil
}

type pebbleStore struct{ db *pebble.DB }

func (s *pebbleStore) Get(key string) ([]byte, error) {
	v, closer, err := s.db.Get([]byte(key))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	record := append([]byte{}, v...)
	return record, closer.Close()
}

func (s *pebbleStore) Scan(prefix string, visit func(key string, record []byte) error) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for valid := it.First(); valid; valid = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := visit(string(it.Key()), v); err != nil {
			return err
		}
	}
	return it.Error()
}

// after returns the first key that has not the prefix; nil when there is no bound.
func after(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
}

func (s *pebbleStore) Commit(records map[string][]byte) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	for key, record := range records {
		var err error
		if record == nil {
			err = batch.Delete([]byte(key), nil)
		} else {
			err = batch.Set([]byte(key), record, nil)
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

func (s *pebbleStore) Close() error { return s.db.Close() }

// storeLogger passes on what is wrong; what the store reports of its work is not for operators.
type storeLogger struct{ log *slog.Logger }

func (storeLogger) Infof(string, ...any) {}

func (l storeLogger) Errorf(format string, args ...any) {
	l.log.Error("store of the catalog", "error", fmt.Sprintf(format, args...))
}

// Fatalf is called when the store cannot go on, for example because the disk refuses a write of its log.
func (l storeLogger) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	panic("catalog: " + fmt.Sprintf(format, args...))
}
