package buffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// InspectOptions are the choices of [Inspect]. A zero field means its default.
type InspectOptions struct {
	// Staging lets Verify and WriteRows read uploaded slices. Only its Open is called.
	Staging driver.Staging
	// Target lets Verify count imported rows if it is a [driver.Counter]. It is not changed.
	Target driver.Target
	// Targets and TargetOf are as in [Options]. Rows in a target that is missing here are not counted.
	Targets  map[string]driver.Target
	TargetOf func(sinkID string) driver.Target

	//lint:ignore U1000 package localdisk reaches it through the embedded method
	disk
}

// Inspection is a read-only view of a local level. It writes no file but the lock, and uploads and imports nothing. It is
// safe for concurrent use.
type Inspection struct {
	b  *Buffer
	at LogPosition
}

// InUseError says that another engine has the directory open. To inspect the data of a running engine, let it make a
// checkpoint and inspect the checkpoint.
type InUseError struct {
	// Dir is the directory, Err the error of the file system.
	Dir string
	Err error
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is in use by another engine; close that one or choose another folder", e.Dir)
}

func (e *InUseError) Unwrap() error { return e.Err }

// noDataError says that a folder holds no local level. It matches fs.ErrNotExist.
type noDataError string

func (e noDataError) Error() string {
	return fmt.Sprintf("buffer: %s is not a data directory: it holds no local level; name the folder that an engine has opened", string(e))
}

func (noDataError) Unwrap() error { return fs.ErrNotExist }

// Inspect opens the local level of a closed engine, or a checkpoint of a running one, for reading. A directory that an
// engine has open gives an [*InUseError], a damaged store a [*StoreDamageError]. The caller closes the Inspection.
func Inspect(dir string, opts InspectOptions) (*Inspection, error) {
	disk := localdisk.Of(opts)
	dir = filepath.Clean(dir)
	version, err := checkFormat(disk, dir, format.Newest)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		return nil, noDataError(dir)
	}
	b := &Buffer{opts: Options{Staging: opts.Staging, Target: opts.Target, Targets: opts.Targets, TargetOf: opts.TargetOf}, log: slog.New(slog.DiscardHandler), fs: disk, dir: dir}
	b.admission.b = b
	i := &Inspection{b: b}
	b.store = pebblestore.NewStore(pebblestore.StoreConfig{
		Config: pebblestore.Config{Dir: dir, FS: disk, Log: b.log, Patience: patience}, ReadOnly: true,
		Check: func(o *pebblestore.Opening, _ bool) error {
			err := pebblestore.CheckFiles(disk, dir)
			if err != nil {
				return err
			}
			if i.at, err = logPosition(o.DB); err != nil {
				return err
			}
			r, err := b.recoverState(o.DB, version, i.at.Number)
			if err == nil {
				b.mu.state, b.instance = r.state, r.instance
				b.admission.local.Store(r.local)
				b.damages.Store(r.damages)
			}
			return err
		},
	})
	if err := b.store.Open(); err != nil {
		if pebblestore.IsDamage(err) {
			return nil, &StoreDamageError{Dir: dir, Err: err}
		}
		return nil, openError(dir, err)
	}
	return i, nil
}

// Close ends the inspection.
func (i *Inspection) Close() error { return i.b.store.Close() }

// LogPosition says which batches of the [Changelog] are in the local level. It is zero where there was none.
func (i *Inspection) LogPosition() LogPosition { return i.at }

// AckedLocally returns how many rows of sinks with SinkConfig.AckLocal are in the batches that the local level keeps copies of, because
// the [Changelog] may lack them. At most so many acknowledged rows are lost with this folder if another owner has opened the log.
func (i *Inspection) AckedLocally() (rows int64, err error) {
	o := i.b.store.Opening()
	if err := o.Read(); err != nil {
		return 0, err
	}
	defer o.Release()
	return ackedLocally(o.DB, 0)
}

// Stats returns the counters of all sinks, as [Buffer.Stats].
func (i *Inspection) Stats() Stats { return i.b.Stats() }

// Damaged lists the records of damage, as [Buffer.Damaged].
func (i *Inspection) Damaged(ctx context.Context) ([]Damage, error) { return i.b.Damaged(ctx) }

