package format

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/trigger"
)

// Table is the destination of a sink's rows.
type Table struct {
	ID      string            // the name in the target
	Columns []datatype.Column // in the order of the cells
	Extend  bool              `json:",omitempty"` // the table may have other columns, too
	Target  string            `json:",omitempty"` // the name of its target, empty for the first
}

// Is reports whether t and o are one table of one target.
func (t Table) Is(o Table) bool { return t.ID == o.ID && t.Target == o.Target }

// Definition is the part of its sink's settings that a file keeps from the moment it is opened. It is immutable.
type Definition struct {
	// The fields have the meaning of buffer.SinkConfig. Defaults are filled in.
	Table    Table              `json:"table"`
	Encoding Encoding           `json:"encoding"`
	Upload   trigger.Conditions `json:"upload"`
	Import   trigger.Conditions `json:"import"`
	// Label is the name that the caller has for the definition.
	Label string `json:"label,omitempty"`
}

// Equal compares by value. Either may be nil.
func (d *Definition) Equal(o *Definition) bool {
	return d == o || d != nil && o != nil && d.Table.Is(o.Table) && slices.Equal(d.Table.Columns, o.Table.Columns) &&
		d.Table.Extend == o.Table.Extend && d.Encoding == o.Encoding && d.Upload == o.Upload && d.Import == o.Import && d.Label == o.Label
}

// Version returns the least version of the format that can hold the definition.
func (d *Definition) Version() int {
	if d.Table.Target != "" {
		return Targets // an earlier release would import into the first target
	}
	if d.Table.Extend || slices.ContainsFunc(d.Table.Columns, func(c datatype.Column) bool { return c != datatype.Column{Name: c.Name} }) {
		return Typed
	}
	return Oldest
}

// Count is a number of rows and their bytes before compression.
type Count struct {
	Rows  int64 `json:"rows"`  // rows
	Bytes int64 `json:"bytes"` // before compression
}

// Add adds rows.
func (c *Count) Add(rows, bytes int64) {
	c.Rows += rows
	c.Bytes += bytes
}

// Sink is the record of a sink. It holds the sink's ledger:
//
//	accepted = local + staging + Imported + Expired + Damaged + Discarded + Poison + Moved
type Sink struct {
	// ID and Def are as the user defined the sink last. Dropped is set while it is dropped.
	ID      string      `json:"id"`
	Def     *Definition `json:"def,omitempty"`
	Dropped bool        `json:"dropped,omitempty"`
	// Life counts how often the ledger was deleted or the keys of the sink ended. No counter decreases while Life is the same.
	Life int `json:"life,omitempty"`
	// KeysEnd is set if the next definition increases Life.
	KeysEnd bool `json:"keysEnd,omitempty"`
	// Sealed counts the accepted rows of all slices that were ever sealed. The counts of the open slice are in its last chunk.
	Sealed   Count `json:"sealed"`
	Imported Count `json:"imported"`
	Expired  Count `json:"expired"`
	Damaged  Count `json:"damaged,omitzero"`
	// Discarded counts the rows of discarded files.
	Discarded Count `json:"discarded,omitzero"`
	// Poison counts the rows that the target refused and that went to the quarantine, which counts them too.
	Poison Count `json:"poison,omitzero"`
	// Moved counts the rows of files that another engine has taken over.
	Moved Count `json:"moved,omitzero"`
	// FirstAt and LastAt are the acceptance times of the first and last imported row, Unix milliseconds.
	FirstAt int64 `json:"firstAt,omitempty"`
	LastAt  int64 `json:"lastAt,omitempty"`
	// StoredImported are the compressed bytes of imported files.
	StoredImported int64 `json:"storedImported,omitempty"`

	// Version counts the sets of columns of a table that grows, from 1. Mapping is the caller's data for the last set.
	Version int    `json:"version,omitempty"`
	Mapping []byte `json:"mapping,omitempty"`
	// Retired are the columns that the table has from earlier versions. Another table forgets them.
	Retired []Retired `json:"retired,omitempty"`
	// Refused says why a newer set of columns was refused, for people.
	Refused string `json:"refused,omitempty"`

	// Quarantine is the ledger of rejected records. It is apart from the ledger of rows, because a rejected record never was one.
	Quarantine Quarantine `json:"quarantine,omitzero"`

	// Positions are how far callers have come that make rows from something that they read in order, by name. Some may be an [ArrivingPosition].
	Positions map[string][]byte `json:"positions,omitempty"`

	// Revision counts the versions of the record. It tells a salvage which of two versions with equal counters is newer.
	Revision int64 `json:"revision,omitempty"`
}

