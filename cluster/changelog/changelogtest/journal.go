package changelogtest

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/forebay/forebay/cluster/changelog"
)

// Journal is a [changelog.Journal] in memory, for tests. It is safe for concurrent use.
type Journal struct {
	net     network
	trimmed changelog.Position // guarded by the lock of net, like the fields below
	entries [][]byte           // after trimmed
	changed chan struct{}      // closed and replaced at each append
}

var _ changelog.Journal = (*Journal)(nil)

// NewJournal returns a journal without entries. Equal seeds draw equal faults, if the calls happen in the same order. LostRequests,
// LateRequests, RepeatedRequests, LostResponses, Delay, Timeout and StaleReads apply to it.
func NewJournal(seed uint64, f Faults) *Journal {
	return &Journal{net: newNetwork(seed, f), changed: make(chan struct{})}
}

// SetFaults replaces the faults. Messages in flight keep the faults drawn for them.
func (j *Journal) SetFaults(f Faults) { j.net.setFaults(f) }

// last is the position of the last entry. The caller holds the lock.
func (j *Journal) last() changelog.Position {
	return j.trimmed + changelog.Position(len(j.entries))
}

// Append implements [changelog.Journal].
func (j *Journal) Append(ctx context.Context, after changelog.Position, data []byte) error {
	if len(data) > changelog.PartBytes {
		return fmt.Errorf("changelogtest: the entry has %d bytes, more than %d", len(data), changelog.PartBytes)
	}
	data = bytes.Clone(data)
	_, err := call(ctx, &j.net, func(respond func(struct{}, error)) {
		if after != j.last() {
			respond(struct{}{}, fmt.Errorf("%w: the last entry is %d, not %d", changelog.ErrLost, j.last(), after))
			return
		}
		j.entries = append(j.entries, data)
		close(j.changed)
		j.changed = make(chan struct{})
		respond(struct{}{}, nil)
	})
	return err
}

// Read implements [changelog.Journal]. A stale read ends up to three entries early.
func (j *Journal) Read(ctx context.Context, from changelog.Position) iter.Seq2[changelog.JournalEntry, error] {
	return func(yield func(changelog.JournalEntry, error) bool) {
		entries, err := call(ctx, &j.net, func(respond func([]changelog.JournalEntry, error)) {
			last := j.last()
			for range 3 {
				if last > max(from, 1) && j.net.chance(j.net.faults.StaleReads) {
					last--
				}
			}
			switch first := max(from, 1); {
			case from == 0:
				respond(j.slice(j.trimmed+1, last), nil)
			case first > j.last()+1:
				respond(nil, fmt.Errorf("%w: it ends at %d", changelog.ErrWentBack, j.last()))
			case first <= j.trimmed:
				respond(nil, changelog.ErrTrimmed)
			default:
				respond(j.slice(first, last), nil)
			}
		})
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(changelog.JournalEntry{}, err)
		}
	}
}

// slice returns copies of the entries from first to last. The caller holds the lock.
func (j *Journal) slice(first, last changelog.Position) (list []changelog.JournalEntry) {
	for at := first; at <= last; at++ {
		list = append(list, changelog.JournalEntry{Position: at, Data: bytes.Clone(j.entries[at-j.trimmed-1])})
	}
	return list
}

// Wait implements [changelog.Journal].
func (j *Journal) Wait(ctx context.Context, after changelog.Position) error {
	j.net.mu.Lock()
	more, there := j.changed, j.last() > after
	j.net.mu.Unlock()
	if there {
		return ctx.Err()
	}
	select {
	case <-more:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Trim implements [changelog.Journal].
func (j *Journal) Trim(ctx context.Context, through changelog.Position) error {
	_, err := call(ctx, &j.net, func(respond func(struct{}, error)) {
		if through > j.trimmed && through < j.last() {
			j.entries = j.entries[through-j.trimmed:]
			j.trimmed = through
		}
		respond(struct{}{}, nil)
	})
	return err
}

// Len returns how many entries are there.
func (j *Journal) Len() int {
	j.net.mu.Lock()
	defer j.net.mu.Unlock()
	return len(j.entries)
}
