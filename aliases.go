package forebay

import (
	"github.com/forebay/forebay/erase"
	"github.com/forebay/forebay/quarantine"
	"github.com/forebay/forebay/replay"
	"github.com/forebay/forebay/shadow"
)

// The types of [SinkHandle.Shadow] are declared in package shadow.
type (
	// Shadow maps the records of a sink with a changed mapping too, and compares the rows.
	Shadow = shadow.Shadow
	// ShadowOptions bound a shadow. The zero value works.
	ShadowOptions = shadow.Options
	// ShadowReport is the result of a shadow.
	ShadowReport = shadow.Report
	// ShadowColumn is one column of a report.
	ShadowColumn = shadow.Column
	// ShadowExample is a record with different cells in one column.
	ShadowExample = shadow.Example
	// ShadowCell is the cell of one record.
	ShadowCell = shadow.Cell
	// ShadowRejection is a kind of rejection by one mapping.
	ShadowRejection = shadow.Rejection
	// ShadowEnd says why a shadow has ended.
	ShadowEnd = shadow.End
)

// The ends of a shadow.
const (
	// ShadowRuns means that the shadow has not ended.
	ShadowRuns = shadow.Runs
	// ShadowTime: ShadowOptions.For has passed.
	ShadowTime = shadow.Time
	// ShadowRecords: ShadowOptions.Records were compared.
	ShadowRecords = shadow.Records
	// ShadowClosed: [Shadow.Close] or [Engine.Close] was called.
	ShadowClosed = shadow.Closed
	// ShadowRedefined means that the sink got other columns, or it was disabled or removed.
	ShadowRedefined = shadow.Redefined
	// ShadowFailed means that a mapping panicked.
	ShadowFailed = shadow.Failed
)

var (
	// ErrShadowed is returned by [SinkHandle.Shadow] for a sink that has a shadow already.
	ErrShadowed = shadow.ErrShadowed
	// ErrTooManyShadows is returned by [SinkHandle.Shadow] while the engine has 8 shadows.
	ErrTooManyShadows = shadow.ErrTooManyShadows
)

// The types of [SinkHandle.Replay] are declared in package replay.
type (
	// ReplayOptions say what [SinkHandle.Replay] reads, and how fast.
	ReplayOptions = replay.Options
	// ReplayProgress is how far a run has come.
	ReplayProgress = replay.Progress
)

var (
	// ErrNoArchive is returned by [SinkHandle.Replay] and [Engine.EraseArchive] of an engine without Options.Archive.
	ErrNoArchive = replay.ErrNoArchive
	// ErrReplayRuns is returned by [SinkHandle.Replay] for a run that is in progress in this process.
	ErrReplayRuns = replay.ErrRuns
	// ErrOtherReplay is returned by [SinkHandle.Replay] for a run that has begun with another archive or time range. Nothing was stored.
	ErrOtherReplay = replay.ErrOther
	// ErrUnknownArchive is returned by [SinkHandle.Replay] for an archive that has no records if no defined source keeps it. Nothing was stored.
	ErrUnknownArchive = replay.ErrUnknownArchive
)

// The types of [SinkHandle.Quarantine] are declared in package quarantine.
type (
	// SinkQuarantine is the quarantine of one sink.
	SinkQuarantine = quarantine.Quarantine
	// QuarantineNote says who edits or discards records of a quarantine, and why.
	QuarantineNote = quarantine.Note
	// RejectedRecord is a record in the quarantine of a sink, without its content.
	RejectedRecord = quarantine.RejectedRecord
	// RejectedContent is a record in the quarantine with its content.
	RejectedContent = quarantine.Content
	// RejectedFilter selects records. A zero field selects all.
	RejectedFilter = quarantine.Filter
	// RejectedPage is a part of a quarantine. See [SinkQuarantine.Page].
	RejectedPage = quarantine.Page
	// ReplayResult counts what became of the records of a replay.
	ReplayResult = quarantine.ReplayResult
	// EditError is the error of an edit that does not fit a row that the target has refused.
	EditError = quarantine.EditError
)

// The types of [Engine.Erase] are declared in package erase.
type (
	// Match selects the records and rows of a person for [Engine.Erase].
	Match = erase.Match
	// EraseReport is what [Engine.Erase] has found and done.
	EraseReport = erase.Report
	// ErasedPlace is what [Engine.Erase] has found in one place.
	ErasedPlace = erase.Place
	// ErasedTable is a table that may have rows of the person. Erase does not change tables.
	ErasedTable = erase.Table
)

// The places of an [ErasedPlace].
const (
	// ErasedWaiting are rows of a sink in memory, on local disk and in staging.
	ErasedWaiting = erase.PlaceWaiting
	// ErasedQuarantine is the quarantine of a sink.
	ErasedQuarantine = erase.PlaceQuarantine
	// ErasedArchive are the raw records of an archive.
	ErasedArchive = erase.PlaceArchive
	// ErasedCopy is a checkpoint in the data directory, or a folder that was set aside there. Erase does not read it.
	ErasedCopy = erase.PlaceCopy
	// ErasedDamage is a record of damage, which may have bytes of rows. Erase does not read it.
	ErasedDamage = erase.PlaceDamage
	// ErasedKeys are the receipts of calls with a key.
	ErasedKeys = erase.PlaceKeys
)

// ErrEraseRuns is returned by [SinkHandle.Replay] during a call of [Engine.Erase], whose records the replay could read before they are erased.
var ErrEraseRuns = erase.ErrRuns