// Quarantine is the state of a sink's quarantine in its record:
//
//	Added = records held + Replayed + Discarded + Expired + Lost
//
// A Count has the number of records in Rows, and their [Reject.Size] when they left in Bytes. Added counts the sizes of new records.
type Quarantine struct {
	// On is set while the sink takes rejected records. The bounds stay after that, because they hold for the existing records.
	On bool `json:"on,omitempty"`
	// MaxBytes, MaxRecords, MaxAge, DropOldest and HoldFiles have the meaning of buffer.QuarantineBounds. Defaults are filled in.
	MaxBytes   int64         `json:"maxBytes,omitempty"`
	MaxRecords int           `json:"maxRecords,omitempty"`
	MaxAge     time.Duration `json:"maxAge,omitempty"`
	DropOldest bool          `json:"dropOldest,omitempty"`
	HoldFiles  bool          `json:"holdFiles,omitempty"`

	// Added counts the records of all time, the others the records that left, by the way they left.
	Added     Count `json:"added,omitzero"`
	Replayed  Count `json:"replayed,omitzero"`  // became rows
	Discarded Count `json:"discarded,omitzero"` // on request
	Expired   Count `json:"expired,omitzero"`   // by age, or to make room
	Lost      Count `json:"lost,omitzero"`      // by damage
}

// Left returns how many records have left the quarantine.
func (q *Quarantine) Left() int64 {
	return q.Replayed.Rows + q.Discarded.Rows + q.Expired.Rows + q.Lost.Rows
}

// Reject is the head of a rejected record. The record itself has a separate key, because lists read heads alone.
type Reject struct {
	// ID is the id for callers, SinkID the sink, in case the sink's own record is lost.
	ID     string `json:"id"`
	SinkID string `json:"sink"`
	// At is when the record was rejected first, Unix milliseconds.
	At int64 `json:"at"`
	// Revision counts the changes of the head. Edit is the revision with which the record was edited last, 0 if it was never edited.
	Revision uint32 `json:"revision,omitempty"`
	Edit     uint32 `json:"edit,omitempty"`
	// Came and Edited are the bytes of the record as it arrived and as it was edited last.
	Came   int64 `json:"came"`
	Edited int64 `json:"edited,omitempty"`
	// Info is the caller's data for the record.
	Info []byte `json:"info,omitempty"`
	// Poison is set if the target has refused it as a row.
	Poison *Poison `json:"poison,omitempty"`
	// Moved is set if another engine has rejected it: ID is of that engine, and the number in the key is of this one.
	Moved bool `json:"moved,omitempty"`
	// From is set while the record arrives. It is not in the quarantine then.
	From *Arrival `json:"from,omitempty"`
}

// Arrival says from which instance a rejected record arrives, and who moves it, by the session and the epoch of the owner of that instance.
type Arrival struct {
	// Instance is the instance that the record comes from.
	Instance string `json:"instance"`
	// Session and Epoch are of the owner of that instance.
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
}

// ArrivingPosition is a position of another engine that does not belong to this one yet.
type ArrivingPosition struct {
	// From says who gives the position, and Value is the position of the other engine.
	From  Arrival `json:"from"`
	Value []byte  `json:"value"`
}

// RejectOverhead is the size that a rejected record counts in addition to its bytes, for the keys and the head without Info.
const RejectOverhead = 256

// Size is the size of the record in bounds and ledgers.
func (r *Reject) Size() int64 {
	return RejectOverhead + r.Came + r.Edited + int64(len(r.Info)) + r.Poison.size()
}

// Retired is a column that the last definition of a sink does not have.
type Retired struct {
	// Column is as its last version had it.
	Column datatype.Column `json:"column"`
	// Last is that version.
	Last int `json:"last"`
}

// Ended returns how many rows are no longer in local or staging.
func (s *Sink) Ended() Count {
	var sum Count
	for _, c := range []Count{s.Imported, s.Expired, s.Damaged, s.Discarded, s.Poison, s.Moved} {
		sum.Add(c.Rows, c.Bytes)
	}
	return sum
}

