package platform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/driverkit/keylock"
	"github.com/forebay/forebay/internal/pebblestore"
)

// store is the database of all metadata. A change is one batch with an fsync, atomic, and durable before its call returns.
// Reads see only data on disk.
//
// When the disk fails or is full, calls get a [*pebblestore.FailedError] until the store has reopened.
type store struct {
	db    *pebblestore.Store
	locks keylock.Locks
	ids   sequence
}

// formatVersion is the version of everything below the directory.
const formatVersion = 1

// storeMemory is the size of the write buffer.
const storeMemory = 8 << 20

// openStore opens the database. fs is the disk, nil for the real one.
func openStore(dir string, log *slog.Logger, fs vfs.FS) (*store, error) {
	s := &store{db: pebblestore.NewStore(pebblestore.StoreConfig{
		Config: pebblestore.Config{Dir: dir, FS: fs, Log: log, MemTable: storeMemory},
		Name:   "store of the platform", InstanceKey: instanceKey, Check: checkFormat,
	})}
	s.ids.store = s
	return s, s.db.Open()
}

func checkFormat(o *pebblestore.Opening, _ bool) error {
	found, err := pebblestore.Get(o.DB, []byte(formatKey))
	if err != nil {
		return err
	}
	if found == nil {
		return o.DB.Set([]byte(formatKey), strconv.AppendInt(nil, formatVersion, 10), pebble.Sync)
	}
	if version := string(found); version != strconv.Itoa(formatVersion) {
		return fmt.Errorf("the directory has format %s, this release knows format %d", version, formatVersion)
	}
	return nil
}

func (s *store) close() error { return s.db.Close() }

// wait returns when the store takes changes, or ctx has ended.
func (s *store) wait(ctx context.Context) error {
	for {
		err := s.db.Ready()
		var failed *pebblestore.FailedError
		if !errors.As(err, &failed) {
			return err
		}
		if err := ctxio.Sleep(ctx, max(failed.RetryAfter, 100*time.Millisecond)); err != nil {
			return err
		}
	}
}

// insist repeats change until the store does not fail. change may take effect twice.
func (s *store) insist(ctx context.Context, change func() error) error {
	for {
		err := change()
		if storeFailed(err) == nil {
			return err
		}
		if e := s.wait(ctx); e != nil {
			return errors.Join(err, e)
		}
	}
}

// storeFailed returns the failure of the store that caused an error, nil when it has another cause.
func storeFailed(err error) *pebblestore.FailedError {
	var failed *pebblestore.FailedError
	errors.As(err, &failed)
	return failed
}

// txn is one change, which reads its own writes, or a view, which cannot write.
//
// It remembers its first failure. Later reads then find nothing, later writes do nothing, and update or view returns the
// failure, whatever its function returned. So functions of a txn return errors for the caller of the API only.
type txn struct {
	r   pebble.Reader
	w   *pebble.Batch // nil in a view
	err error         // the first failure
}

// fail notes a failure. It does nothing for nil and for all but the first.
func (tx *txn) fail(err error) { tx.err = cmp.Or(tx.err, err) }

func (tx *txn) run(do func(tx *txn) error) error {
	err := do(tx)
	return cmp.Or(tx.err, err)
}

// update runs change under the lock of that name ("" for none) and commits it durably if it returns nil. A second
// change under the same lock begins when the first is on disk.
func (s *store) update(lock string, change func(tx *txn) error) error {
	if lock != "" {
		defer s.locks.Hold(lock)()
	}
	return s.db.Update(func(batch *pebble.Batch) error { return (&txn{r: batch, w: batch}).run(change) })
}

// view runs read on one consistent state.
func (s *store) view(read func(tx *txn) error) error {
	return s.db.View(func(r pebble.Reader) error { return (&txn{r: r}).run(read) })
}

// viewed returns what read makes of one consistent state.
func viewed[T any](s *store, read func(tx *txn) (T, error)) (out T, err error) {
	err = s.view(func(tx *txn) (err error) {
		out, err = read(tx)
		return err
	})
	return out, err
}

// get decodes the record of a key into v and reports whether there is one.
func (tx *txn) get(key string, v any) bool {
	if tx.err != nil {
		return false
	}
	data, closer, err := tx.r.Get([]byte(key))
	if err != nil {
		if !errors.Is(err, pebble.ErrNotFound) {
			tx.fail(pebblestore.Failed(err))
		}
		return false
	}
	defer closer.Close()
	return tx.decode(key, data, v)
}

func (tx *txn) decode(key string, data []byte, v any) bool {
	if err := json.Unmarshal(data, v); err != nil {
		tx.fail(fmt.Errorf("record %q is damaged: %w", key, err))
	}
	return tx.err == nil
}

// has reports whether there is a record under a key.
func (tx *txn) has(key string) bool { return tx.get(key, new(json.RawMessage)) }

