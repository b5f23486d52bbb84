package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/pipebench"
)

// database is a folder of tables, for the pipeline's scenarios.
func database(dir string) (pipebench.Database, error) {
	lake := filepath.Join(dir, "lake")
	path := filepath.Join(lake, pipebench.Table)
	return pipebench.Database{
		Name:  "parquet",
		Reset: func(context.Context) error { return os.RemoveAll(lake) },
		Target: func(context.Context) (driver.Target, func() error, error) {
			target, err := parquet.Tables(lake, parquet.Options{})
			return target, func() error { return nil }, err
		},
		Own:   func(context.Context) (pipebench.Own, error) { return own(path) },
		Count: func(context.Context) (int64, error) { return countRows(path) },
	}, nil
}

// event is a row of the pipeline as a program gives it to the library.
type event struct {
	ID         uuid.UUID `parquet:"id,uuid"`
	ReceivedAt int64     `parquet:"received_at,delta,timestamp(microsecond)"`
	UserID     int64     `parquet:"user_id,delta"`
	Body       string    `parquet:"body"`
}

// own writes a file each second. A file that is open has no footer, so no reader can use it after a crash.
func own(path string) (o pipebench.Own, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return o, err
	}
	var files atomic.Int64
	write := func(events []pipebench.Event) error {
		rows := make([]event, len(events))
		for i, e := range events {
			rows[i] = event{e.ID, e.At.UnixMicro(), e.UserID, e.Body}
		}
		name := filepath.Join(path, fmt.Sprintf("%06d", files.Add(1)))
		if err := writeFile(name+".temp", rows); err != nil {
			return err
		}
		return os.Rename(name+".temp", name+".parquet")
	}
	o = pipebench.EachSecond(write, func() error { return nil })
	o.InsertAlone = func(_ context.Context, e pipebench.Event) error { return write([]pipebench.Event{e}) }
	return o, nil
}
