package buffer_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

// Many callers append a row at a time to many sinks, so that callers compress them. Every row goes to its table once and
// in the order of its sink, whatever rows come together in a commit.
func TestRowsOfManySinksGoToTheirTables(t *testing.T) {
	const (
		sinks  = 200
		rounds = 6
	)
	mem := buffertest.NewMemory()
	b := open(t, memoryOptions(mem))
	handles := make([]*buffer.Sink, sinks)
	for i := range handles {
		handles[i] = define(t, b, fmt.Sprintf("s%d", i))
	}
	value := strings.Repeat("the gate opens when the basin is full ", 30)
	next := make([]int, sinks)
	for round := range rounds {
		var callers sync.WaitGroup
		for i, s := range handles {
			from := next[i]
			if next[i]++; i%7 == round { // some sinks have more rows than the others
				next[i] += 2
			}
			callers.Go(func() {
				for id := from; id < next[i]; id++ {
					ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, value), Count: 1})
					if err == nil && id == next[i]-1 {
						err = ticket.Wait(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
	}
	verify(t, b)
	for i, s := range handles {
		if err := b.Flush(t.Context(), s.ID()); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, mem, "in.c-test."+s.ID(), 0, next[i])
	}
	verify(t, b)
}
