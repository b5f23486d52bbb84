package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/importbench"
	"github.com/forebay/forebay/mapping"
)

// drain measures what an engine does after an outage. All rows wait on the local disk, in slices and files as the default conditions make
// them, and staging can be reached again when the measurement begins. It ends when the last row is in a committed snapshot.
func drain(ctx context.Context, folder string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := iceberg.Open(filepath.Join(folder, "lake"), iceberg.Options{})
	if err != nil {
		return nil, nil, err
	}
	staging := heldStaging{dir.Staging(filepath.Join(folder, "staging")), make(chan struct{})}
	engine, err := forebay.Open(filepath.Join(folder, "engine"), forebay.Options{Target: target, Staging: staging})
	if err != nil {
		return nil, nil, errors.Join(err, target.Close())
	}
	if err := fill(ctx, engine, in.File); err != nil {
		return nil, nil, errors.Join(err, engine.Close(), target.Close())
	}
	run := func() error {
		close(staging.reachable)
		return engine.FlushAll(ctx)
	}
	end := func() (int64, error) {
		err := engine.Close()
		rows, countErr := countAndClose(ctx, target)
		return rows, errors.Join(err, countErr)
	}
	return run, end, nil
}

// heldStaging takes slices as soon as it can be reached.
type heldStaging struct {
	*dir.StagingDir
	reachable chan struct{}
}

func (s heldStaging) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.reachable:
		return s.StagingDir.Put(ctx, obj, src)
	}
}

// fill stores the rows of a file as events of a source, and returns when they are on the local disk.
func fill(ctx context.Context, engine *forebay.Engine, f *driver.File) error {
	var columns mapping.Columns
	for _, c := range f.Table.Columns {
		opts := []mapping.ColumnOption{mapping.DataType(c.Type)}
		if c.Required {
			opts = append(opts, mapping.Required())
		}
		columns = append(columns, mapping.Path(c.Name, c.Name, opts...))
	}
	err := engine.Define(ctx, forebay.Source{ID: "bench", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{ID: f.Table.ID, Columns: columns}}}})
	if err != nil {
		return err
	}
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for more := true; more; {
		var batch []*mapping.Record
		for len(batch) < 1000 {
			if more = rows.Next(); !more {
				break
			}
			batch = append(batch, mapping.JSON(event(f.Table.Columns, rows.Cells())))
		}
		if _, err := engine.IngestBatch(ctx, "bench", batch); err != nil {
			return err
		}
	}
	return rows.Err()
}

// event writes cells as a JSON object.
func event(columns []datatype.Column, cells [][]byte) []byte {
	text := []byte{'{'}
	for i, cell := range cells {
		if cell == nil {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(append(append(text, '"'), columns[i].Name...), `":`...)
		switch columns[i].Type {
		case datatype.UUID, datatype.Timestamp, datatype.String: // no cell of the input needs an escape
			text = append(append(append(text, '"'), cell...), '"')
		default:
			text = append(text, cell...)
		}
	}
	return append(text, '}')
}
