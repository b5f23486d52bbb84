package checkpoint

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/internal/localdisk"
)

// Options configure a [Store].
type Options struct {
	// Parallel is how many files are stored or fetched at once. Each takes the memory that one call of the staging takes.
	// Default: 4.
	Parallel int
	// CallTimeout ends one call of the staging, with all bytes of its object. Default: 5 min.
	CallTimeout time.Duration
	// Check is called with each table before Save stores it, and refuses one that the disk has changed since it was written. It is called
	// concurrently. Default: none.
	Check func(disk vfs.FS, path string) error
	// Logger gets the progress of transfers, every 10 s, and their end. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger

	//lint:ignore U1000 package localdisk reaches it through the embedded method
	disk
}

//lint:ignore U1000 package localdisk reaches it through the embedded method
type disk = localdisk.Disk

// Store keeps checkpoints in a staging. All methods may be called concurrently, but an instance is saved by one caller at a time.
// It is stateless.
type Store struct {
	staging driver.Staging
	owners  changelog.Owners
	opts    Options
}

// New returns a store of checkpoints in a staging, which notes its objects in the store of owners. It makes no call.
func New(staging driver.Staging, owners changelog.Owners, o Options) *Store {
	o.Parallel = cmp.Or(o.Parallel, 4)
	o.CallTimeout = cmp.Or(o.CallTimeout, 5*time.Minute)
	o.Logger = warnlog.Or(o.Logger)
	return &Store{staging, owners, o}
}

// object describes an object for the staging. Each is a separate file, because a driver may keep the slices of one file in one
// place that is rewritten with each of them.
func object(name string) driver.Object {
	return driver.Object{ID: name, FileID: name, SinkID: "cluster/checkpoint"}
}

// remove deletes objects. Absent ones are no error.
func (s *Store) remove(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	objects := make([]driver.Object, len(names))
	for i, name := range names {
		objects[i] = object(name)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	return s.staging.Delete(ctx, objects...)
}

// each calls do for all files, several at once, and returns the first error, which ends the others.
func (s *Store) each(ctx context.Context, files []File, do func(context.Context, *File) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(s.opts.Parallel, len(files)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(files)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := do(ctx, &files[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// transfer is what one Save or Fetch moves.
type transfer struct {
	log   *slog.Logger
	begin time.Time
	total int64
	done  atomic.Int64
	told  atomic.Int64 // when the progress was logged, in ns since begin
}

func (s *Store) transfer(what string, m *Manifest, total int64) *transfer {
	log := s.opts.Logger.With("checkpoint", what, "instance", m.Instance, "number", m.Number)
	return &transfer{log: log, begin: time.Now(), total: total}
}

const tellEvery = 10 * time.Second

func (t *transfer) add(n int) {
	done, passed, told := t.done.Add(int64(n)), int64(time.Since(t.begin)), t.told.Load()
	if passed-told >= int64(tellEvery) && t.told.CompareAndSwap(told, passed) {
		t.log.Info("checkpoint in progress", "bytes", done, "of", t.total)
	}
}
