package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/pipebench"
)

// database is a warehouse, for the pipeline's scenarios.
func database(dir string) (pipebench.Database, error) {
	dir = filepath.Join(dir, "lake")
	return pipebench.Database{
		Name:  "iceberg",
		Reset: func(context.Context) error { return os.RemoveAll(dir) },
		Target: func(context.Context) (driver.Target, func() error, error) {
			target, err := iceberg.Open(dir, iceberg.Options{})
			if err != nil {
				return nil, nil, err
			}
			return target, target.Close, nil
		},
		Own:   func(ctx context.Context) (pipebench.Own, error) { return own(ctx, dir) },
		Count: func(ctx context.Context) (int64, error) { return query(ctx, dir, count) },
		Seen:  func(ctx context.Context) (int64, error) { return query(ctx, dir, total) },
	}, nil
}

// query asks the table through a separate catalog. An absent table has no rows.
func query(ctx context.Context, dir string, ask func(context.Context, *iceberg.Local) (int64, error)) (rows int64, err error) {
	target, err := iceberg.Open(dir, iceberg.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if rows, err = ask(ctx, target); errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace) {
		err = nil
	}
	return rows, err
}

// total returns the rows that the newest snapshot says to have.
func total(ctx context.Context, target *iceberg.Local) (int64, error) {
	tbl, err := target.Catalog().LoadTable(ctx, identifier())
	if err != nil || tbl.CurrentSnapshot() == nil {
		return 0, err
	}
	return strconv.ParseInt(tbl.CurrentSnapshot().Summary.Properties["total-records"], 10, 64)
}

// own appends to the table as a program of iceberg-go does, each second, or each event in a separate commit.
func own(ctx context.Context, dir string) (pipebench.Own, error) {
	target, err := iceberg.Open(dir, iceberg.Options{})
	if err != nil {
		return pipebench.Own{}, err
	}
	schema := iceberglib.NewSchema(0,
		iceberglib.NestedField{ID: 1, Name: "id", Type: iceberglib.PrimitiveTypes.UUID, Required: true},
		iceberglib.NestedField{ID: 2, Name: "received_at", Type: iceberglib.PrimitiveTypes.TimestampTz, Required: true},
		iceberglib.NestedField{ID: 3, Name: "user_id", Type: iceberglib.PrimitiveTypes.Int64, Required: true},
		iceberglib.NestedField{ID: 4, Name: "body", Type: iceberglib.PrimitiveTypes.String, Required: true},
	)
	if err := target.Catalog().CreateNamespace(ctx, identifier()[:1], nil); err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		return pipebench.Own{}, errors.Join(err, target.Close())
	}
	if _, err := target.Catalog().CreateTable(ctx, identifier(), schema); err != nil {
		return pipebench.Own{}, errors.Join(err, target.Close())
	}
	o := pipebench.EachSecond(func(events []pipebench.Event) error { return appendEvents(context.WithoutCancel(ctx), target, events) }, target.Close)
	var turn sync.Mutex // two commits at once would conflict, and one of them be made again
	o.InsertAlone = func(ctx context.Context, e pipebench.Event) error {
		turn.Lock()
		defer turn.Unlock()
		return appendEvents(ctx, target, []pipebench.Event{e})
	}
	return o, nil
}

func identifier() table.Identifier { return table.Identifier{"forebay", pipebench.Table} }

// appendEvents appends events in one commit.
func appendEvents(ctx context.Context, target *iceberg.Local, events []pipebench.Event) error {
	tbl, err := target.Catalog().LoadTable(ctx, identifier())
	if err != nil {
		return err
	}
	schema, err := table.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	if err != nil {
		return err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, e := range events {
		b.Field(0).(*extensions.UUIDBuilder).Append(e.ID)
		b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(e.At.UnixMicro()))
		b.Field(2).(*array.Int64Builder).Append(e.UserID)
		b.Field(3).(*array.StringBuilder).Append(e.Body)
	}
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{b.NewRecordBatch()})
	if err != nil {
		return err
	}
	defer rows.Release()
	_, err = tbl.Append(ctx, rows, nil)
	return err
}
