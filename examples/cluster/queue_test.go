package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/examples/recipes"
	"github.com/forebay/forebay/mapping"
)

// The recipe that drains a queue, with a real broker, a stream of JetStream. Acknowledgements are lost, the engine is closed in the middle and
// opened again, and each message becomes one row.
func TestDrainJetStream(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		ServerName: "queue", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	const messages, workers = 300, 16
	for n := range messages {
		if _, err := js.Publish(t.Context(), "orders", fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "forebay", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second, MaxAckPending: workers})
	if err != nil {
		t.Fatal(err)
	}

	data := filepath.Join(t.TempDir(), "data")
	source := forebay.Source{ID: "orders", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "orders", Columns: mapping.Columns{mapping.Path("n", "n"), mapping.Body("body")}},
	}}}
	var mu sync.Mutex
	answers := 0
	lost := make(map[string]bool) // messages whose first acknowledgement was lost
	var redelivered int
	drain := func(until int) {
		t.Helper()
		eng, err := forebay.Open(data, forebay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := eng.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := eng.Define(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := func(ctx context.Context) (recipes.Message, error) {
			for {
				msg, err := consumer.Next(jetstream.FetchMaxWait(time.Second))
				if ctx.Err() != nil {
					if err == nil {
						err = msg.Nak()
					}
					return recipes.Message{}, errors.Join(context.Cause(ctx), err)
				}
				if errors.Is(err, nats.ErrTimeout) {
					continue
				}
				if err != nil {
					return recipes.Message{}, err
				}
				place, err := msg.Metadata()
				if err != nil {
					return recipes.Message{}, err
				}
				id := fmt.Sprint(place.Stream, "/", place.Sequence.Stream)
				ack := func() error {
					mu.Lock()
					lose := place.Sequence.Stream%3 == 0 && !lost[id]
					if lose {
						lost[id] = true
					} else {
						answers++
					}
					if place.NumDelivered > 1 {
						redelivered++
					}
					if answers >= until {
						cancel()
					}
					mu.Unlock()
					if lose {
						return msg.Nak() // as the server itself does when it hears nothing for a while
					}
					return msg.DoubleAck(context.WithoutCancel(ctx))
				}
				return recipes.Message{ID: id, Body: msg.Data(), Ack: ack, Reject: msg.Term}, nil
			}
		}
		if err := recipes.Drain(ctx, eng, "orders", workers, next); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if until == messages {
			if err := eng.FlushAll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	drain(messages / 3)
	drain(messages)

	var got, want []string
	for row, err := range dir.Tables(filepath.Join(data, "tables")).Rows("orders") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row[0])
	}
	for n := range messages {
		want = append(want, fmt.Sprint(n))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %d rows of %d messages, want each once: %q", len(got), messages, got)
	}
	if redelivered < messages/3 {
		t.Errorf("got %d messages came again, want at least %d", redelivered, messages/3)
	}
}
