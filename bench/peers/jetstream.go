package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStream is a handler that responds when the stream has acknowledged the event, and a consumer that stores batches and acknowledges them
// afterwards. Server, handler and consumer share a process, without sockets between them, which is the cheapest way.
func jetStream(sync bool) func(place) error {
	return func(at place) error {
		s, err := server.NewServer(&server.Options{
			DontListen: true, JetStream: true, StoreDir: filepath.Join(at.Dir, "jetstream"), SyncAlways: sync, NoSigs: true, NoLog: true,
		})
		if err != nil {
			return err
		}
		s.Start()
		if !s.ReadyForConnections(time.Minute) {
			return errors.New("the server does not accept connections")
		}
		conn, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			return err
		}
		js, err := jetstream.New(conn)
		if err != nil {
			return err
		}
		ctx := context.Background()
		stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "events", Subjects: []string{"events"}, Retention: jetstream.WorkQueuePolicy})
		if err != nil {
			return err
		}
		consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: "rows", AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			return err
		}
		pool, err := openPool(at, 1)
		if err != nil {
			return err
		}
		go func() {
			for {
				if err := storeBatch(ctx, pool, consumer); err != nil {
					time.Sleep(100 * time.Millisecond)
				}
			}
		}()
		return serveBodies(at, func(ctx context.Context, body []byte) error {
			_, err := js.Publish(ctx, "events", body)
			return err
		})
	}
}

// storeBatch stores as many messages as the server gives a consumer by default. After an error it asks for the messages again a second later.
func storeBatch(ctx context.Context, pool *pgxpool.Pool, consumer jetstream.Consumer) error {
	batch, err := consumer.Fetch(1000, jetstream.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	var messages []jetstream.Msg
	var rows []row
	for m := range batch.Messages() {
		r, err := newRow(m.Data())
		if err != nil {
			return err
		}
		messages, rows = append(messages, m), append(rows, r)
	}
	if len(rows) == 0 {
		return batch.Error()
	}
	err = copyRows(ctx, pool, rows)
	for _, m := range messages {
		if err != nil {
			_ = m.NakWithDelay(time.Second)
		} else {
			_ = m.Ack() // a lost acknowledgement is a second delivery
		}
	}
	return err
}
