package buffer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/trigger"
)

// Buffer is the local level and the machinery that moves its slices and files. It is safe for concurrent use.
//
// One goroutine, the committer, makes every change of state. It takes a group of chunks and operations, writes them as one
// batch, and then releases the callers that waited for the group.
type Buffer struct {
	opts     Options
	log      *slog.Logger
	db       *pebble.DB
	instance string
	// format is the version of the store, which only the committer changes. The goroutine that writes the format file has a place in upgrading.
	format    atomic.Int32
	upgrading chan struct{}
	// created is set if this process made the folder, which no earlier release can have opened.
	created bool

	admission admission
	// tookCommits, tookUploads and tookImports are how long they took, without calls that failed.
	tookCommits, tookUploads, tookImports latencyCounter
	// damages counts the records of damage.
	damages atomic.Int64

	gate gate

	// mu guards the state of sinks, files and slices. Only the committer writes, and it holds mu only while it changes
	// memory, never during I/O. Lock order: see locks.go.
	mu struct {
		sync.RWMutex
		state
		// changed is closed and replaced at every change of a file's state or retry.
		changed chan struct{}
	}

	// store has the phase of the buffer (see [pebblestore.Phase]). db is its database for the committer alone.
	store *pebblestore.Store
	fs    vfs.FS // the disk below
	dir   string

	// background is replaced when the store is reopened, in the transition of its phase. Nothing that reads it runs then.
	background
	reopened  chan *pebblestore.Opening // to the committer
	recovered *recovery                 // of an opening that is not in use yet, and nil after it

	// ctx ends everything that acts by itself when the buffer closes.
	ctx       context.Context
	cancel    context.CancelFunc
	closed    chan struct{} // closed when the last commit has ended
	closeOnce sync.Once
	closeErr  error

	late     lateImports
	receipts receipts
	probes   probeQueues

	metrics  *metrics      // nil without a meter
	discards atomic.Uint64 // gives each call of Discard its own job

	confirm confirmation
	// early is set permanently when a sink is defined whose callers do not wait for the changelog.
	early    atomic.Bool
	confirms confirmQueue
	// void counts the rows that were acknowledged and that the log did not have when another owner opened it, at most.
	void atomic.Int64
	// voidFound is set when an opening has counted them (see findVoid).
	voidFound atomic.Bool
	// silent is since when the syncer waits for the changelog, stopped since when the committer waits for its Mark, in Unix ns; 0 when
	// they do not.
	silent, stopped atomic.Int64
	fenced          atomic.Pointer[FencedError] // set once, before the store fails because of it
	// damaged is the damage found by the last attempt to open the store. It is set only with a changelog, which can restore more than a
	// salvage.
	damaged atomic.Pointer[StoreDamageError]

	// found passes damage to Options.OnDamage. unsound is set once, before the store is ended because of it. unwatched is closed when
	// the watcher exits. ended says that the committer has ended all background work.
	found     chan error
	unsound   atomic.Pointer[StoreDamageError]
	unwatched chan struct{}
	ended     bool

	packers sync.Pool // of slicePacker

	pack  packer     // of the committer
	order chunkOrder // of the committer
	syncs syncQueue
}

// state holds the sinks, files and slices of the store.
type state struct {
	sinks               map[string]*sinkState
	byNum               map[uint32]*sinkState
	files               map[uint64]*file
	slices              map[uint64]*slice
	lastFile, lastSlice uint64
	lastReject          uint64
	lastSink            uint32
}

