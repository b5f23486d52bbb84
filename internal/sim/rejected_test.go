package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
)

// keeper is the part of a level that works on quarantines.
type keeper interface {
	listKept(ctx context.Context, id string) ([]kept, error)
	// repair gives a record the cell that no rule of the target refuses, and takes what no column takes from it.
	repair(ctx context.Context, id string, k kept) error
	test(ctx context.Context, id string, k kept) error
	// replay and discardKept take the records, or with all whatever is there.
	replay(ctx context.Context, id string, list []kept, all bool) (forebay.ReplayResult, error)
	discardKept(ctx context.Context, id string, list []kept, all bool) (int, error)
}

func sumOf(data []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(data) // it cannot fail
	return h.Sum64() | 1
}

func (l *engineLevel) keptOf(id string) forebay.SinkQuarantine {
	source, sink := sourceOf(id)
	return l.Sink(source, sink).Quarantine()
}

func (l *engineLevel) listKept(ctx context.Context, id string) (list []kept, err error) {
	q := l.keptOf(id)
	for rec, err := range q.List(ctx, forebay.RejectedFilter{}) {
		if err != nil {
			return nil, err
		}
		c, err := q.Get(ctx, rec.ID)
		if errors.Is(err, buffer.ErrUnknownRejected) || errors.Is(err, buffer.ErrRejectedChanged) {
			continue // it left meanwhile, or it has changed
		}
		if err != nil {
			return nil, err
		}
		k := kept{id: c.ID, revision: c.Revision, edited: c.Edited, failed: c.Failed, poison: c.Poison, at: c.At}
		var event struct{ ID, Value, Arrived, Serial string }
		if err := json.Unmarshal(c.Record.Body, &event); err != nil {
			return nil, fmt.Errorf("record %s: %w", rec.ID, err)
		}
		k.name, k.minted = event.ID, [2]string{event.Arrived, event.Serial}
		l.r.checkContent(id, k, c.Came, event.Value == repaired)
		list = append(list, k)
	}
	return list, nil
}

// checkContent checks that a record is there as it arrived, and as it was edited.
func (r *run) checkContent(sink string, k kept, came []byte, isRepaired bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.rows[rowKey(sink, k.name)]
	if x != nil && k.poison == nil && x.body != 0 && x.body != sumOf(came) {
		r.t.Errorf("sink %s: record %s came as %.80q, it is not what was sent", sink, k.name, came)
	}
	if k.edited && !isRepaired {
		r.t.Errorf("sink %s: record %s was edited, and is what it was", sink, k.name)
	}
}

func (l *engineLevel) repair(ctx context.Context, id string, k kept) error {
	body := []byte(`{"value":"` + repaired + `"}`)
	if k.poison == nil {
		body = fmt.Appendf(nil, `{"id":%q,"value":%q`, k.name, repaired)
		for _, f := range typedFields {
			if text, cell := f.value(l.r.seed, k.name); text != "" && cell != misfits {
				body = fmt.Appendf(body, `,"%s":%s`, f.name, text)
			}
		}
		body = append(body, '}')
	}
	return l.keptOf(id).Edit(ctx, k.id, k.revision, body)
}

func (l *engineLevel) test(ctx context.Context, id string, k kept) error {
	cells, err := l.keptOf(id).Test(ctx, k.id)
	if err == nil && (len(cells) < 2 || cells[0].Value != k.name || cells[0].Err != nil) {
		l.r.t.Errorf("sink %s: the test of record %s makes %+v", id, k.name, cells)
	}
	return err
}

func idsOf(list []kept) (ids []string) {
	for _, k := range list {
		ids = append(ids, k.id)
	}
	return ids
}

func (l *engineLevel) replay(ctx context.Context, id string, list []kept, all bool) (forebay.ReplayResult, error) {
	if all {
		return l.keptOf(id).ReplayAll(ctx, forebay.RejectedFilter{})
	}
	return l.keptOf(id).Replay(ctx, idsOf(list)...)
}

