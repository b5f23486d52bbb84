package catalog

import "errors"

// Store keeps records in the order of their keys. Implementations must be safe for concurrent use.
//
// A failed Commit may have reached the disk. After an error that is not [ErrNotCommitted], Get and Scan must return durable
// records, or an error until the outcome is known. The catalog reads the records back and continues from there.
//
// All records are in one [Store], by default a small pebble database in the data directory. Live records are in memory too.
// The limits of the service keep the number of definitions small. [Catalog.Checkpoint] copies all.
type Store interface {
	// Get returns the record of a key, or nil when there is none. The caller owns the bytes.
	Get(key string) ([]byte, error)
	// Scan calls visit for each record whose key begins with prefix, in ascending order, until visit fails, and returns that
	// error. The bytes are valid during the call only. It may show a commit that has not ended yet.
	Scan(prefix string, visit func(key string, record []byte) error) error
	// Commit writes all records or none, and returns when they are durable. A nil record removes its key. With ErrNotCommitted
	// nothing was written. After any other error the outcome is unknown.
	Commit(records map[string][]byte) error
	// Close is called once, after all other calls.
	Close() error
}

// Checkpointer is a [Store] that can copy itself while it is in use.
type Checkpointer interface {
	// Checkpoint writes a copy into a new folder, with all that was committed before the call. With an error there is no copy.
	Checkpoint(dir string) error
}

// ErrNotCommitted is an error of [Store.Commit] that says that nothing was written.
var ErrNotCommitted = errors.New("nothing was written")