// sinkState is one sink over all its definitions.
type sinkState struct {
	num uint32
	id  string

	// mu guards open, the chunk that gathers rows now, or nil between commits. No I/O happens under it.
	mu   sync.Mutex
	open *chunk
	// single is set by the committer when its last commit had rows of one Append for the sink, and compressed them.
	single atomic.Bool

	// alone is set when an import of the sink was refused, until one succeeds. See importTogether.
	alone atomic.Bool

	// gone is set permanently when a reopening has shown that the sink is not on disk.
	gone atomic.Bool

	// unstored counts the rows that were taken into memory and that the disk did not take, and told how many of them were
	// logged.
	unstored, told atomic.Int64

	room sinkRoom

	// Guarded by Buffer.mu, written by the committer.
	rec   format.Sink
	def   *format.Definition // nil until the sink is defined in this process
	file  *file              // the writing file, nil when no row waits
	slice *slice             // the writing slice, nil when no row waits
	files []*file            // all that have a record, ascending

	// held are the rejected records, ascending, heldBytes the sum of their sizes.
	held      heldList
	heldBytes int64
	// arriving are rejected records of other engines that are not in the quarantine yet.
	arriving []arriving
	// arrivingFiles are files of other engines that do not belong to this one yet, ascending.
	arrivingFiles []arrivingFile

	warned time.Time // of the committer, when it was last logged that the oldest make room
	// rejecting are those on their way to the disk.
	rejecting struct{ records, bytes atomic.Int64 }

	// left are the tables that have grown by definitions of this process and that the sink has left, each with the definitions of its older
	// handles and what takes their place. Of the committer.
	left map[tableKey]map[*format.Definition]*format.Definition

	rest int // of the committer, how many small chunks stay uncompressed
}

// slice and file are the records with their relations. Guarded by Buffer.mu, written by the committer.
type slice struct {
	num  uint64
	file *file
	rec  format.Slice
	format.Tally
	chunks uint32 // the next sequence number
	cut    bool   // set by recovery if its last chunk cannot be read
	// put is the id under which the slice is in staging, which the record may not say yet. small is set when the slice is sealed with few bytes.
	// They need no lock.
	put   atomic.Pointer[string]
	small atomic.Bool
}

type file struct {
	num    uint64
	sink   *sinkState
	target string // the name of the target of its definition, which never changes
	rec    format.File
	slices []*slice
	// attempts counts the attempts of this process that have begun, uploads and imports. It needs no lock. failed is the number of the last one that
	// has failed.
	attempts atomic.Int64
	failed   int64
	// gathered counts the payload bytes that were put into the file while it was written; 0 when it is closed.
	gathered int64
	// leased is set while another process has the lease of the table. It is accessed without a lock.
	leased atomic.Pointer[driver.LeasedError]
	// calling is when the call of Target.Import that runs began, in milliseconds; 0 while none runs. It is accessed without a lock.
	calling atomic.Int64
	// size is RawBytes of a file that waits for its import; 0 if it must be imported alone. tried is set when an import of it has failed. They are
	// accessed without a lock.
	size  atomic.Int64
	tried atomic.Bool
	// holds counts the calls of EraseRows that read the file. No import of it begins meanwhile. Guarded by mu.
	holds int
	// began is set before the first import of the file, and if an earlier process may have begun one. See EraseRows.
	began atomic.Bool
	// omitted are the numbers of erased rows that have left the file in this process, ascending. Guarded by mu.
	omitted []int64
	// lost are the rows of slices that were given up in this process, by the numbers that they had then. Guarded by mu.
	lost []rowRange
	// lacks is for refused rows that have found no room in the quarantine. Guarded by mu.
	lacks poisonSize
}

func (f *file) tally() format.Tally {
	if f.rec.Rows > 0 {
		return f.rec.Tally
	}
	var t format.Tally
	for _, s := range f.slices {
		t.Add(s.Tally)
	}
	return t
}

func (f *file) done() bool { return f.rec.Done() }

// SinkHandle is one sink of a buffer. See [Buffer.Sink]. Its methods act on the files, the quarantine and the positions of the sink, which need not
// accept rows any longer. A handle costs nothing, is safe for concurrent use, and stays valid while the sink is defined again. A method that
// can fail returns [ErrUnknownSink] for a sink that was never defined.
type SinkHandle struct {
	b  *Buffer
	id string
}

// Sink returns a handle of a sink. The sink need not be defined yet.
func (b *Buffer) Sink(id string) SinkHandle { return SinkHandle{b, id} }

// DefinedSink stands for one definition of a sink. Handles of earlier definitions stay usable. Their rows go to a
// separate file, with the columns they were mapped for.
type DefinedSink struct {
	b     *Buffer
	state *sinkState
	def   *format.Definition
	local bool // its callers do not wait for the changelog
}

// ID returns the id of the sink.
func (s *DefinedSink) ID() string { return s.state.id }

