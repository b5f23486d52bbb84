package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// newLedger has three acknowledged events, one of them at the second attempt.
func newLedger() *audit {
	e := events{seed: 1}
	l := &load{events: e, acked: []uint8{1, 2, 1}}
	return newAudit(l, &operator{events: e, edited: map[place]bool{}, deleted: map[place]certainty{}})
}

// Events that are lost, doubled or were never sent are distinguished from correct events.
func TestCompare(t *testing.T) {
	complete := func(a *audit) {
		for n, attempt := range a.load.acked {
			for sink := range sinks {
				a.where[place{sink, int(attempt), uint64(n)}] = found{rows: 1}
			}
		}
	}
	first, second := place{typed, 1, 0}, place{untyped, 2, 1}
	for name, c := range map[string]struct {
		change func(a *audit)
		want   string // lost, doubled, wrong, discarded, unconfirmed
	}{
		"in order":                              {func(*audit) {}, "0 0 0 0 0"},
		"in quarantine":                         {func(a *audit) { a.where[first] = found{records: 1} }, "0 0 0 0 0"},
		"lost":                                  {func(a *audit) { delete(a.where, first) }, "1 0 0 0 0"},
		"two rows":                              {func(a *audit) { a.where[second] = found{rows: 2} }, "0 1 0 0 0"},
		"a row and a record":                    {func(a *audit) { a.where[second] = found{rows: 1, records: 1} }, "0 1 0 0 0"},
		"discarded":                             {func(a *audit) { delete(a.where, first); a.operator.deleted[first] = surely }, "0 0 0 1 0"},
		"perhaps discarded":                     {func(a *audit) { delete(a.where, first); a.operator.deleted[first] = perhaps }, "0 0 0 1 0"},
		"perhaps discarded, and there":          {func(a *audit) { a.operator.deleted[first] = perhaps }, "0 0 0 0 0"},
		"discarded, and there":                  {func(a *audit) { a.operator.deleted[first] = surely }, "0 1 0 0 0"},
		"an attempt without an answer":          {func(a *audit) { a.where[place{typed, 1, 1}] = found{rows: 1} }, "0 0 0 0 1"},
		"an attempt without an answer, doubled": {func(a *audit) { a.where[place{typed, 1, 1}] = found{rows: 2} }, "0 1 0 0 1"},
		"an attempt that was never made":        {func(a *audit) { a.where[place{typed, 3, 1}] = found{rows: 1} }, "0 0 1 0 0"},
		"an event that never was":               {func(a *audit) { a.where[place{typed, 1, 3}] = found{rows: 1} }, "0 0 1 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newLedger()
			complete(a)
			c.change(a)
			a.compare()
			if got := fmt.Sprint(a.lost, a.doubled, a.wrong, a.discarded, a.unconfirmed); got != c.want || (a.err() != nil) != (a.lost+a.doubled+a.wrong > 0) {
				t.Errorf("got %s, want %s: %v", got, c.want, a.err())
			}
		})
	}
}

// A cell that is not the event's is found, and so is a NULL where the table has the column.
func TestCheckRow(t *testing.T) {
	var n uint64
	a := newLedger()
	values := a.load.values(n)
	for values[0].isNull() {
		n++
		values = a.load.values(n)
	}
	names := []string{values[0].name, grown(0)}
	at := place{typed, 1, n}
	for name, c := range map[string]struct {
		cells   []*string
		grownAt uint64
		wrong   int
	}{
		"right":                      {[]*string{&values[0].cell, new(last(values, grown(0)))}, n, 0},
		"before the column":          {[]*string{&values[0].cell, nil}, n + 1, 0},
		"nobody knows":               {[]*string{&values[0].cell, nil}, 0, 0},
		"the column is there":        {[]*string{&values[0].cell, nil}, max(n, 1), 1},
		"NULL":                       {[]*string{nil, nil}, 0, 1},
		"another value":              {[]*string{new(values[0].cell + "0"), nil}, 0, 1},
		"another value of the grown": {[]*string{&values[0].cell, new("-1")}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a.wrong, a.examples = 0, nil
			a.operator.grownAt[0] = c.grownAt
			if n == 0 && c.wrong == 1 && c.grownAt == 1 {
				t.Skip("the first event has no number before it")
			}
			a.checkRow(at, names, c.cells)
			if a.wrong != c.wrong {
				t.Errorf("%d cells are wrong, want %d: %q", a.wrong, c.wrong, a.examples)
			}
		})
	}
}

func last(values []value, name string) string {
	for _, v := range values {
		if v.name == name {
			return v.cell
		}
	}
	return ""
}

// The mapper makes of each event the cells that the comparison expects, refuses bad events, and accepts events that an operator has repaired.
func TestEvents(t *testing.T) {
	e := events{seed: seedtest.Of(t), bad: 0.1, poison: 0.1}
	kinds := map[kind]int{}
	var mappers [sinks]*mapping.Mapper
	for sink := range sinks {
		var err error
		if mappers[sink], err = mapping.Compile(columns(sink, maxDays), mapping.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range uint64(2000) {
		k := e.kind(n)
		kinds[k]++
		if !json.Valid(e.body(n, 1)) {
			t.Fatalf("event %d: %s", n, e.body(n, 1))
		}
		for sink, m := range mappers {
			refuses := false
			for _, c := range m.Cells(mapping.JSON(e.body(n, 1))) {
				refuses = refuses || c.Err != nil
			}
			if want := k == badAmount && sink == typed || k == noRef && sink == untyped; refuses != want {
				t.Errorf("event %d of kind %d is refused by %s: %v", n, k, sinkIDs[sink], refuses)
			}
			cells := m.Cells(mapping.JSON(e.bodyOf(n, 1, good)))
			values := map[string]value{"id": {json: "x", cell: eventID(n, 1)}}
			for _, v := range e.values(n) {
				values[v.name] = v
			}
			for _, c := range cells {
				if v := values[c.Column]; c.Err != nil || c.Null != v.isNull() || c.Value != v.cell {
					t.Errorf("event %d: %s is %+v, want %+v", n, c.Column, c, v)
				}
			}
		}
	}
	for k := good; k <= nul; k++ {
		if kinds[k] == 0 {
			t.Errorf("no event is of kind %d", k)
		}
	}
	if n, attempt, err := parseID(eventID(7, 12)); n != 7 || attempt != 12 || err != nil {
		t.Error(n, attempt, err)
	}
	if _, _, err := parseID("7-1"); err == nil || !strings.Contains(err.Error(), "7-1") {
		t.Error(err)
	}
}