// put stores a record.
func (tx *txn) put(key string, v any) {
	data, err := jsontext.Marshal(v)
	tx.fail(err)
	if tx.err == nil {
		tx.fail(tx.w.Set([]byte(key), data, nil))
	}
}

func (tx *txn) delete(keys ...string) {
	for _, key := range keys {
		tx.fail(tx.w.Delete([]byte(key), nil))
	}
}

// deleteAll deletes every key that begins with one of the prefixes.
func (tx *txn) deleteAll(prefixes ...string) {
	for _, prefix := range prefixes {
		tx.fail(tx.w.DeleteRange([]byte(prefix), prefixEnd(prefix), nil))
	}
}

// deleteRange deletes the keys in [from, to). It writes nothing if there are none.
func (tx *txn) deleteRange(from, to []byte) {
	it, err := tx.r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		tx.fail(pebblestore.Failed(err))
		return
	}
	found := it.First()
	if tx.fail(pebblestore.Failed(it.Close())); found {
		tx.fail(tx.w.DeleteRange(from, to, nil))
	}
}

// prefixEnd is the first key after all that begin with prefix, which must end with a byte below 0xff.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

// scan yields the records whose keys begin with prefix, ascending or descending, with the rest of the key. A record is valid
// until the next step. The loop must not write.
func (tx *txn) scan(prefix string, descending bool) iter.Seq2[string, []byte] {
	return tx.scanBetween(prefix, prefix, descending)
}

// scanFrom is an ascending scan that begins at a key.
func (tx *txn) scanFrom(prefix, from string) iter.Seq2[string, []byte] {
	return tx.scanBetween(prefix, from, false)
}

func (tx *txn) scanBetween(prefix, from string, descending bool) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if tx.err != nil {
			return
		}
		it, err := tx.r.NewIter(&pebble.IterOptions{LowerBound: []byte(from), UpperBound: prefixEnd(prefix)})
		if err != nil {
			tx.fail(pebblestore.Failed(err))
			return
		}
		defer it.Close()
		first, next := it.First, it.Next
		if descending {
			first, next = it.Last, it.Prev
		}
		for ok := first(); ok; ok = next() {
			value, err := it.ValueAndErr()
			tx.fail(pebblestore.Failed(err))
			if tx.err != nil || !yield(string(it.Key()[len(prefix):]), value) {
				return
			}
		}
		tx.fail(pebblestore.Failed(it.Error()))
	}
}

// each decodes the records whose keys begin with prefix.
func each[V any](tx *txn, prefix string, descending bool) iter.Seq[V] {
	return func(yield func(V) bool) {
		for key, data := range tx.scan(prefix, descending) {
			var v V
			if !tx.decode(prefix+key, data, &v) || !yield(v) {
				return
			}
		}
	}
}

// all is each as a list.
func all[V any](tx *txn, prefix string) []V { return slices.Collect(each[V](tx, prefix, false)) }

// refuseIf returns an error for the first record whose key begins with prefix and that is in the way.
func refuseIf[V any](tx *txn, prefix string, inTheWay func(v V) bool, refusal func(v V) error) error {
	for v := range each[V](tx, prefix, false) {
		if inTheWay(v) {
			return refusal(v)
		}
	}
	return nil
}

// find decodes the record of a key. Without one the error is absent.
func find[V any](tx *txn, key string, absent error) (v V, err error) {
	if !tx.get(key, &v) {
		err = cmp.Or(tx.err, absent)
	}
	return v, err
}

// named decodes a record that another record names. If it is not there, the store is damaged, and the transaction fails.
func named[V any](tx *txn, key, format string, args ...any) V {
	v, err := find[V](tx, key, fmt.Errorf(format, args...))
	tx.fail(err)
	return v
}

// indexed decodes the records that an index names. Under each key that begins with prefix is the number of a record.
func indexed[V any](tx *txn, prefix string, descending bool, recordKey func(id int64) string) iter.Seq[V] {
	return func(yield func(V) bool) {
		for id := range each[int64](tx, prefix, descending) {
			var v V
			if tx.get(recordKey(id), &v); tx.err != nil || !yield(v) {
				return
			}
		}
	}
}

// sequence hands out numeric ids and never repeats one, even after a crash. The end of a block is on disk before its first id
// is used.
type sequence struct {
	store     *store
	mu        sync.Mutex // held while a new block is made durable, which is rare
	next, end int64
}

const (
	firstID = 1001
	idBlock = 1000
)

func (q *sequence) take() (int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == q.end {
		var end int64
		err := q.store.update("", func(tx *txn) error {
			tx.get(sequenceKey, &end)
			end = max(end, firstID)
			tx.put(sequenceKey, end+idBlock)
			return nil
		})
		if err != nil {
			return 0, err
		}
		q.next, q.end = end, end+idBlock
	}
	q.next++
	return q.next - 1, nil
}

func (q *sequence) takeText() (string, error) {
	id, err := q.take()
	return fmt.Sprint(id), err
}
