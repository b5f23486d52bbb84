package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
)

const tableID = "in.c-cluster.events"

// stored reads the table and returns how many rows it has of each id.
func stored(tables string) (map[string]int, error) {
	driver := dir.Tables(tables)
	columns, err := driver.Columns(tableID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := slices.Index(datatype.Names(columns), "id")
	if at < 0 {
		return nil, fmt.Errorf("the table %s has no column id", tableID)
	}
	rows := make(map[string]int)
	for cells, err := range driver.Cells(tableID) {
		if err != nil {
			return nil, err
		}
		rows[string(cells[at])]++
	}
	return rows, nil
}

// lacks counts the ids that are in no row.
func lacks(rows map[string]int, ids []string) (missing int) {
	for _, id := range ids {
		if rows[id] == 0 {
			missing++
		}
	}
	return missing
}

// audit compares the table with the clients' record.
type audit struct {
	rows, lost, duplicated, unconfirmed int
	// examples are some of the ids that are lost or doubled.
	examples []string
}

func compare(acked map[string]*process, rows map[string]int) audit {
	var a audit
	wrong := func(what, id string) {
		if len(a.examples) < 5 {
			a.examples = append(a.examples, what+" "+id)
		}
	}
	for id := range acked {
		if rows[id] == 0 {
			a.lost++
			wrong("lost", id)
		}
	}
	for id, n := range rows {
		a.rows += n
		if n > 1 {
			a.duplicated += n - 1
			wrong("doubled", id)
		}
		if _, ok := acked[id]; !ok {
			a.unconfirmed++
		}
	}
	return a
}
