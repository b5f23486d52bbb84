package streamapi

import (
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

// replayBody is a [catalog.ReplaySpec].
type replayBody struct {
	Run           string  `json:"run" minLength:"1" maxLength:"48" doc:"Name of the run: a-z, 0-9, - and _. The same name continues where the run was interrupted; another name reads and stores everything again."`
	SourceID      string  `json:"sourceId,omitempty" doc:"Source whose archive is read, also one that was deleted. Default: the source of the sink."`
	From          string  `json:"from,omitempty" doc:"Earliest time of arrival, such as 2026-11-23T12:00:00Z. Default: everything."`
	To            string  `json:"to,omitempty" doc:"Time before which the records have arrived. Default: the start of the run."`
	RowsPerSecond float64 `json:"rowsPerSecond,omitempty" minimum:"0" doc:"Greatest number of rows in a second, on average. Default: no bound."`
}

// replayState is a [forebay.ReplayProgress].
type replayState struct {
	Run         string `json:"run" doc:"Name of the run; empty before it has begun."`
	SourceID    string `json:"sourceId" doc:"Source whose archive is read."`
	From        string `json:"from,omitempty" doc:"Earliest time of arrival in UTC with milliseconds; left out for everything."`
	To          string `json:"to,omitempty" doc:"Time before which the records have arrived."`
	BeganAt     string `json:"beganAt,omitempty" doc:"Time in UTC with milliseconds when the run began."`
	EndedAt     string `json:"endedAt,omitempty" doc:"Time in UTC with milliseconds when it was done; left out before."`
	Records     int64  `json:"records" doc:"Number of records that were read: stored, rejected, quarantined or skipped."`
	Stored      int64  `json:"stored" doc:"Number of records that have become rows."`
	Rejected    int64  `json:"rejected" doc:"Number of records that the columns cannot map."`
	Quarantined int64  `json:"quarantined" doc:"Number of records that went to the quarantine for the same reason."`
	Skipped     int64  `json:"skipped" doc:"Number of records whose signal the sink does not take."`
	Gone        int64  `json:"gone" doc:"Number of objects that the retention of the archive had removed."`
}

type replaysBody struct {
	SourceID string        `json:"sourceId" doc:"Id of the source."`
	SinkID   string        `json:"sinkId" doc:"Id of the sink."`
	Runs     []replayState `json:"runs" doc:"Runs in the order of their first start."`
}

func newReplay(p forebay.ReplayProgress) replayState {
	return replayState{
		Run: p.Run, SourceID: p.Archived, From: timeText(p.From), To: timeText(p.To), BeganAt: timeText(p.Began), EndedAt: timeText(p.Ended),
		Records: p.Records, Stored: p.Stored, Rejected: p.Rejected, Quarantined: p.Quarantined, Skipped: p.Skipped, Gone: p.Gone,
	}
}

func (a *api) replayArchive(c *request) (any, error) {
	b := c.body.(*replayBody)
	var p problems
	from, to := moment("body.from", b.From, &p), moment("body.to", b.To, &p)
	if err := p.err(); err != nil {
		return nil, err
	}
	a.noteChange(c.ctx, c, "the replay of an archive is starting")
	return a.task(c)(a.cat.ArchiveReplays(c.source, c.sink).Start(catalog.ReplaySpec{
		Run: b.Run, Archived: b.SourceID, From: from, To: to, RowsPerSecond: b.RowsPerSecond,
	}))
}

func (a *api) cancelReplay(c *request) (any, error) {
	a.noteChange(c.ctx, c, "the replay of an archive is cancelled")
	return a.task(c)(a.cat.ArchiveReplays(c.source, c.sink).Cancel())
}

func (a *api) listReplays(c *request) (any, error) {
	list, err := a.cat.ArchiveReplays(c.source, c.sink).Runs(c.ctx)
	if err != nil {
		return nil, err
	}
	return replaysBody{SourceID: c.source, SinkID: c.sink, Runs: convert(list, newReplay)}, nil
}