// ArrivingFile is a file of another engine that arrives in this one, with its slices. Its rows are in no ledger of this engine yet. When it has
// arrived, it gets new keys, and keeps its ids.
type ArrivingFile struct {
	// From is as in [Reject].
	From Arrival `json:"from"`
	// File and Slices are the records. File.Sink is the sink of this engine.
	File   File    `json:"file"`
	Slices []Slice `json:"slices"`
}

// Sum returns the totals of the slices.
func (a *ArrivingFile) Sum() (sum Tally) {
	for i := range a.Slices {
		sum.Add(a.Slices[i].Tally)
	}
	return sum
}

// ID returns the id of the file for drivers.
func (a *ArrivingFile) ID() string { return FileID(a.File.Instance, a.File.Number) }

// SliceState is the state of a slice.
type SliceState string

// The states of a slice, in the order in which it goes through them.
const (
	SliceWriting   SliceState = "writing"
	SliceUploading SliceState = "uploading"
	SliceUploaded  SliceState = "uploaded"
	SliceImported  SliceState = "imported"
)

// FileState is the state of a file.
type FileState string

// The states of a file. The last three end it.
const (
	FileWriting   FileState = "writing"
	FileClosing   FileState = "closing"
	FileImporting FileState = "importing"
	FileImported  FileState = "imported"
	FileExpired   FileState = "expired"
	FileDiscarded FileState = "discarded"
)

// ReasonSalvaged is the reason of files and slices that were open in a damaged store.
const ReasonSalvaged = "salvaged"

// Retry says how often an upload, import or clean-up has failed. Every change of state clears it.
type Retry struct {
	// Attempt counts the failures. Reason is the last one, and Permanent says that retrying alone is useless. FirstFailed is when the retention began,
	// zero while the options have no target for the file. After is the earliest time of the next attempt.
	Attempt     int       `json:"attempt,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Permanent   bool      `json:"permanent,omitempty"`
	FirstFailed time.Time `json:"firstFailed,omitzero"`
	LastFailed  time.Time `json:"lastFailed,omitzero"`
	After       time.Time `json:"after,omitzero"`
	// Refused is the first row that the target has named with the last failure, if that was its verdict about rows.
	Refused *RefusedRow `json:"refused,omitempty"`
}

// File is the record of a file.
type File struct {
	// Instance is the first part of the id. Empty means the name of the data directory. The two differ in a restored copy, which has
	// a new name, and the files that it found keep their ids.
	Instance string `json:"instance,omitempty"`
	// Number is the number in the id of a file that another engine has opened. 0 means the number in the key.
	Number uint64 `json:"number,omitempty"`
	// Leaving is set while the file moves to another engine. No call of a driver for it begins.
	Leaving bool `json:"leaving,omitempty"`
	// Copied is set when a checkpoint holds the file too. The owner of the other copy may then import it and delete the
	// staged objects.
	Copied bool   `json:"copied,omitempty"`
	Sink   uint32 `json:"sink"`
	// SinkID is the id of the sink, in case the sink's own record is lost.
	SinkID string `json:"sinkID,omitempty"`
	// Salvaged is set when the file was found in a damaged store. Its records may be older than its last external call.
	Salvaged bool `json:"salvaged,omitempty"`
	// Forgotten is set on a file that has ended and whose record is deleted together with its staged objects.
	Forgotten bool        `json:"forgotten,omitempty"`
	State     FileState   `json:"state"`
	Def       *Definition `json:"def"`
	Opened    time.Time   `json:"opened"`
	Closed    time.Time   `json:"closed,omitzero"`
	// Sealed is when the file began to wait for its import.
	Sealed   time.Time `json:"sealed,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	// Reason is the trigger that closed the file.
	Reason   string `json:"reason,omitempty"`
	Retry    Retry  `json:"retry,omitzero"`
	Progress []byte `json:"progress,omitempty"`
	// Split is set when the target has refused rows of it, or some were erased, and the others are imported.
	Split *Split `json:"split,omitempty"`
	// RowsRefused is set once the target has refused rows of the file.
	RowsRefused bool `json:"rowsRefused,omitempty"`
	// Patient is when the target first refused rows of the file for a cause that may pass by itself.
	Patient time.Time `json:"patient,omitzero"`
	// Tally is set when the file ends. Before, the totals are the sum of its slices.
	Tally
}

