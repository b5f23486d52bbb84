package buffer

import (
	"maps"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/trigger"
)

// Level counts the rows of one level.
type Level struct {
	// Rows and their bytes: RawBytes as CSV, StoredBytes as they are stored (compressed).
	Rows, RawBytes, StoredBytes int64
	// FirstAt and LastAt are the times of acceptance of the first and last row, or zero when there are none.
	FirstAt, LastAt time.Time
}

func level(t format.Tally) Level {
	return Level{Rows: t.Rows, RawBytes: t.Raw, StoredBytes: t.Stored, FirstAt: format.Time(t.First), LastAt: format.Time(t.Last)}
}

// SliceState is the state of a slice. See the package documentation.
type SliceState string

const (
	SliceWriting   SliceState = "writing"   // accepts rows, on local disk
	SliceUploading SliceState = "uploading" // sealed, on local disk until it is in staging
	SliceUploaded  SliceState = "uploaded"  // in staging
	SliceImported  SliceState = "imported"  // its file has ended, and the staged object is about to be deleted
)

// FileState is the state of a file. See the package documentation.
type FileState string

const (
	FileWriting   FileState = "writing"   // takes slices
	FileClosing   FileState = "closing"   // waits until all its slices are in staging
	FileImporting FileState = "importing" // waits for its import, or for the next attempt
	FileImported  FileState = "imported"  // its rows are in the table
	FileExpired   FileState = "expired"   // given up after Tuning.Retention
	FileDiscarded FileState = "discarded" // given up with Discard
)

// SinkStats are the counters of one sink.
type SinkStats struct {
	// ID is the sink's.
	ID string
	// Dropped is set after Drop.
	Dropped bool
	// Accepted are the committed rows of all time, the sum of the levels, Expired, Damaged, Discarded and Poison. Rows of files that
	// have moved from another engine are included, and rows that have moved to another engine are not.
	Accepted int64
	// Unstored are rows since Open that Append took into memory and that the disk did not take, because it failed. Who
	// waited for them was told with a [*FailedError], and who did not (SyncUnsafe) was not. They are not in Accepted.
	Unstored int64
	// Local, Staging and Target are the rows on each level now. Target counts every row ever imported.
	Local, Staging, Target Level
	// Expired are rows that were given up after Tuning.Retention.
	Expired Level
	// Damaged are rows that the disk did not give back; [Buffer.Damaged] lists them.
	Damaged Level
	// Discarded are rows of files given up with Discard.
	Discarded Level
	// Poison are rows that the target refused and that went to the quarantine.
	Poison Level
	// Slices counts the slices by state.
	Slices map[SliceState]int
	// Files are the files that are not imported yet and the last that ended, oldest first.
	Files []FileStats
	// Arriving counts the files of another engine that are about to belong to this one. See [Moves.ReceiveFiles]. They are not among Files.
	Arriving int
	// WaitingBytes are the bytes that count against Tuning.MaxSinkBytes.
	WaitingBytes int64
	// RefusingSince is when the first call was refused since they have reached Tuning.MaxSinkBytes. It is zero if none was, or if there is room. An
	// engine that was opened again counts from its own first refusal.
	RefusingSince time.Time
	// Table is the table of new rows. The caller must not modify its columns.
	Table driver.Table
	// Upload and Import are the conditions of new rows, complete, and zero before the first definition.
	Upload, Import trigger.Conditions
	// Version counts the sets of columns that a table with Table.Extend has had, from 1. Retired are the columns that only earlier
	// ones have. They are NULL in new rows.
	Version int
	Retired []datatype.Column
	// Refused is copied from [SinkConfig].
	Refused string
	// Quarantine are the counters of rejected records.
	Quarantine QuarantineStats
}

// FileStats describe one file.
type FileStats struct {
	// ID is the id that drivers see.
	ID string
	// State is the state now. The times say when it was entered, zero when it was not.
	State                                       FileState
	OpenedAt, ClosedAt, ImportingAt, FinishedAt time.Time
	// Reason is the trigger that closed the file.
	Reason string
	// Slices is the number of slices that still exist.
	Slices int
	// Level are the totals.
	Level Level
	// Table is the table of its rows, as it was defined when the file was opened. The caller must not modify its columns.
	Table driver.Table
	// Attempt is the number of failed attempts in this state, RetryReason the last failure, RetryAfter the time of
	// the next attempt. They refer to the import, and before it to the upload of a slice.
	Attempt     int
	RetryReason string
	RetryAfter  time.Time
	// FirstFailed is the time of the first of these attempts, from which Tuning.Retention counts. It is zero without an attempt, and while the options
	// have no target for the file. Permanent says that retrying alone is useless, because an operator must fix the cause. Both are false and zero
	// for a file that waits because a different file has failed.
	FirstFailed time.Time
	Permanent   bool
	// UploadAt is when the interval of step 1 ends for the slice that gathers rows, ImportAt when the interval of step 2 ends for the
	// file that gathers slices. Both are zero when nothing waits for an interval. Other conditions may be met earlier.
	UploadAt, ImportAt time.Time
	// Poison counts the rows that the target has refused, of a file that is imported without them. Until the file ends, its imported rows
	// count as staging.
	Poison int64
	// Refused is the first row that the target has refused with the last attempt, or nil if it has failed for another reason. The file can be
	// split or go to the quarantine. See [SinkHandle.SplitFile] and [SinkHandle.QuarantineFile].
	Refused *driver.RowError
	// CallSince is when the call of Target.Import that runs now began, or zero while none runs.
	CallSince time.Time
	// Leased says that the file waits because another node imports. See [driver.Leases]. RetryReason names the node if no attempt has failed.
	Leased bool
}

