package buffer

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/forebay/forebay/trigger"
)

// The records of the store are JSON: they are written once a state change, not once a row, and a person can read them.

// definition is what a file keeps of its sink from the moment it is opened. It is immutable and compared by value.
type definition struct {
	Table    Table              `json:"table"`
	Encoding Encoding           `json:"encoding"`
	Upload   trigger.Conditions `json:"upload"`
	Import   trigger.Conditions `json:"import"`
}

func (d *definition) equal(o *definition) bool {
	return d == o || d != nil && o != nil && d.Table.ID == o.Table.ID && slices.Equal(d.Table.Columns, o.Table.Columns) &&
		d.Encoding == o.Encoding && d.Upload == o.Upload && d.Import == o.Import
}

// ledgerEntry counts rows and their bytes before compression.
type ledgerEntry struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
}

func (e *ledgerEntry) add(rows, bytes int64) {
	e.Rows += rows
	e.Bytes += bytes
}

// sinkRecord holds the ledger of a sink. Sealed counts the accepted rows of all slices that were ever sealed; those of
// the open slice stand in its last chunk.
type sinkRecord struct {
	ID      string      `json:"id"`
	Def     *definition `json:"def,omitempty"`
	Dropped bool        `json:"dropped,omitempty"`
	// Life counts the calls of [Buffer.Forget]: the ledger never goes down but with a new life.
	Life     int         `json:"life,omitempty"`
	Sealed   ledgerEntry `json:"sealed"`
	Imported ledgerEntry `json:"imported"`
	Expired  ledgerEntry `json:"expired"`
	Damaged  ledgerEntry `json:"damaged,omitzero"`
	// Discarded counts the rows of files that somebody gave up with Discard.
	Discarded ledgerEntry `json:"discarded,omitzero"`
	// FirstAt and LastAt are the acceptance times of the first and last imported row, Unix ms.
	FirstAt int64 `json:"firstAt,omitempty"`
	LastAt  int64 `json:"lastAt,omitempty"`
	// StoredImported are the compressed bytes of imported files.
	StoredImported int64 `json:"storedImported,omitempty"`
}

// SliceState is the state of a slice; see the package documentation.
type SliceState string

const (
	SliceWriting   SliceState = "writing"   // takes rows, on local disk
	SliceUploading SliceState = "uploading" // sealed, on local disk until it is in staging
	SliceUploaded  SliceState = "uploaded"  // in staging
	SliceImported  SliceState = "imported"  // its file has ended; the staged object is about to be deleted
)

// FileState is the state of a file; see the package documentation.
type FileState string

const (
	FileWriting   FileState = "writing"   // takes slices
	FileClosing   FileState = "closing"   // waits until all its slices are in staging
	FileImporting FileState = "importing" // waits for its import, or for the next attempt
	FileImported  FileState = "imported"  // its rows are in the table
	FileExpired   FileState = "expired"   // given up after Options.Retention
	FileDiscarded FileState = "discarded" // given up with Discard
)