func (l *engineLevel) discardKept(ctx context.Context, id string, list []kept, all bool) (int, error) {
	if all {
		return l.keptOf(id).DiscardAll(ctx, forebay.RejectedFilter{})
	}
	return l.keptOf(id).Discard(ctx, idsOf(list)...)
}

func (l *bufferLevel) listKept(ctx context.Context, id string) (list []kept, err error) {
	for rec, err := range l.Sink(id).Rejected(ctx, "") {
		if err != nil {
			return nil, err
		}
		rec, data, came, err := l.Sink(id).RejectedRecord(ctx, rec.ID)
		if errors.Is(err, buffer.ErrUnknownRejected) || errors.Is(err, buffer.ErrRejectedChanged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		k := kept{id: rec.ID, revision: rec.Revision, edited: rec.Edited, poison: rec.Poison, at: rec.At}
		rows, err := decodeRows(driver.None, io.NopCloser(bytes.NewReader(data)))
		if err != nil || len(rows) != 1 {
			return nil, fmt.Errorf("record %s: %w, %q", rec.ID, err, rows)
		}
		k.name = rows[0][0]
		if rec.Poison == nil && string(rec.Info) != k.name {
			l.r.t.Errorf("sink %s: the record of %s says that it is %q", id, k.name, rec.Info)
		}
		l.r.checkContent(id, k, came, rows[0][1] == repaired)
		list = append(list, k)
	}
	return list, nil
}

func (l *bufferLevel) repair(ctx context.Context, id string, k kept) error {
	return l.Sink(id).UpdateRejected(ctx, k.id, k.revision, []byte(k.name), rejectedRow(k.name, repaired))
}

func rejectedRow(name, value string) []byte { return fmt.Appendf(nil, "\"%s\",\"%s\"\n", name, value) }

func (l *bufferLevel) test(context.Context, string, kept) error { return nil }

func (l *bufferLevel) replay(ctx context.Context, id string, list []kept, all bool) (res forebay.ReplayResult, err error) {
	if all {
		if list, err = l.listKept(ctx, id); err != nil {
			return res, err
		}
	}
	l.r.mu.Lock()
	handles := l.r.handles[id]
	if len(handles) == 0 || len(list) == 0 {
		l.r.mu.Unlock()
		res.Gone = len(list)
		return res, nil
	}
	h := handles[len(handles)-1]
	var rows []buffer.ReplayRow
	for _, k := range list {
		text := value(k.name, 1)
		if k.edited {
			text = repaired
		}
		data := append(bytes.TrimSuffix(rejectedRow(k.name, text), []byte("\n")), h.version.cells(l.r.seed, k.name)...)
		rows = append(rows, buffer.ReplayRow{ID: k.id, Revision: k.revision, Row: append(data, '\n')})
		if x := l.r.rows[rowKey(id, k.name)]; x != nil {
			x.moves = append(x.moves, move{h.conf.Table.ID, h.version})
		}
	}
	l.r.mu.Unlock()
	outcomes, err := h.sink.ReplayRejected(ctx, time.Now(), rows...)
	for _, err := range outcomes {
		switch {
		case err == nil:
			res.Replayed++
		case errors.Is(err, buffer.ErrRejectedChanged):
			res.Rejected++
		default:
			res.Gone++
		}
	}
	return res, err
}

func (l *bufferLevel) discardKept(ctx context.Context, id string, list []kept, all bool) (n int, err error) {
	if all {
		if list, err = l.listKept(ctx, id); err != nil {
			return 0, err
		}
	}
	return l.Sink(id).DiscardRejected(ctx, idsOf(list)...)
}

// keptStep is an operator's step with a quarantine, or with the rule of the target's refusals.
func (r *run) keptStep() {
	if r.archives() && r.more.IntN(3) == 0 {
		r.backfillStep()
		return
	}
	id := pick(r.more, slices.DeleteFunc(sortedKeys(r.plans), isArchive)...)
	if chance(r.seed, 0.3, fmt.Sprint("decide after ", r.disk.ops())) {
		r.decide()
	}
	what := pick(r.more, "look", "look", "repair", "repair", "test", "replay", "replay", "repair and replay", "repair and replay", "discard", "rule", "rule", "wait", "trap", "trap", "trap")
	all := r.more.IntN(3) == 0
	switch what {
	case "wait": // files reach the target, with rows that it refuses
		r.sleep(pick(r.more, time.Minute, 10*time.Minute, time.Hour))
		return
	case "trap":
		r.tell("the power will go off soon after the target refuses rows")
		r.out.mu.Lock()
		r.out.trap, r.out.rule = r.cutSoon(), max(r.out.rule, min(1, r.out.strictest))
		r.out.mu.Unlock()
		r.appendRows()
		r.sleep(pick(r.more, time.Minute, 10*time.Minute, time.Hour))
		return
	case "rule":
		r.out.mu.Lock()
		r.out.rule = r.more.IntN(r.out.strictest + 1)
		r.tell("the target refuses rows by rule %d", r.out.rule)
		r.out.mu.Unlock()
		return
	}
	timeout := pick(r.more, time.Millisecond, time.Second, time.Minute)
	rng := rand.New(rand.NewPCG(r.more.Uint64(), 0))
	begins := func() {}
	if r.more.IntN(4) == 0 {
		begins = r.cutSoon()
	}
	r.tell("%s in the quarantine of %s, all %v", what, id, all)
	r.sum.add("operator on quarantines: "+what, 1)
	r.beside(func(g *generation) {
		ctx, cancel := context.WithTimeout(g.ctx, timeout)
		defer cancel()
		if err := r.workOn(ctx, g, id, what, all, rng, begins); err != nil {
			r.tell("%s: %v", what, err)
		}
	})
}

// decide splits a file that is held, or sends it to the quarantine. The power may go off soon after.
func (r *run) decide() {
	for _, st := range r.gen.level.stats().Sinks {
		for _, f := range st.Files {
			if f.State != buffer.FileImporting || f.Attempt == 0 || isArchive(st.ID) || !r.voids {
				continue
			}
			what, do := "split", level.split
			if f.Refused == nil || chance(r.seed, 0.5, "aside "+f.ID+fmt.Sprint(f.Attempt)) {
				what, do = "quarantine", level.setAside
			}
			r.tell("%s the file %s of %s", what, f.ID, st.ID)
			r.sum.add("operator on held files: "+what, 1)
			r.mu.Lock()
			r.asides[st.ID] = r.asides[st.ID] || what == "quarantine"
			r.decided[f.ID] = true
			r.mu.Unlock()
			begins := func() {}
			if chance(r.seed, 0.3, "cut after "+f.ID+fmt.Sprint(f.Attempt)) {
				begins = r.cutSoon()
			}
			r.beside(func(g *generation) {
				begins()
				ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
				defer cancel()
				if err := do(g.level, ctx, st.ID, f.ID); err != nil {
					r.tell("%s: %v", what, err)
				}
			})
			return
		}
	}
}

// workOn looks at a quarantine, checks its content, and does something with some of its records. It calls begins in between.
func (r *run) workOn(ctx context.Context, g *generation, id, what string, all bool, rng *rand.Rand, begins func()) error {
	list, err := r.lookAt(ctx, g, id)
	if err != nil || len(list) == 0 {
		return err
	}
	some := slices.Clone(list)
	rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	if !all {
		some = some[:1+rng.IntN(min(len(some), 3))]
	}
	begins()
	if what == "test" {
		return g.level.test(ctx, id, some[0])
	}
	if strings.HasPrefix(what, "repair") {
		for i := range some {
			if err := r.repairOne(ctx, g, id, &some[i]); err != nil {
				return err
			}
		}
	}
	switch {
	case strings.HasSuffix(what, "replay"):
		return r.replayKept(ctx, g, id, some, all)
	case what == "discard":
		r.asked(id, some, all, func(x *row) { x.discarded = true })
		n, err := g.level.discardKept(ctx, id, some, all)
		if err == nil && !all && n > len(some) {
			r.t.Errorf("sink %s: %d records were discarded, of %d", id, n, len(some))
		}
		return err
	}
	return nil
}

// lookAt lists a quarantine and checks all that can be known of it during other calls.
func (r *run) lookAt(ctx context.Context, g *generation, id string) ([]kept, error) {
	r.mu.Lock()
	r.ticks++
	since, want := r.ticks, r.mustBeKept(id)
	r.mu.Unlock()
	list, err := g.level.listKept(ctx, id)
	if err != nil || g.dead.Load() {
		return nil, err
	}
	r.seeKept(id, list, since)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range want {
		x := r.rows[rowKey(id, name)]
		if x.onlyKept() && !x.discarded && !r.expires(id, x) && !slices.ContainsFunc(list, func(k kept) bool { return k.name == name }) && x.edited != maybe {
			r.t.Errorf("sink %s: record %s is not in the quarantine, of which its client knows it", id, name)
		}
	}
	return list, nil
}

// asked notes that something was asked for records, or with all for whatever is there.
func (r *run) asked(sink string, list []kept, all bool, note func(*row)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range list {
		if x := r.rows[rowKey(sink, k.name)]; x != nil {
			note(x)
		}
	}
	if !all {
		return
	}
	for key, x := range r.rows {
		if name, ok := strings.CutPrefix(key, sink+" "); ok && r.mayBeKept(x, name) {
			note(x)
		}
	}
}

func (r *run) repairOne(ctx context.Context, g *generation, id string, k *kept) error {
	r.asked(id, []kept{*k}, false, func(x *row) { x.edited = max(x.edited, maybe) })
	err := g.level.repair(ctx, id, *k)
	switch {
	case errors.Is(err, buffer.ErrRejectedChanged), errors.Is(err, buffer.ErrUnknownRejected):
		return nil // another call was faster
	case err != nil:
		return err
	}
	k.revision++
	k.edited = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if !g.dead.Load() {
		r.ticks++
		x := r.rows[rowKey(id, k.name)]
		x.edited, x.editedAt = surely, r.ticks
	}
	return nil
}

func (r *run) replayKept(ctx context.Context, g *generation, id string, list []kept, all bool) error {
	r.asked(id, list, all, func(x *row) { x.replayed, x.to = true, -1 })
	r.mu.Lock()
	if all {
		r.replaysOfAll[id]++
	} else {
		for _, k := range list {
			if x := r.rows[rowKey(id, k.name)]; x != nil {
				x.replays++
			}
		}
	}
	r.mu.Unlock()
	res, err := g.level.replay(ctx, id, list, all)
	r.sum.add("quarantine: replayed by calls", int64(res.Replayed))
	r.sum.add("quarantine: rejected again", int64(res.Rejected))
	if err != nil || all {
		return err
	}
	if n := res.Replayed + res.Rejected + res.Gone; n != len(list) {
		r.t.Errorf("sink %s: the replay of %d records has %+v", id, len(list), res)
	}
	if res.Replayed == len(list) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ticks++
		for _, k := range list {
			if x := r.rows[rowKey(id, k.name)]; x != nil && !g.dead.Load() {
				x.place, x.placed = inRows, r.ticks
			}
		}
	}
	return nil
}

// roomForAll discards the files that wait because the quarantine of their sink has no room for their refused rows.
func (r *run) roomForAll() {
	for _, st := range r.gen.level.stats().Sinks {
		for _, f := range st.Files {
			if !f.FinishedAt.IsZero() || !strings.Contains(f.RetryReason, "the quarantine has no room") {
				continue
			}
			r.tell("discard %s of %s: %s", f.ID, st.ID, f.RetryReason)
			r.mu.Lock()
			r.discards[st.ID]++
			r.mu.Unlock()
			r.sum.add("operator: discard for want of room in the quarantine", 1)
			if err := r.gen.level.discard(r.gen.ctx, st.ID, f.ID); err != nil && !errors.Is(err, buffer.ErrUnknownFile) {
				r.t.Errorf("discard a file that waits for room in the quarantine: %v", err)
			}
		}
	}
}