// Rejected iterates over the quarantine of a sink, as [SinkHandle.Rejected].
func (i *Inspection) Rejected(ctx context.Context, sinkID, after string) iter.Seq2[Rejected, error] {
	return i.b.Sink(sinkID).Rejected(ctx, after)
}

// RejectedRecord returns a record of the quarantine, as [SinkHandle.RejectedRecord].
func (i *Inspection) RejectedRecord(ctx context.Context, sinkID, id string) (r Rejected, record, came []byte, err error) {
	return i.b.Sink(sinkID).RejectedRecord(ctx, id)
}

// SliceStats describe one slice.
type SliceStats struct {
	// ID, FileID and SinkID are the ids that drivers see.
	ID, FileID, SinkID string
	// State is the state. OpenedAt and ClosedAt are when writing started and ended; ClosedAt is zero while the slice is open.
	State              SliceState
	OpenedAt, ClosedAt time.Time
	// Reason is the trigger that sealed the slice.
	Reason string
	// Level are the totals.
	Level Level
	// Attempt is the number of failed uploads, RetryReason the last failure, RetryAfter the time of the next attempt.
	Attempt     int
	RetryReason string
	RetryAfter  time.Time
}

// Slices returns all slices in the order of their creation.
func (i *Inspection) Slices() []SliceStats {
	b := i.b
	var list []SliceStats
	for _, sl := range i.slices() {
		list = append(list, b.sliceStats(sl))
	}
	return list
}

// NextSlice returns the id that the engine gives its next slice. Slices of this engine with lower ids that [Inspection.Slices] does not list are
// done with, unless damage has made the engine forget them.
func (i *Inspection) NextSlice() string {
	return format.SliceID(i.b.instance, i.b.mu.lastSlice+1, 0)
}

func (i *Inspection) slices() []*slice {
	return slices.SortedFunc(maps.Values(i.b.mu.slices), func(x, y *slice) int { return cmp.Compare(x.num, y.num) })
}

// Verify recounts the stored rows as [Buffer.Verify]. Without InspectOptions.Staging it takes the rows of uploaded slices
// from the ledger.
func (i *Inspection) Verify(ctx context.Context) (Report, error) {
	return i.b.verify(ctx, func(read func()) error {
		read() // nothing changes it
		return nil
	})
}

// WriteRows writes the rows of a slice as CSV after a row with the names of the columns. Rows end with "\n" and every cell is
// quoted. It reads from the local level, or from InspectOptions.Staging if the slice was uploaded.
func (i *Inspection) WriteRows(ctx context.Context, w io.Writer, sliceID string) error {
	b := i.b
	list := i.slices()
	at := slices.IndexFunc(list, func(sl *slice) bool { return b.sliceID(sl) == sliceID })
	if at < 0 {
		return fmt.Errorf("%w %q; Inspection.Slices lists the slices", ErrUnknownSlice, sliceID)
	}
	sl := list[at]
	obj := b.object(sl)
	var stored io.ReadCloser
	var err error
	switch {
	case sl.rec.State == format.SliceWriting || sl.rec.State == format.SliceUploading:
		stored, err = (&sliceSource{b: b, slice: sl.num, obj: obj, ext: sl.rec.Extent()}).Open()
	case b.opts.Staging == nil:
		err = errors.New("its rows are no longer on the local level, and no staging store was given")
	default:
		stored, err = b.openStaged(ctx, obj, sl.rec.Object)
	}
	if err != nil {
		return fmt.Errorf("buffer: slice %s (%s): %w", sliceID, sl.rec.State, err)
	}
	rows, err := driver.Decode(obj.Encoding, stored)
	if err != nil {
		return fmt.Errorf("buffer: slice %s: %w", sliceID, err)
	}
	defer rows.Close()
	if _, err := w.Write(header(datatype.Names(sl.file.rec.Def.Table.Columns))); err != nil {
		return err
	}
	if _, err := io.Copy(w, rows); err != nil {
		return fmt.Errorf("buffer: slice %s: %w", sliceID, err)
	}
	return nil
}

// header is the row of the column names.
func header(columns []string) []byte {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
	}
	return []byte(strings.Join(quoted, ",") + "\n")
}
