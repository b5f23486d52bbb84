package catalog

import (
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
)

// sinkCounts are counters of one sink in one instance.
type sinkCounts struct {
	Source    string           `json:"source"`
	Sink      string           `json:"sink"`
	Local     levelRecord      `json:"local,omitzero"`
	Staging   levelRecord      `json:"staging,omitzero"`
	Target    levelRecord      `json:"target,omitzero"`
	Expired   levelRecord      `json:"expired,omitzero"`
	Damaged   levelRecord      `json:"damaged,omitzero"`
	Discarded levelRecord      `json:"discarded,omitzero"`
	Rejected  map[string]int64 `json:"rejected,omitempty"`
	Refused   string           `json:"refused,omitempty"`
	// Quarantine is left out by releases without quarantines.
	Quarantine quarantineRecord `json:"quarantine,omitzero"`
	Files      []fileCounts     `json:"files,omitempty"`
}

// fileCounts is a [buffer.FileStats] without its table.
type fileCounts struct {
	ID          string           `json:"id"`
	State       buffer.FileState `json:"state"`
	OpenedAt    time.Time        `json:"openedAt,omitzero"`
	ClosedAt    time.Time        `json:"closedAt,omitzero"`
	ImportingAt time.Time        `json:"importingAt,omitzero"`
	FinishedAt  time.Time        `json:"finishedAt,omitzero"`
	Reason      string           `json:"reason,omitempty"`
	Slices      int              `json:"slices,omitempty"`
	Level       levelRecord      `json:"level"`
	Attempt     int              `json:"attempt,omitempty"`
	RetryReason string           `json:"retryReason,omitempty"`
	RetryAfter  time.Time        `json:"retryAfter,omitzero"`
	// Refused is left out by releases that cannot split a file on demand.
	Refused *rowRefused `json:"refused,omitempty"`
}

// rowRefused is a [driver.RowError].
type rowRefused struct {
	Row     int64  `json:"row"`
	Column  string `json:"column,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func newSinkCounts(st forebay.SinkStats) sinkCounts {
	n := sinkCounts{
		Source: st.Source, Sink: st.Sink, Rejected: st.Rejected, Refused: st.Refused, Quarantine: newQuarantineRecord(st.Quarantine),
		Local: levelRecord(st.Local), Staging: levelRecord(st.Staging), Target: levelRecord(st.Target),
		Expired: levelRecord(st.Expired), Damaged: levelRecord(st.Damaged), Discarded: levelRecord(st.Discarded),
	}
	for _, f := range st.Files {
		n.Files = append(n.Files, fileCounts{
			ID: f.ID, State: f.State, OpenedAt: f.OpenedAt, ClosedAt: f.ClosedAt, ImportingAt: f.ImportingAt, FinishedAt: f.FinishedAt,
			Reason: f.Reason, Slices: f.Slices, Level: levelRecord(f.Level), Attempt: f.Attempt, RetryReason: f.RetryReason, RetryAfter: f.RetryAfter,
			Refused: (*rowRefused)(f.Refused),
		})
	}
	return n
}

func (f fileCounts) stats() buffer.FileStats {
	return buffer.FileStats{
		ID: f.ID, State: f.State, OpenedAt: f.OpenedAt, ClosedAt: f.ClosedAt, ImportingAt: f.ImportingAt, FinishedAt: f.FinishedAt,
		Reason: f.Reason, Slices: f.Slices, Level: buffer.Level(f.Level), Attempt: f.Attempt, RetryReason: f.RetryReason, RetryAfter: f.RetryAfter,
		Refused: (*driver.RowError)(f.Refused),
	}
}

// countsOf returns the counters of some sources.
func countsOf(sinks []forebay.SinkStats, sources []string) (list []sinkCounts) {
	for _, st := range sinks {
		if slices.Contains(sources, st.Source) {
			list = append(list, newSinkCounts(st))
		}
	}
	return list
}

// statisticsTimeout bounds how long statistics wait for other nodes.
const statisticsTimeout = 2 * time.Second
