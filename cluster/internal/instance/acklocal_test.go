package instance

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// putLocal sends rows for the sink with AckLocal, and notes which were acknowledged.
func (p *worldProcess) putLocal(i *Instance, rows int) (acked int) {
	w := p.w
	for ; acked < rows; acked++ {
		w.mu.Lock()
		w.sent++
		id := fmt.Sprint(w.sent)
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := i.Engine().Ingest(ctx, "l", mapping.JSON([]byte(`{"id":"`+id+`"}`)))
		cancel()
		if err != nil || !p.alive() {
			return acked
		}
		w.mu.Lock()
		w.local[id] = i.Keeper().Instance()
		w.mu.Unlock()
	}
	return acked
}

// said gathers what processes log.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

// The log is away, rows of a sink with AckLocal are acknowledged, and the process is killed. The next process appends the batches that the log lacks,
// unless another node was faster. Then those rows are void, and the node says how many. Without their disk they are lost.
func TestAckLocalWhileTheLogIsAway(t *testing.T) {
	const rows = 30
	for name, void := range map[string]int{"restarted": 0, "adopted": rows, "disk lost": rows} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, log := newWorld(t, 1), &said{}
				w.localSink, w.story, w.logs = true, testing.Verbose(), slog.NewTextHandler(log, nil)
				a, b := w.node("a"), w.node("b")
				p := a.start()
				i := p.opened()
				p.put(i, 51) // the last row waits for the log, which then has all rows
				instance := a.instance()
				heal := w.log.Cut(instance, 1, 2)
				if n := p.putLocal(i, rows); n != rows {
					t.Fatalf("%d of %d rows were acknowledged while the log is away, want %v", n, rows, rows)
				}
				a.kill(nil, name == "disk lost")
				if name != "restarted" {
					b.start()
				}
				heal()
				if name == "adopted" {
					w.await("another node has the instance", func() bool { return w.records()[instance].Node == "b" })
				}
				p = a.start()
				p.put(p.opened(), 50)
				if name == "restarted" {
					if now := a.instance(); now != instance {
						t.Errorf("instance %s goes on as %s", instance, now)
					}
				}
				w.settle()
				// A window of records may stand in the log of the replica that led, and come to the others when they are back.
				if w.void > void || w.void < void-2*changelog.Window {
					t.Errorf("%d rows are void, want %d", w.void, void)
				}
				told := "folder set aside with acknowledged rows"
				if log.has(told) != (name == "adopted") || log.has(told) && !log.has(fmt.Sprintf("rows_at_most=%d", rows)) {
					t.Errorf("the node says that rows are void: %v", log.has(told))
				}
			})
		})
	}
}

// What is appended again is in the log when Begin returns, because uploads and imports may begin then. A process that has only the copies of its
// local level appends those.
func TestBeginWaitsForTheLog(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLogged(t)
			if _, err := l.begin(0); err != nil {
				t.Fatal(err)
			}
			if err := l.append()(); err != nil {
				t.Fatal(err)
			}
			heard := l.cut(0, 0)
			l.append()
			l.append()
			synctest.Wait()
			close(heard)
			l.close()
			if again {
				l.batchLog = newLog(linkedLog{l.link, l.log}, l.keeper, "a", l.logger)
			} else {
				l.ctx, l.end = context.WithCancelCause(context.Background())
			}
			l.marks[3].Tail = func(yield func(buffer.LogBatch, error) bool) {
				for n := uint64(1); n <= 3 && again; n++ {
					if !yield(buffer.LogBatch{Number: n, Data: fmt.Appendf(nil, "%d ", n)}, nil) {
						return
					}
				}
			}
			slow := make(chan struct{})
			l.setHooks(func(call string) error {
				if call == "log append b" {
					<-slow
				}
				return nil
			}, nil)
			done := make(chan error)
			go func() {
				_, err := l.begin(3)
				done <- err
			}()
			synctest.Wait()
			select {
			case err := <-done:
				t.Errorf("copies %v: Begin returns before the log has batches 2 and 3: %v", again, err)
				close(slow)
			default:
				close(slow)
				if err := <-done; err != nil {
					t.Errorf("copies %v: %v", again, err)
				}
			}
			if err := l.append()(); err != nil {
				t.Error(err)
			}
			if got := l.content(); got != "1 2 3 4 " {
				t.Errorf("copies %v: the log has %q", again, got)
			}
		})
	}
}

// Copies are used only if none is missing.
func TestCopiesOfTheLastBatches(t *testing.T) {
	at := func(numbers ...uint64) buffer.LogPosition {
		return buffer.LogPosition{Number: 5, Tail: func(yield func(buffer.LogBatch, error) bool) {
			for _, n := range numbers {
				if !yield(buffer.LogBatch{Number: n, Data: fmt.Append(nil, n)}, nil) {
					return
				}
			}
		}}
	}
	for _, c := range []struct {
		numbers []uint64
		first   uint64
		want    string
	}{
		{[]uint64{3, 4, 5}, 4, "45"},
		{[]uint64{4, 5}, 4, "45"},
		{[]uint64{5}, 4, ""},
		{[]uint64{3, 4}, 4, ""},
		{[]uint64{3, 5}, 3, ""},
		{[]uint64{5}, 6, ""},
		{nil, 4, ""},
	} {
		found, err := copies(at(c.numbers...), c.first)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if found != nil {
			for data := range found {
				got += string(data)
			}
		}
		if got != c.want {
			t.Errorf("copies of %v from %d: %q, want %q", c.numbers, c.first, got, c.want)
		}
	}
	failed := buffer.LogPosition{Number: 5, Tail: func(yield func(buffer.LogBatch, error) bool) { yield(buffer.LogBatch{}, changelog.ErrUnknown) }}
	if _, err := copies(failed, 4); err == nil {
		t.Error("a copy that cannot be read is passed over")
	}
}
