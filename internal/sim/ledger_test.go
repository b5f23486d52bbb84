package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// ending is a file that was given up.
type ending struct {
	state buffer.FileState
	rows  int64
	parts int64           // rows of parts of it that the target has
	known map[string]bool // names of its rows, as far as staging got them
	// counted are the rows that its number of rows includes. An object that was put again without its damaged rows
	// counts as it was put last.
	counted map[string]bool
}

// nextRevision is the id of an object that is put again without rows that are damaged.
func nextRevision(id string) string {
	base, n, _ := strings.Cut(id, "-r")
	revision, _ := strconv.Atoi(n)
	return fmt.Sprintf("%s-r%d", base, revision+1)
}

// endings are the files of a sink that were given up.
func (r *run) endings(st buffer.SinkStats) map[string]*ending {
	list := map[string]*ending{}
	for _, f := range st.Files {
		if f.State == buffer.FileExpired || f.State == buffer.FileDiscarded {
			list[f.ID] = &ending{state: f.State, rows: f.Level.Rows, known: map[string]bool{}, counted: map[string]bool{}}
		}
	}
	for id, o := range r.out.ever {
		if e := list[o.file]; e != nil {
			_, again := r.out.ever[nextRevision(id)]
			for _, row := range o.rows {
				e.known[nameOf(row)] = true
				if !again {
					e.counted[nameOf(row)] = true
				}
			}
		}
	}
	return list
}

// checkLedger compares the ledger of a sink with its table and with the rows that were given up.
func (r *run) checkLedger(st buffer.SinkStats, inTable int64, ended map[string]*ending) {
	if len(st.Slices) > 0 {
		r.t.Errorf("sink %s has slices left: %v", st.ID, st.Slices)
	}
	if sum := st.Target.Rows + st.Expired.Rows + st.Damaged.Rows + st.Discarded.Rows + st.Poison.Rows; sum != st.Accepted {
		r.t.Errorf("sink %s: %d rows accepted, %d imported, %d expired, %d damaged, %d discarded, %d refused by the target",
			st.ID, st.Accepted, st.Target.Rows, st.Expired.Rows, st.Damaged.Rows, st.Discarded.Rows, st.Poison.Rows)
	}
	parts := int64(0) // of files that were given up. The result of their import may have been lost
	for _, f := range st.Files {
		if e := ended[f.ID]; e != nil {
			parts += e.parts
		}
	}
	if st.Target.Rows < inTable || st.Target.Rows > inTable+parts {
		r.t.Errorf("sink %s: the ledger has %d imported rows, the tables have %d, and %d of files that were given up", st.ID, st.Target.Rows, inTable, parts)
	}
	sum := map[buffer.FileState]int64{}
	open := map[buffer.FileState]int64{}
	count := map[buffer.FileState]int{}
	for _, f := range st.Files {
		if e := ended[f.ID]; e != nil {
			sum[e.state] += e.rows - f.Poison
			open[e.state] += e.parts
			count[e.state]++
		}
	}
	const listed = 31 // so many files of a kind stay in the list
	if n, most := st.Expired.Rows, sum[buffer.FileExpired]; (n > most || n < most-open[buffer.FileExpired]) && count[buffer.FileExpired] < listed {
		r.t.Errorf("sink %s: the ledger has %d expired rows, the files that expired %d", st.ID, n, most)
	}
	if n, most := st.Discarded.Rows, sum[buffer.FileDiscarded]; (n > most || n < most-open[buffer.FileDiscarded]) && count[buffer.FileDiscarded] < listed {
		r.t.Errorf("sink %s: the ledger has %d discarded rows, the files that were discarded %d", st.ID, n, most)
	}
	if count[buffer.FileDiscarded] > r.discards[st.ID] {
		r.t.Errorf("sink %s: %d files were discarded, by %d calls", st.ID, count[buffer.FileDiscarded], r.discards[st.ID])
	}
	for id, e := range ended {
		if e.state == buffer.FileExpired && !r.expired[id] && !r.anyCut() {
			r.t.Errorf("file %s expired, and nobody was told", id)
		}
	}
}

// anyCut reports whether a process of the run died, possibly before it logged its last actions.
func (r *run) anyCut() bool {
	for _, x := range r.rows {
		if !x.gone.IsZero() {
			return true
		}
	}
	return false
}

// eventHandler learns from the log when the local level failed, and which files expired.
type eventHandler struct {
	slog.Handler
	r *run
}

func (h eventHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h eventHandler) Handle(ctx context.Context, rec slog.Record) error {
	switch {
	case strings.HasPrefix(rec.Message, "store failed"):
		h.r.mu.Lock()
		h.r.failures = append(h.r.failures, time.Now())
		h.r.mu.Unlock()
	case strings.HasPrefix(rec.Message, "file expired"):
		rec.Attrs(func(a slog.Attr) bool {
			if a.Key == "file" {
				h.r.fileExpired(a.Value.String())
			}
			return true
		})
	}
	if !h.Handler.Enabled(ctx, rec.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, rec)
}

// fileExpired checks that a file expires no earlier than it may.
func (r *run) fileExpired(id string) {
	r.out.mu.Lock()
	first, refused := r.out.refused[id]
	r.out.mu.Unlock()
	r.mu.Lock()
	r.expired[id] = true
	r.mu.Unlock()
	switch age := time.Since(first); {
	case !refused:
		r.t.Errorf("file %s expired, and its import had never failed", id)
	case age < r.opts.Retention:
		r.t.Errorf("file %s expired %s after its first failure, it is kept for %s", id, age, r.opts.Retention)
	}
}

// checkPressure finds no bound half used. Faults are over, so the remaining rows gather, and pressure has moved the rest.
func (r *run) checkPressure() {
	share := r.opts.MaxSinkBytes
	if share == 0 {
		share = r.opts.MaxDiskBytes / 2
	}
	const margin = 8 << 10 // what one commit adds
	all := int64(0)
	for _, st := range r.gen.level.stats().Sinks {
		n := st.Local.StoredBytes + st.Staging.StoredBytes
		all += n
		if n > share/2+margin {
			r.t.Errorf("sink %s: %d bytes wait, half of its share is %d", st.ID, n, share/2)
		}
		for _, f := range st.Files {
			if f.Reason == trigger.Pressure.String() {
				r.sum.add("files: closed by pressure, listed at the end", 1)
			}
		}
	}
	if all > r.opts.MaxDiskBytes/2+margin {
		r.t.Errorf("%d bytes wait of all sinks, half of the bound is %d", all, r.opts.MaxDiskBytes/2)
	}
}

// drainAlone waits as long as the longest conditions and delays, and finds nothing that waits.
func (r *run) drainAlone() {
	r.tell("the rest is imported by its conditions alone")
	time.Sleep(70*time.Minute + r.opts.Retry.Max)
	synctest.Wait()
	for _, st := range r.gen.level.stats().Sinks {
		if st.Local.Rows+st.Staging.Rows > 0 {
			r.t.Errorf("sink %s: %d rows wait on local disk and %d in staging, longer than their conditions say",
				st.ID, st.Local.Rows, st.Staging.Rows)
		}
	}
}
