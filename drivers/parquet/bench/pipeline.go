package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/pipebench"
)

// database is a folder of tables, for the pipeline's scenarios.
func database(dir string) pipebench.Database {
	lake := filepath.Join(dir, "lake")
	path := filepath.Join(lake, pipebench.Table)
	return pipebench.Database{
		Name:  "parquet",
		Reset: func(context.Context) error { return os.RemoveAll(lake) },
		Target: func(context.Context) (buffer.Target, func() error, error) {
			target, err := parquet.Tables(lake, parquet.Options{})
			return target, func() error { return nil }, err
		},
		Own:   func(context.Context) (pipebench.Own, error) { return own(path) },
		Count: func(context.Context) (int64, error) { return countRows(path) },
	}
}

// event is a row of the pipeline as a program gives it to the library.
type event struct {
	ID         uuid.UUID `parquet:"id,uuid"`
	ReceivedAt int64     `parquet:"received_at,delta,timestamp(microsecond)"`
	UserID     int64     `parquet:"user_id,delta"`
	Body       string    `parquet:"body"`
}

// second is what is written to one file.
type second struct {
	rows []event
	done chan struct{} // the file is durable, or err is set
	err  error
}

// own collects events and writes a file each second. Who stores an event waits for it: a file that is open has no footer, so nobody
// can read what a crash leaves of it.
func own(path string) (o pipebench.Own, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return o, err
	}
	var mu sync.Mutex
	open := &second{done: make(chan struct{})}
	end, ended := make(chan struct{}), make(chan struct{})
	write := func(n int) {
		mu.Lock()
		full := open
		open = &second{done: make(chan struct{})}
		mu.Unlock()
		if len(full.rows) > 0 {
			temp := filepath.Join(path, fmt.Sprintf("%06d.temp", n))
			if full.err = writeFile(temp, full.rows); full.err == nil {
				full.err = os.Rename(temp, filepath.Join(path, fmt.Sprintf("%06d.parquet", n)))
			}
		}
		close(full.done)
	}
	go func() {
		defer close(ended)
		each := time.NewTicker(time.Second)
		defer each.Stop()
		for n := 0; ; n++ {
			select {
			case <-each.C:
				write(n)
			case <-end:
				write(n)
				return
			}
		}
	}()
	store := func(ctx context.Context, events ...pipebench.Event) error {
		mu.Lock()
		in := open
		for _, e := range events {
			in.rows = append(in.rows, event{e.ID, e.At.UnixMicro(), e.UserID, e.Body})
		}
		mu.Unlock()
		select {
		case <-in.done:
			return in.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return pipebench.Own{
		Insert:      func(ctx context.Context, e pipebench.Event) error { return store(ctx, e) },
		InsertBatch: func(ctx context.Context, batch []pipebench.Event) error { return store(ctx, batch...) },
		Close:       func() error { close(end); <-ended; return nil },
	}, nil
}
