package recipes

import (
	"context"
	"errors"
	"sync"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// A Message comes from a broker, which sends it again unless it is acknowledged in time.
type Message struct {
	// ID is the same when the message is sent again.
	ID   string
	Body []byte
	// Ack removes the message from the queue, Reject moves it to the dead letters.
	Ack, Reject func() error
}

// Drain moves the messages of a queue to a source until ctx ends or next fails. Each worker holds one message, so the broker has at
// most that many unacknowledged. All of them share an fsync. While there is no room, no worker fetches anything, and messages stay in the queue.
// When next fails, the other workers store their messages and end too.
func Drain(ctx context.Context, eng *forebay.Engine, source string, workers int, next func(context.Context) (Message, error)) error {
	fetch, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				m, err := next(fetch)
				if err == nil {
					err = store(ctx, eng, source, m)
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(fetch)
}

// store acknowledges a message when its row is on disk. Without an acknowledgement the broker sends it again, and the key keeps it single.
func store(ctx context.Context, eng *forebay.Engine, source string, m Message) error {
	_, err := eng.WaitForRoom().IngestOnce(ctx, source, forebay.Once{Key: m.ID}, []*mapping.Record{mapping.JSON(m.Body)})
	var rejected *mapping.Error
	var tooLarge *forebay.RowTooLargeError
	var failed *buffer.FailedError
	switch {
	case err == nil:
		return m.Ack()
	case errors.As(err, &rejected), errors.As(err, &tooLarge):
		return m.Reject()
	case errors.As(err, &failed): // the disk failed, and the engine repairs itself, so the broker sends the message again
		return nil
	}
	return err
}