// recount sets the share, which is bounded by limit. Called with Buffer.mu held.
func (s *sinkState) recount(limit int64) {
	var n int64
	for _, f := range s.files {
		for _, sl := range f.slices {
			n += sl.Stored
		}
	}
	s.room.recount(n, limit)
}

// SinkConfig defines a sink of the buffer.
type SinkConfig struct {
	// ID names the sink. It may be any text that is not empty.
	ID string
	// Table is the destination. Columns must not be empty.
	Table driver.Table
	// Mapping is data that the caller keeps with a definition whose Table.Extend is set, for example how it makes the rows.
	// It is stored with the definition, and [SinkHandle.Mapping] returns it.
	Mapping []byte
	// Refused says why the caller's newest columns were refused, so that these columns stay in use. SinkStats shows it until the
	// next Define, even after a restart. Default: they were not refused.
	Refused string
	// Quarantine bounds the records that the sink keeps because it cannot map them (see [Rows.Rejects]). The first definition with one
	// upgrades the data directory to a format that earlier releases cannot open. Default: the sink keeps no records. The records of
	// an earlier definition stay, and rows that the target refuses are kept within its bounds, or else within the default bounds.
	Quarantine *QuarantineBounds
	// Label is a short name that the caller has for the definition, such as the version of its columns. Rows that the target refuses have it
	// (see [Poison]). Another label is another definition. Default: none.
	Label string
	// Encoding of the stored rows.
	Encoding driver.Encoding
	// Upload and Import are the conditions of the two steps. Zero fields mean the defaults.
	Upload, Import trigger.Conditions
	// AckLocal lets [Ticket.Wait] return when the rows are on the local disk, before the [Changelog] has them. Appends continue while the
	// changelog does not respond, until the bytes that it lacks fill Tuning.MaxPendingBytes. Such rows are lost with the disk, and when
	// another owner opens the log before it has them. Uploads and imports wait for the log nevertheless. It is not stored, so the next Define
	// decides again. Without Options.Changelog it changes nothing. Default: the rows are in both.
	//
	// From the first such sink on, each batch is written twice to the local disk, so that the next opening can append the batches that
	// the log lacks.
	AckLocal bool
}

func (c SinkConfig) definition(imports trigger.Limits) (*format.Definition, error) {
	var problems []error
	if c.ID == "" {
		problems = append(problems, errors.New("id is empty"))
	}
	if c.Table.ID == "" {
		problems = append(problems, errors.New("table id is empty"))
	}
	if len(c.Table.Columns) == 0 {
		problems = append(problems, errors.New("table has no columns"))
	}
	for _, col := range c.Table.Columns {
		if err := col.Type.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("column %q: %w", col.Name, err))
		}
	}
	problems = append(problems, c.Table.CheckNames())
	if c.Quarantine != nil {
		problems = append(problems, c.Quarantine.Validate())
	}
	if c.Encoding > driver.Zstd {
		problems = append(problems, fmt.Errorf("encoding %d is unknown", c.Encoding))
	}
	problems = append(problems, trigger.Upload().Validate(c.Upload), imports.Validate(c.Import))
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("buffer: sink %q: %w", c.ID, err)
	}
	return &format.Definition{
		Table:    format.Table{ID: c.Table.ID, Columns: slices.Clone(c.Table.Columns), Extend: c.Table.Extend, Target: c.Table.Target},
		Encoding: format.Encoding(c.Encoding),
		Upload:   trigger.Upload().WithDefaults(c.Upload),
		Import:   imports.WithDefaults(c.Import),
		Label:    c.Label,
	}, nil
}

// tableOf is the table of a definition as drivers see it.
func tableOf(d *format.Definition) driver.Table {
	return driver.Table{ID: d.Table.ID, Columns: d.Table.Columns, Extend: d.Table.Extend, Target: d.Table.Target}
}