// retryRecord is cleared by every state change.
type retryRecord struct {
	Attempt     int       `json:"attempt,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Permanent   bool      `json:"permanent,omitempty"`
	FirstFailed time.Time `json:"firstFailed,omitzero"`
	LastFailed  time.Time `json:"lastFailed,omitzero"`
	After       time.Time `json:"after,omitzero"`
}

type fileRecord struct {
	// Instance is the first part of the id. It need not be that of the data directory: a restored copy has a new instance,
	// and the files that it found keep their ids. Empty: that of the data directory.
	Instance string `json:"instance,omitempty"`
	// Copied is set when a checkpoint holds the file too. Then the owner of the other copy may import it and delete the
	// staged objects.
	Copied bool   `json:"copied,omitempty"`
	Sink   uint32 `json:"sink"`
	// SinkID is the id of the sink, should its own record be lost.
	SinkID string `json:"sinkID,omitempty"`
	// Salvaged is set when the file was found in a damaged store: its records may be older than what was done.
	Salvaged bool `json:"salvaged,omitempty"`
	// Forgotten is set on a file that has ended, whose record goes with its staged objects: see [Buffer.Forget].
	Forgotten bool        `json:"forgotten,omitempty"`
	State     FileState   `json:"state"`
	Def       *definition `json:"def"`
	Opened    time.Time   `json:"opened"`
	Closed    time.Time   `json:"closed,omitzero"`
	Sealed    time.Time   `json:"sealed,omitzero"` // importing since
	Finished  time.Time   `json:"finished,omitzero"`
	Reason    string      `json:"reason,omitempty"`
	Retry     retryRecord `json:"retry,omitzero"`
	Progress  []byte      `json:"progress,omitempty"`
	// Totals are set when the file ends, for the history; before, they are those of the slices.
	Rows   int64 `json:"rows,omitempty"`
	Raw    int64 `json:"raw,omitempty"`
	Stored int64 `json:"stored,omitempty"`
	First  int64 `json:"first,omitempty"`
	Last   int64 `json:"last,omitempty"`
}

type sliceRecord struct {
	// Instance is as in fileRecord.
	Instance string `json:"instance,omitempty"`

	File   uint64      `json:"file"`
	State  SliceState  `json:"state"`
	Opened time.Time   `json:"opened"`
	Closed time.Time   `json:"closed,omitzero"`
	Reason string      `json:"reason,omitempty"`
	Retry  retryRecord `json:"retry,omitzero"`
	// Totals are set when the slice is sealed; before, they stand in its last chunk.
	Rows   int64 `json:"rows,omitempty"`
	Raw    int64 `json:"raw,omitempty"`
	Stored int64 `json:"stored,omitempty"`
	First  int64 `json:"first,omitempty"`
	Last   int64 `json:"last,omitempty"`
	// Salvaged is set until it is known whether a slice that was found in a damaged store is in staging already.
	Salvaged bool `json:"salvaged,omitempty"`
	// Chunks is the number of chunks that the slice was sealed with.
	Chunks uint32 `json:"chunks,omitempty"`
	// Lost is what was set aside because it was damaged; the totals do not contain it. Revision counts how often that
	// happened, and is a part of the id.
	Lost       ledgerEntry  `json:"lost,omitzero"`
	LostChunks []chunkRange `json:"lostChunks,omitempty"` // ascending
	Revision   uint32       `json:"revision,omitempty"`
	// Unreadable is when the disk first gave an error for a chunk; zero since it gives them back.
	Unreadable time.Time `json:"unreadable,omitzero"`
	// Uncounted is set while the totals are a lower bound: what counted the last rows is damaged.
	Uncounted bool `json:"uncounted,omitempty"`
}

// chunkRange are the numbers of neighbouring chunks, both ends inside.
type chunkRange struct {
	First uint32 `json:"first"`
	Last  uint32 `json:"last"`
	ledgerEntry
}

// extent says which numbers of chunks a slice has: below chunks, when it is sealed (else chunks is 0), without those
// that were set aside.
type extent struct {
	chunks uint32
	lost   []chunkRange
}

func (r *sliceRecord) extent() extent { return extent{r.Chunks, r.LostChunks} }

// next returns the first number from seq on that there may be; false when there is none.
func (e extent) next(seq uint32) (uint32, bool) {
	seq = skipLost(seq, e.lost)
	return seq, e.chunks == 0 || seq < e.chunks
}

// skipLost returns the first number from next on that is not in one of the ranges.
func skipLost(next uint32, lost []chunkRange) uint32 {
	for _, r := range lost {
		if r.First <= next && next <= r.Last {
			next = r.Last + 1
		}
	}
	return next
}

func (r *sliceRecord) tally() tally {
	return tally{rows: r.Rows, raw: r.Raw, stored: r.Stored, first: r.First, last: r.Last}
}

func (r *sliceRecord) setTally(t tally) {
	r.Rows, r.Raw, r.Stored, r.First, r.Last = t.rows, t.raw, t.stored, t.first, t.last
}

func (r *fileRecord) tally() tally {
	return tally{rows: r.Rows, raw: r.Raw, stored: r.Stored, first: r.First, last: r.Last}
}

func (r *fileRecord) setTally(t tally) {
	r.Rows, r.Raw, r.Stored, r.First, r.Last = t.rows, t.raw, t.stored, t.first, t.last
}

// encodeRecord cannot fail: the records hold only strings, numbers and times of years 0 to 9999.
func encodeRecord(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("buffer: encode %T: %v", v, err))
	}
	return b
}
