package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/forebaytest"
	"github.com/forebay/forebay/mapping"
)

// broker is a queue whose messages are sent again, in turn, until they are acknowledged.
type broker struct {
	mu       sync.Mutex
	waiting  []string
	held     int        // unacknowledged messages
	answered *sync.Cond // nil before the first message
	sent     int
	loseAcks int
	dead     []string
}

func (b *broker) next(context.Context) (Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answered == nil {
		b.answered = sync.NewCond(&b.mu)
	}
	for len(b.waiting) == 0 && b.held > 0 { // one of them may be sent again
		b.answered.Wait()
	}
	if len(b.waiting) == 0 {
		return Message{}, io.EOF
	}
	b.held++
	body := b.waiting[0]
	b.waiting = b.waiting[1:]
	b.sent++
	return Message{
		ID: "id of " + body, Body: []byte(body),
		Ack: func() error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.held--
			b.answered.Broadcast()
			if b.loseAcks > 0 {
				b.loseAcks--
				b.waiting = append(b.waiting, body)
			}
			return nil
		},
		Reject: func() error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.held--
			b.answered.Broadcast()
			b.dead = append(b.dead, body)
			return nil
		},
	}, nil
}

func numbers() forebay.Source {
	return forebay.Source{ID: "queue", Sinks: []forebay.Sink{{
		ID: "numbers", Table: forebay.Table{ID: "numbers", Columns: mapping.Columns{mapping.Path("n", "n"), mapping.Body("body")}},
	}}}
}

// Messages that are sent again are stored once, and messages that cannot be mapped go to the dead letters.
func TestQueue(t *testing.T) {
	eng, rows := open(t, numbers())
	b := &broker{loseAcks: 30, waiting: []string{`{"m":1}`}}
	var want []string
	for n := range 100 {
		want = append(want, fmt.Sprint(n))
		b.waiting = append(b.waiting, fmt.Sprintf(`{"n":%d}`, n))
	}
	if err := Drain(t.Context(), eng, "queue", 8, b.next); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var got []string
	for _, row := range rows("numbers") {
		got = append(got, row[0])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || b.sent != 131 || !slices.Equal(b.dead, []string{`{"m":1}`}) {
		t.Errorf("got %d rows, %d messages sent, dead letters %q, want all rows, 131, {\"m\":1}: %q", len(got), b.sent, b.dead, got)
	}
}

// full returns an engine whose table is away and whose disk has room for a part of the 2000 messages of the broker.
func full(t *testing.T) (*forebaytest.Kit, *broker) {
	kit := forebaytest.New(t, forebay.Options{Buffer: buffer.Tuning{MaxSinkBytes: 1 << 20}}, numbers())
	kit.Fail(buffertest.OpImport, 100)
	b := new(broker)
	random := uint64(1)
	for n := range 2000 {
		body := make([]byte, 1500)
		for i := range body {
			random = random*6364136223846793005 + 1442695040888963407
			body[i] = "0123456789abcdefghijklmnopqrstuv"[random>>59] // little to compress
		}
		b.waiting = append(b.waiting, fmt.Sprintf(`{"n":%d,"x":"%s"}`, n, body))
	}
	return kit, b
}

// When the queue ends, workers that wait for room store the messages that they hold.
func TestQueueEndsWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit, b := full(t)
		err := Drain(t.Context(), kit.Engine(), "queue", 2001, func(context.Context) (Message, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.waiting) == 0 {
				return Message{}, io.EOF
			}
			body := b.waiting[0]
			b.waiting = b.waiting[1:]
			return Message{ID: body, Body: []byte(body), Ack: func() error {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.sent++
				return nil
			}}, nil
		})
		if !errors.Is(err, io.EOF) || b.sent != 2000 {
			t.Errorf("%d of 2000 messages were acknowledged: %v", b.sent, err)
		}
		kit.StepImport()
		if n := len(kit.Rows("numbers")); n != 2000 {
			t.Errorf("got %d rows, want 2000", n)
		}
	})
}

// While the table is away and the disk is full, messages stay in the queue. When it is back all of them arrive.
func TestQueueWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit, b := full(t)
		ended := make(chan error, 1)
		go func() { ended <- Drain(t.Context(), kit.Engine(), "queue", 8, b.next) }()
		synctest.Wait()
		if sent := b.sent; sent == 0 || sent == 2000 {
			t.Fatalf("%d messages were fetched while there was no room", sent)
		}
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		kit.StepImport()
		if n := len(kit.Rows("numbers")); n != 2000 {
			t.Errorf("got %d rows, want 2000", n)
		}
	})
}