// Defined reports whether the sink is known with exactly this configuration, from this process or an earlier one.
func (b *Buffer) Defined(c SinkConfig) bool {
	def, err := c.definition(b.opts.ImportLimits())
	if err != nil {
		return false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.mu.sinks[c.ID]
	return s != nil && !s.rec.Dropped && s.rec.Def.Equal(def)
}

// Table returns the table of the last definition of a sink, including a dropped sink, or false for an unknown sink. The
// caller must not modify the columns.
func (h SinkHandle) Table() (driver.Table, bool) {
	h.b.mu.RLock()
	defer h.b.mu.RUnlock()
	s := h.b.mu.sinks[h.id]
	if s == nil || s.rec.Def == nil {
		return driver.Table{}, false
	}
	return tableOf(s.rec.Def), true
}

// Define creates a sink or changes its definition, durably. A change of anything closes the file that gathers rows
// now, so that waiting rows are imported at once, under the definition they were accepted with. Imports that
// failed are tried again.
//
// With Table.Extend the error is a [*ChangeError] when the table cannot follow the columns, and nothing is changed. It must be an
// [driver.Extender] then.
func (b *Buffer) Define(ctx context.Context, c SinkConfig) (*DefinedSink, error) {
	def, err := c.definition(b.opts.ImportLimits())
	if err != nil {
		return nil, err
	}
	if _, ok := b.targetOf(c.ID, c.Table.Target).(driver.Extender); c.Table.Extend && !ok {
		return nil, driver.Permanent(fmt.Errorf("buffer: sink %q: the target cannot add columns to a table: define it without Extend", c.ID))
	}
	if name := c.Table.Target; name != "" && b.opts.Targets[name] == nil {
		return nil, driver.Permanent(fmt.Errorf("buffer: sink %q: %w", c.ID, errNoTarget(name)))
	}
	version := def.Version()
	if c.Quarantine != nil {
		version = max(version, format.Kept)
	}
	if err := b.upgradeFor(version); err != nil {
		return nil, err
	}
	local := c.AckLocal && b.opts.Changelog != nil
	if local {
		b.early.Store(true) // before its first rows
	}
	if !def.Table.Extend {
		c.Mapping = nil
	}
	if s, def := b.defineAgain(ctx, c, def, version); s != nil {
		return &DefinedSink{b: b, state: s, def: def, local: local}, nil
	}
	var handle *DefinedSink
	var refused error
	err = b.do(ctx, func(t *txn) {
		s := b.mu.sinks[c.ID]
		if s != nil {
			if refused = s.accepts(def); refused != nil {
				return
			}
		}
		t.upgrade(version)
		if s == nil {
			b.mu.lastSink++
			s = &sinkState{num: b.mu.lastSink, id: c.ID, rec: format.Sink{ID: c.ID}}
			b.mu.sinks[c.ID] = s
			b.mu.byNum[s.num] = s
		}
		changed := !s.rec.Def.Equal(def) || s.rec.Dropped
		switch {
		case !changed && s.def != nil:
			def = s.def
		case s.file != nil && s.file.rec.Def.Equal(def):
			def = s.file.rec.Def
		}
		if s.file != nil && s.file.rec.Def != def {
			t.closeFile(s.file, trigger.Changed)
		}
		before := b.compacted(s)
		if _, ok := b.targetOf(c.ID, c.Table.Target).(driver.Compactor); ok && (before == nil || before.Table.Target != def.Table.Target) {
			t.compactLater(s)
		}
		s.def = def
		if !bytes.Equal(s.rec.Mapping, c.Mapping) || s.rec.Refused != c.Refused {
			s.rec.Mapping, s.rec.Refused = c.Mapping, c.Refused
			t.touchSink(s)
		}
		t.defineQuarantine(s, c.Quarantine)
		if changed {
			t.leaveTable(s, def)
			retired := s.grow(def)
			s.rec.Def, s.rec.Dropped = def, false
			if s.rec.KeysEnd {
				s.rec.KeysEnd = false
				s.rec.Life++ // a receipt has the life of its sink
			}
			had := len(s.rec.Retired)
			t.onDurable(func() {
				b.warnUnreachable(c)
				if len(retired) > 0 {
					b.log.Info("columns no longer filled", "sink", c.ID, "table", c.Table.ID, "columns", retired, "next", "drop the columns if no query reads them")
				}
				if n := had + len(def.Table.Columns); def.Table.Extend && n >= manyTableColumns {
					b.log.Warn("table has many columns", "sink", c.ID, "table", c.Table.ID, "columns", n, "of_earlier_definitions", had, "next", "remove columns from the table's mappings")
				}
			})
			t.touchSink(s)
			t.retryFailed(s)
		}
		handle = &DefinedSink{b: b, state: s, def: def, local: local}
	})
	if err != nil {
		return nil, err // the committer may still set handle
	}
	return handle, refused
}

// defineAgain takes up the definition that the records of the sink have already, at its first definition in this process, and returns the sink. Nothing
// has to reach the disk then. So the definitions after a restart, perhaps thousands, do not each wait for a commit of the uploads and imports that
// run meanwhile. It returns nil if the definition changes anything.
func (b *Buffer) defineAgain(ctx context.Context, c SinkConfig, def *format.Definition, version int) (*sinkState, *format.Definition) {
	b.mu.Lock()
	s := b.mu.sinks[c.ID]
	same := s != nil && s.def == nil && ctx.Err() == nil && int(b.format.Load()) >= version && b.failure() == nil && b.store.Now().Phase != pebblestore.PhaseClosed && // else the committer says why it cannot
		!s.rec.Dropped && s.rec.Def.Equal(def) && bytes.Equal(s.rec.Mapping, c.Mapping) && s.rec.Refused == c.Refused && b.quarantineOf(s, c.Quarantine) == s.rec.Quarantine &&
		(s.file == nil || s.file.rec.Def.Equal(def))
	if !same {
		b.mu.Unlock()
		return nil, nil
	}
	compacts := b.compacted(s) == nil
	if s.file != nil {
		def = s.file.rec.Def
	}
	s.def = def
	b.mu.Unlock()
	if _, ok := b.targetOf(c.ID, c.Table.Target).(driver.Compactor); ok && compacts {
		_, _ = b.post(&operation{run: func(t *txn) { t.compactLater(s) }}) // with an error the buffer is closing or has failed. Recovery sets the timer again
	}
	return s, def
}

// Close stops the intake, commits everything that was accepted, ends the calls of drivers and closes the store. Rows
// that are not yet in the target wait for the next Open. It may be called twice.
//
// After a failure of the local level that was not fixed yet, Close returns the [*FailedError], or the [*FencedError]. It waits up
// to 20 s for a [Changelog] that does not respond.
func (b *Buffer) Close() error {
	b.closeOnce.Do(func() { b.closeErr = b.close() })
	return b.closeErr
}

func (b *Buffer) close() error {
	if b.opts.Changelog != nil {
		timer := time.AfterFunc(patience, func() { b.confirm.end(fmt.Errorf("it did not return within %s of Close", patience)) })
		defer timer.Stop()
	}
	var last background
	// An upgrade that has begun ends, and no other begins after Stop. Workers ask for upgrades, so last.stop must not wait in here.
	b.upgrading <- struct{}{}
	b.store.Stop(func() { last = b.background })
	<-b.upgrading
	b.gate.waitForAppends()
	b.admission.end()
	b.metrics.close()
	b.gate.kick()
	// The last group may hold the outcomes of driver calls, so the calls end first.
	b.cancel()
	<-b.unwatched
	last.stop()
	b.forgetAtEnd()
	b.store.Drain()
	b.gate.kick()
	<-b.closed
	last.copy.stop()
	err := b.store.Close()
	if f := b.failure(); f != nil {
		return f
	}
	if err != nil {
		return fmt.Errorf("buffer: close the local level: %w", err)
	}
	return nil
}

// waitChange returns a channel that is closed at the next change of a file. Call it with mu held for reading.
func (b *Buffer) waitChange() <-chan struct{} { return b.mu.changed }

// signalChange wakes the goroutines that wait for a change of a file. Call it with mu held.
func (b *Buffer) signalChange() {
	close(b.mu.changed)
	b.mu.changed = make(chan struct{})
}

// failure returns the failure of the store that was not fixed yet, a [*FailedError] or a [*FencedError], or nil while it works.
func (b *Buffer) failure() error {
	err := b.store.Now().Failure
	if err == nil {
		return nil
	}
	if f := b.fenced.Load(); f != nil {
		return f
	}
	if d := cmp.Or(b.unsound.Load(), b.damaged.Load()); d != nil {
		err = d
	}
	return &FailedError{Err: err}
}

func (b *Buffer) now() time.Time { return time.Now().UTC() }
