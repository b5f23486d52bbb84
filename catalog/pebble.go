package catalog

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// storeMemory bounds the memory of the default store, because definitions are small.
const storeMemory = 1 << 20

// storeIDKey holds the random id of the store. No prefix of the catalog covers it.
const storeIDKey = "store/instance"

type pebbleStore struct {
	dir string
	db  *pebblestore.Store
}

// OpenStore opens the default store, a pebble database in a folder that it creates if it is missing. One process can have it open.
// Others get an [*InUseError].
//
// If its files are damaged, it is replaced by a new store with the newest version of each record that can still be read, and log gets
// a report of the loss. See [DamageError]. With a nil log, warnings and errors go to [slog.Default]. The damaged files are kept in the folder
// DIR/damaged-TIME.
//
// When the disk fails or is full, calls return a [*FailedError] until the store has reopened itself.
func OpenStore(dir string, log *slog.Logger) (Store, error) {
	return openStore(dir, log, localdisk.Real())
}

func openStore(dir string, log *slog.Logger, disk vfs.FS) (Store, error) {
	if err := localdisk.Named(dir); err != nil {
		return nil, fmt.Errorf("catalog: open the store: %w", err)
	}
	s := &pebbleStore{dir: filepath.Clean(dir)}
	s.db = pebblestore.NewStore(pebblestore.StoreConfig{
		Config: pebblestore.Config{Dir: s.dir, FS: disk, Log: warnlog.Or(log), MemTable: storeMemory},
		Name:   "store of the catalog", InstanceKey: storeIDKey, Salvage: true,
	})
	err := s.db.Open()
	var inUse *pebblestore.InUseError
	var damaged *pebblestore.DamageError
	switch {
	case err == nil:
		return s, nil
	case errors.As(err, &inUse):
		return nil, &InUseError{Dir: s.dir, Err: inUse.Err}
	case errors.As(err, &damaged):
		return nil, &DamageError{Dir: s.dir, Err: fmt.Errorf("catalog: open %s: %w", s.dir, err)}
	}
	return nil, fmt.Errorf("catalog: open %s: %w", s.dir, err)
}

// told converts an error of pebblestore to one of the catalog.
func (s *pebbleStore) told(err error) error {
	var failed *pebblestore.FailedError
	var damaged *pebblestore.DamageError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pebblestore.ErrClosed):
		return ErrClosed
	case errors.As(err, &failed):
		return &FailedError{Dir: s.dir, RetryAfter: failed.RetryAfter, Err: failed.Err}
	case errors.As(err, &damaged):
		return &DamageError{Dir: s.dir, Err: damaged.Err}
	}
	return err
}

func (s *pebbleStore) Get(key string) (value []byte, err error) {
	err = s.db.View(func(r pebble.Reader) (err error) {
		value, err = pebblestore.Get(r, []byte(key))
		return pebblestore.Failed(err)
	})
	if err != nil {
		return nil, s.told(err)
	}
	return value, nil
}

func (s *pebbleStore) Scan(prefix string, visit func(key string, record []byte) error) error {
	return s.told(s.db.View(func(r pebble.Reader) error {
		it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: after(prefix)})
		if err != nil {
			return pebblestore.Failed(err)
		}
		var visited error
		for valid := it.First(); valid && visited == nil; valid = it.Next() {
			v, err := it.ValueAndErr()
			if err != nil {
				break // Close returns it too
			}
			visited = visit(string(it.Key()), v)
		}
		if err := it.Close(); err != nil {
			return pebblestore.Failed(err)
		}
		return visited
	}))
}

// after returns the first key after those with the prefix, or nil when there is none.
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
	err := s.db.Update(func(batch *pebble.Batch) (err error) {
		for key, record := range records {
			if record == nil {
				err = errors.Join(err, batch.Delete([]byte(key), nil))
			} else {
				err = errors.Join(err, batch.Set([]byte(key), record, nil))
			}
		}
		return err
	})
	if errors.Is(err, pebblestore.ErrNotCommitted) {
		return fmt.Errorf("%w: %w", ErrNotCommitted, s.told(err))
	}
	return s.told(err)
}

// Checkpoint implements [Checkpointer].
func (s *pebbleStore) Checkpoint(dir string) error {
	return s.told(s.db.Checkpoint(dir))
}

func (s *pebbleStore) Close() error { return s.told(s.db.Close()) }
