package natsdriver

import (
	"context"
	"fmt"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go/jetstream"
)

// Records as the local level makes them, compared with the way without a local level, a message for each event, 1,024 in flight.
// Three servers in this process, each write synced.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{10_000, 100_000, changelog.PartBytes} {
		b.Run(fmt.Sprintf("record=%dB", size), func(b *testing.B) {
			l := newLog(b, 0, Options{MaxBytes: 1 << 30})
			instance := b.Name()[len("BenchmarkAppend/record="):]
			if err := l.Create(b.Context(), instance); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = l.Delete(context.Background(), instance) })
			w, err := l.Open(b.Context(), instance, marker(1, "node-1"))
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			data := string(make([]byte, size))
			var last changelog.Ticket
			b.SetBytes(int64(size))
			n := uint64(0)
			for b.Loop() {
				n++
				if last = w.Append(batch(1, n, data)); n%1000 == 0 { // the bound is not measured
					if p, err := last.Wait(b.Context()); err != nil {
						b.Fatal(err)
					} else if err := l.Trim(b.Context(), instance, p); err != nil {
						b.Fatal(err)
					}
				}
			}
			if _, err := last.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.Run("event=200B", func(b *testing.B) {
		l := newLog(b, 0, Options{MaxBytes: 1 << 30})
		js, err := jetstream.New(l.conn, jetstream.WithPublishAsyncMaxPending(1024))
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Create(b.Context(), "events"); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Delete(context.Background(), "events") })
		_, info, err := l.stream(b.Context(), "events")
		if err != nil {
			b.Fatal(err)
		}
		event := make([]byte, 200)
		b.SetBytes(int64(len(event)))
		var last jetstream.PubAckFuture
		for b.Loop() {
			if last, err = js.PublishAsync(owner{1, "node-1"}.subject(info), event, jetstream.WithStallWait(attempt)); err != nil {
				b.Fatal(err)
			}
		}
		select {
		case <-last.Ok():
		case err := <-last.Err():
			b.Fatal(err)
		}
		js.CleanupPublisher()
	})
}