// Stats are the counters of a buffer.
type Stats struct {
	// PendingBytes are row bytes in memory, LocalBytes stored bytes on the local level.
	PendingBytes, LocalBytes int64
	// StoreBytes is the size of the local level's files, in allocated blocks as du counts them. It covers the stored bytes, the
	// overhead of logs and tables, and the bytes that wait to be reclaimed. Folders that were set aside after damage are
	// not in it.
	StoreBytes int64
	// StagedBytes are the bytes in staging that wait for an import. With PendingBytes and LocalBytes they count against MaxDiskBytes.
	StagedBytes int64
	// MaxPendingBytes, MaxDiskBytes and MaxSinkBytes are the bounds of the [Tuning], with defaults. If the volume has less room,
	// MaxDiskBytes is the LocalBytes at which the volume is full.
	MaxPendingBytes, MaxDiskBytes, MaxSinkBytes int64
	// Damages is the number of records of damage. See [Buffer.Damaged].
	Damages int64
	// OverloadsMemory and OverloadsDisk count the calls of Append that were refused since Open.
	OverloadsMemory, OverloadsDisk int64
	// RefusingSince is when the first call was refused because of Tuning.MaxDiskBytes or a full volume. Zero means that no call was refused, or a
	// sixteenth of MaxDiskBytes is free again.
	RefusingSince time.Time
	// Keys is the number of keys of calls that are known, KeyBytes what their receipts take on disk before its compression.
	// See [Buffer.Claim]. KeysForgotten counts the keys since Open that a bound has made the buffer forget before
	// Tuning.KeyRetention was over.
	Keys, KeyBytes, KeysForgotten int64
	// KeysUntil is when the last of these keys is deleted, zero if there are none.
	KeysUntil time.Time
	// KeyRetention is how long keys are kept: Tuning.KeyRetention, with its default.
	KeyRetention time.Duration
	// Retention is how long a file that fails is kept from its first failure on: Tuning.Retention, with its default.
	Retention time.Duration
	// Commits, Uploads and Imports are how long they took. Commits end when they are on disk, and in the changelog if there is one. Uploads and
	// Imports are calls of Staging.Put and Target.Import that have succeeded.
	Commits, Uploads, Imports Latency
	// Sinks are sorted by id.
	Sinks []SinkStats
}

// Stats returns the counters of all sinks. They may run ahead of the disk by the commit that is being written.
func (b *Buffer) Stats() Stats {
	st := Stats{
		PendingBytes: b.admission.pending.Load(), LocalBytes: b.admission.local.Load(),
		StagedBytes: b.admission.staged.Load(), MaxSinkBytes: b.opts.MaxSinkBytes,
		MaxPendingBytes: b.opts.MaxPendingBytes,
		KeyRetention:    b.opts.KeyRetention, Retention: b.opts.Retention,
		OverloadsMemory: b.admission.overloadsMemory.Load(), OverloadsDisk: b.admission.overloadsDisk.Load(),
	}
	st.MaxDiskBytes = b.admission.diskBound(st.LocalBytes)
	st.RefusingSince = format.Time(b.admission.refusing.Load())
	st.Commits, st.Uploads, st.Imports = b.tookCommits.load(), b.tookUploads.load(), b.tookImports.load()
	st.Damages = b.damages.Load()
	if store := b.store.Opening(); store.Read() == nil {
		st.StoreBytes, _ = store.Taken() // 0 while the disk cannot be read
		store.Release()
	}
	b.receipts.count(&st)
	b.mu.RLock()
	defer b.mu.RUnlock()
	// Sorted before they are made, because a SinkStats is large, and there may be thousands.
	st.Sinks = make([]SinkStats, 0, len(b.mu.sinks))
	for _, id := range slices.Sorted(maps.Keys(b.mu.sinks)) {
		st.Sinks = append(st.Sinks, b.sinkStats(b.mu.sinks[id]))
	}
	return st
}

// Stats returns the counters of the sink, or false when it was never defined.
func (h SinkHandle) Stats() (SinkStats, bool) {
	b, id := h.b, h.id
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.mu.sinks[id]
	if s == nil {
		return SinkStats{}, false
	}
	return b.sinkStats(s), true
}