// Done reports whether the file has ended.
func (f *File) Done() bool {
	return f.State == FileImported || f.State == FileExpired || f.State == FileDiscarded
}

// Slice is the record of a slice.
type Slice struct {
	// Instance and Number are as in File.
	Instance string     `json:"instance,omitempty"`
	Number   uint64     `json:"number,omitempty"`
	File     uint64     `json:"file"`
	State    SliceState `json:"state"`
	Opened   time.Time  `json:"opened"`
	Closed   time.Time  `json:"closed,omitzero"`
	// Reason is the trigger that sealed the slice.
	Reason string `json:"reason,omitempty"`
	Retry  Retry  `json:"retry,omitzero"`
	// Tally is set when the slice is sealed. Before, the totals stand in its last chunk.
	Tally
	// Salvaged is set while it is not known whether a slice that was found in a damaged store is in staging already.
	Salvaged bool `json:"salvaged,omitempty"`
	// Chunks is the number of chunks that the slice was sealed with.
	Chunks uint32 `json:"chunks,omitempty"`
	// Lost counts the rows that were set aside because they were damaged; Tally does not contain them. Revision counts
	// how often that happened and is part of the id.
	Lost       Count        `json:"lost,omitzero"`
	LostChunks []ChunkRange `json:"lostChunks,omitempty"` // ascending
	Revision   uint32       `json:"revision,omitempty"`
	// Object is the checksum of the object in staging. It is zero before the upload, and for an object that a release without checksums stored.
	Object Checksum `json:"object,omitzero"`
	// Unreadable is when the disk first failed to read a chunk, or the object was first missing in staging. Otherwise it is zero.
	Unreadable time.Time `json:"unreadable,omitzero"`
	// Uncounted is set while Tally is a lower bound, because what counted the last rows is damaged.
	Uncounted bool `json:"uncounted,omitempty"`
}

// Extent returns which chunks the slice has.
func (s *Slice) Extent() Extent { return Extent{s.Chunks, s.LostChunks} }

// ChunkRange is a range of chunk numbers, both ends included.
type ChunkRange struct {
	// First and Last are numbers of chunks. Count is the rows and bytes of the range.
	First uint32 `json:"first"`
	Last  uint32 `json:"last"`
	Count
}

// Extent says which chunk numbers a slice has, the numbers below Chunks except the numbers in Lost. Chunks is 0 while the slice is open.
type Extent struct {
	// Chunks is an upper bound, Lost is left out.
	Chunks uint32
	Lost   []ChunkRange // ascending
}

// Next returns the first number from seq on that the slice may have, or false when there is none.
func (e Extent) Next(seq uint32) (uint32, bool) {
	for _, r := range e.Lost {
		if r.First <= seq && seq <= r.Last {
			seq = r.Last + 1
		}
	}
	return seq, e.Chunks == 0 || seq < e.Chunks
}

// Damage is the record of one place whose rows were lost. buffer.Damage has the same fields.
type Damage struct {
	ID         string    `json:"-"`                   // the key in hexadecimal digits
	SinkID     string    `json:"sink"`                // empty where it is not known, like the next two
	FileID     string    `json:"file"`                // of the file
	SliceID    string    `json:"slice"`               // of the slice before the damage was set aside
	FirstChunk int       `json:"firstChunk"`          // from 0, or -1 if not known
	LastChunk  int       `json:"lastChunk"`           // included
	Rows       int64     `json:"rows"`                // at least so many rows
	Bytes      int64     `json:"bytes"`               // of those rows before compression
	At         time.Time `json:"at"`                  // when it was found
	Reason     string    `json:"reason"`              // the damage
	Uncounted  bool      `json:"uncounted,omitempty"` // more rows may be lost than Rows says
	Store      string    `json:"store,omitempty"`     // the folder of a store that was set aside as a whole
	Data       []byte    `json:"data,omitempty"`      // what could be read of the first chunk
}

// Record is any of the records.
type Record interface {
	Sink | File | Slice | Damage | Reject | ArrivingFile | ArrivingPosition
}

// Encode encodes a record. It cannot fail, because records hold only strings, numbers and times of the years 0 to 9999.
func Encode[R Record](record *R) []byte {
	b, err := json.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("buffer: encode %T: %v", record, err))
	}
	return b
}

// Decode decodes a record. Unknown members are ignored, so a later release may add some.
func Decode[R Record](b []byte, record *R) error { return json.Unmarshal(b, record) }
