package main

import (
	"context"
	"errors"
	"time"
)

// batcher is a handler that responds when the event is in memory. One goroutine stores batches, and retries until the database accepts them. If a
// hundred batches wait, the handler refuses events.
func batcher(at place) error {
	pool, err := openPool(at, 1)
	if err != nil {
		return err
	}
	waiting := make(chan row, 100_000)
	go func() {
		for {
			rows := []row{<-waiting}
			for full := time.After(at.Batch.Every); full != nil && len(rows) < at.Batch.Rows; {
				select {
				case r := <-waiting:
					rows = append(rows, r)
				case <-full:
					full = nil
				}
			}
			for copyRows(context.Background(), pool, rows) != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return serveBodies(at, func(_ context.Context, body []byte) error {
		r, err := newRow(body)
		if err != nil {
			return err
		}
		select {
		case waiting <- r:
			return nil
		default:
			return errors.New("the memory is full")
		}
	})
}