func (b *Buffer) sinkStats(s *sinkState) SinkStats {
	var local, staging format.Tally
	st := SinkStats{ID: s.id, Dropped: s.rec.Dropped, Slices: make(map[SliceState]int)}
	if len(s.files) > 0 {
		st.Files = make([]FileStats, 0, len(s.files)) // one that grows is copied again and again with thousands of files
	}
	for _, f := range s.files {
		for _, sl := range f.slices {
			st.Slices[SliceState(sl.rec.State)]++
			switch sl.rec.State {
			case format.SliceWriting, format.SliceUploading:
				local.Add(sl.Tally)
			case format.SliceUploaded:
				staging.Add(sl.Tally)
			}
		}
		if !f.rec.Forgotten {
			st.Files = append(st.Files, b.fileStats(f))
		}
	}
	if s.rec.Def != nil {
		st.Table = tableOf(s.rec.Def)
		st.Upload, st.Import = s.rec.Def.Upload, s.rec.Def.Import
	}
	if st.WaitingBytes = s.room.waiting.Load(); st.WaitingBytes >= b.opts.MaxSinkBytes {
		st.RefusingSince = format.Time(s.room.refusing.Load())
	}
	st.Quarantine, st.Arriving = s.quarantineStats(), len(s.arrivingFiles)
	st.Version, st.Refused = s.rec.Version, s.rec.Refused
	for _, r := range s.rec.Retired {
		st.Retired = append(st.Retired, r.Column)
	}
	st.Accepted = s.accepted().Rows
	st.Unstored = s.unstored.Load()
	st.Local, st.Staging = level(local), level(staging)
	st.Target = Level{
		Rows: s.rec.Imported.Rows, RawBytes: s.rec.Imported.Bytes, StoredBytes: s.rec.StoredImported,
		FirstAt: format.Time(s.rec.FirstAt), LastAt: format.Time(s.rec.LastAt),
	}
	st.Expired = Level{Rows: s.rec.Expired.Rows, RawBytes: s.rec.Expired.Bytes}
	st.Damaged = Level{Rows: s.rec.Damaged.Rows, RawBytes: s.rec.Damaged.Bytes}
	st.Discarded = Level{Rows: s.rec.Discarded.Rows, RawBytes: s.rec.Discarded.Bytes}
	st.Poison = Level{Rows: s.rec.Poison.Rows, RawBytes: s.rec.Poison.Bytes}
	return st
}

// accepted is the left side of the ledger. Called with mu held.
func (s *sinkState) accepted() format.Count {
	e := s.rec.Sealed
	e.Add(-s.rec.Moved.Rows, -s.rec.Moved.Bytes)
	if s.slice != nil {
		e.Add(s.slice.Rows, s.slice.Raw)
	}
	return e
}

func (b *Buffer) fileStats(f *file) FileStats {
	st := FileStats{
		ID: b.fileID(f), State: FileState(f.rec.State), OpenedAt: f.rec.Opened, ClosedAt: f.rec.Closed, ImportingAt: f.rec.Sealed,
		FinishedAt: f.rec.Finished, Reason: f.rec.Reason, Slices: len(f.slices), Level: level(f.tally()),
		Table: tableOf(f.rec.Def), Attempt: f.rec.Retry.Attempt, RetryReason: f.rec.Retry.Reason, RetryAfter: f.rec.Retry.After,
	}
	if f.rec.Split != nil {
		st.Poison = f.rec.Split.Refused()
	}
	if !f.done() {
		if h := b.heldFile(f, st.ID); h != nil {
			st.Attempt, st.RetryReason, st.RetryAfter = h.Attempt, h.Err.Error(), h.RetryAfter
			st.FirstFailed, st.Permanent = h.firstFailed, h.permanent
			if r := f.rec.Retry.Refused; r != nil && st.Attempt > 0 && f.rec.State == format.FileImporting {
				st.Refused = new(driver.RowError(*r))
			}
		}
	}
	if f.rec.State == format.FileWriting {
		st.ImportAt = f.rec.Def.Import.Deadline(trigger.Load{Since: f.rec.Opened, Count: st.Level.Rows})
		if sl := f.sink.slice; sl != nil && sl.file == f {
			st.UploadAt = f.rec.Def.Upload.Deadline(trigger.Load{Since: sl.rec.Opened, Count: sl.Rows})
		}
	}
	if at := f.calling.Load(); at != 0 {
		st.CallSince = time.UnixMilli(at)
	}
	st.Leased = !f.done() && f.leased.Load() != nil
	return st
}

// Ready returns nil when the buffer can accept rows, a [*FailedError] while the local level is reopened, a [*FencedError] permanently once
// another owner has the changelog, and [ErrClosed] after Close. With Tuning.UnreadyWhenFull it returns an [*OverloadError] while the disk
// is full. Otherwise it does not check bounds.
func (b *Buffer) Ready() error {
	if b.ctx.Err() != nil {
		return ErrClosed
	}
	if f := b.failure(); f != nil {
		return f
	}
	if b.opts.UnreadyWhenFull {
		if over := b.admission.reserve(0, true); over != nil && over.Resource == "disk" {
			return over
		}
	}
	return nil
}
