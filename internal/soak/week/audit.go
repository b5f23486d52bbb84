package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// found is where an attempt of an event was found at a sink.
type found struct{ rows, records int }

// audit compares what clients and operator know with tables and quarantines.
type audit struct {
	load     *load
	operator *operator
	where    map[place]found

	events, rows, records, discarded, unconfirmed int
	lost, doubled, wrong                          int
	examples                                      []string
}

func newAudit(l *load, o *operator) *audit {
	return &audit{load: l, operator: o, where: map[place]found{}}
}

func (a *audit) example(format string, args ...any) {
	if len(a.examples) < 10 {
		a.examples = append(a.examples, fmt.Sprintf(format, args...))
	}
}

// incorrect notes something that should not be.
func (a *audit) incorrect(format string, args ...any) {
	a.wrong++
	a.example(format, args...)
}

// readTable checks each row of the table of a sink.
func (a *audit) readTable(ctx context.Context, db database, syntax driver.SQLSyntax, sink int) error {
	var names, exprs []string
	add := func(name string, t datatype.Type) {
		names, exprs = append(names, name), append(exprs, db.text(syntax.Quote(name), t))
	}
	add("id", datatype.String)
	if sink == typed {
		for _, f := range typedFields {
			add(f.name, f.typ)
		}
	} else {
		add("note", datatype.Untyped)
		add("ref", datatype.Untyped)
	}
	for day := range a.operator.grown {
		add(grown(day), [sinks]datatype.Type{datatype.Int64, datatype.Untyped}[sink])
	}
	return db.run(ctx, "SELECT "+strings.Join(exprs, ", ")+" FROM "+syntax.Table, func(cells []*string) {
		a.rows++
		if cells[0] == nil {
			a.incorrect("%s: a row without an id", sinkIDs[sink])
			return
		}
		n, attempt, err := parseID(*cells[0])
		if err != nil {
			a.incorrect("%s: a row of nobody: %v", sinkIDs[sink], err)
			return
		}
		at := place{sink, attempt, n}
		f := a.where[at]
		f.rows++
		a.where[at] = f
		a.checkRow(at, names[1:], cells[1:])
	})
}

// checkRow compares the cells of a row with the values of its event. All events of a table are in order, because the others get there when
// they are repaired.
func (a *audit) checkRow(at place, names []string, cells []*string) {
	id := eventID(at.n, at.attempt)
	if a.load.kind(at.n).sink() == at.sink && !a.operator.edited[at] {
		a.incorrect("%s: the row %s is there, and nobody has repaired the event", sinkIDs[at.sink], id)
	}
	values := map[string]value{}
	for _, v := range a.load.values(at.n) {
		values[v.name] = v
	}
	for i, name := range names {
		v := values[name]
		var day int
		_, extended := fmt.Sscanf(name, "x%d", &day)
		switch {
		case extended == nil && cells[i] == nil: // made before the table had the column
			if from := a.operator.grownAt[day-1]; from > 0 && at.n >= from {
				a.incorrect("%s: %s of the row %s is NULL, and the column is there since event %d", sinkIDs[at.sink], name, id, from)
			}
		case (cells[i] == nil) != v.isNull(), cells[i] != nil && *cells[i] != v.cell:
			got := "NULL"
			if cells[i] != nil {
				got = *cells[i]
			}
			a.incorrect("%s: %s of the row %s is %q, want %s", sinkIDs[at.sink], name, id, got, v.json)
		}
	}
}

// readQuarantine reads all records of the quarantine of a sink.
func (a *audit) readQuarantine(ctx context.Context, sink int) error {
	list, err := a.operator.list(ctx, sink, math.MaxInt)
	if err != nil {
		return err
	}
	for _, r := range list {
		_, n, attempt, err := a.operator.get(ctx, sink, r.RecordID)
		if err != nil {
			return fmt.Errorf("record %s of the quarantine of %s: %w", r.RecordID, sinkIDs[sink], err)
		}
		a.records++
		at := place{sink, attempt, n}
		f := a.where[at]
		f.records++
		a.where[at] = f
		if a.load.kind(n).sink() != sink {
			a.incorrect("%s: event %s is in quarantine (%s, %s), and is in order", sinkIDs[sink], eventID(n, attempt), r.Reason, r.Column)
		}
	}
	return nil
}

// compare looks where each event is.
func (a *audit) compare() {
	for n, attempt := range a.load.acked {
		if attempt == 0 {
			continue
		}
		a.events++
		for sink := range sinks {
			at := place{sink, int(attempt), uint64(n)}
			f, deleted := a.where[at], a.operator.deleted[at]
			if f.rows+f.records == 0 && deleted == 0 {
				a.lost++
				a.example("%s: event %s was acknowledged and is lost", sinkIDs[sink], eventID(at.n, at.attempt))
			}
			if f.rows+f.records == 0 && deleted != 0 {
				a.discarded++
			}
		}
	}
	for at, f := range a.where {
		n := f.rows + f.records
		if a.operator.deleted[at] == surely {
			n++
		}
		if n > 1 {
			a.doubled += n - 1
			a.example("%s: event %s is in %d rows and %d records (discarded: %v)", sinkIDs[at.sink], eventID(at.n, at.attempt), f.rows, f.records, a.operator.deleted[at] != 0)
		}
		acked := 0
		if at.n < uint64(len(a.load.acked)) {
			acked = int(a.load.acked[at.n])
		}
		switch {
		case acked == 0 || at.attempt > acked || at.attempt < 1:
			a.incorrect("%s: event %s was never sent", sinkIDs[at.sink], eventID(at.n, at.attempt))
		case at.attempt < acked:
			a.unconfirmed++
		}
	}
}

// err describes the failure.
func (a *audit) err() error {
	if a.lost+a.doubled+a.wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d lost, %d doubled, %d wrong:\n%s", a.lost, a.doubled, a.wrong, strings.Join(a.examples, "\n"))
}
