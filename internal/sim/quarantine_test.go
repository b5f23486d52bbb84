package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// keeps tells whether the sinks of the run may have quarantines, and its target refuse rows.
func (s scenario) keeps() bool {
	return !s.plain && !s.untyped && !s.refuse && chance(s.seed, 0.6, "quarantines")
}

// place is where a client was told that its record is.
type place uint8

const (
	somewhere place = iota
	inRows
	inQuarantine
)

// certainty says whether something has happened.
type certainty uint8

const (
	no certainty = iota
	maybe
	surely
)

// aside is the knowledge of a row's time in a quarantine, in addition to its client's knowledge.
type aside struct {
	place place
	// began, placed and editedAt order the events, whatever the clock says. They are when it was offered, when its place was reported, and when its
	// edit was known.
	began, placed, editedAt int
	// replayed and discarded say that an operator requested it, and edited whether it got the cell that the target accepts. replays is how often a
	// replay named it.
	replayed, discarded bool
	replays             int
	edited              certainty
	// late says that the replay of the archive stores it.
	late bool
	// body is a sum over the record as it arrived, 0 if it is not known.
	body uint64
	// columns are the columns of the row in small letters, if it was found in a quarantine as one that the target has refused, and minted are the
	// cells that the sink had made itself.
	columns map[string]bool
	minted  [2]string
	// moves are the tables and columns of replays of the buffer alone.
	moves []move
}

type move struct {
	table   string
	version version
}

// kept is a record as it was found in a quarantine.
type kept struct {
	id, name string
	revision int
	edited   bool
	failed   int // replays
	poison   *buffer.Poison
	minted   [2]string
	at       time.Time
}

// drawQuarantine draws whether the next definition of a sink has a quarantine. Its bounds are the same in the whole run.
func (r *run) drawQuarantine(id string) {
	if r.more == nil || isArchive(id) {
		return
	}
	p := r.plans[id]
	if r.more.IntN(8) == 0 {
		p.conf.Quarantine, p.refuses = nil, true
	} else {
		bounds := r.bounds(id)
		p.conf.Quarantine = &bounds
	}
}

// bounds are the bounds of the quarantine of a sink.
func (r *run) bounds(id string) buffer.QuarantineBounds {
	rng := rand.New(rand.NewPCG(r.seed, 0xb0d+uint64(letter(id)[0])))
	b := buffer.QuarantineBounds{
		MaxBytes: pick[int64](rng, 0, 0, 16<<10), MaxRecords: pick(rng, 0, 0, 30), MaxAge: pick(rng, 0, 0, 30*time.Minute, 6*time.Hour),
		DropOldest: rng.IntN(2) == 0, HoldFiles: rng.IntN(8) == 0,
	}
	if b.DropOldest {
		b.MaxRecords = pick(rng, 0, 1, 3, 30)
	}
	return b
}

// setTarget draws the rows that the target refuses.
func (r *run) setTarget() {
	if r.more == nil {
		return
	}
	r.out.naming = pick(r.more, namesAll, namesFirst, namesNone)
	r.out.strictest = pick(r.more, 0, 1, 2, 3, 3)
	r.out.rule = r.more.IntN(r.out.strictest + 1)
	r.voids = r.more.IntN(5) > 0
}

// mayBeKept tells whether a row may ever have been in a quarantine.
func (r *run) mayBeKept(x *row, name string) bool {
	return r.keeps() && !isArchive(x.sink) && (x.place != inRows || r.out.refusable(name) || r.asides[x.sink])
}

// onlyKept reports whether a record is in a quarantine, or has left it without a replay.
func (x *row) onlyKept() bool { return x.fate == acked && x.place == inQuarantine && !x.replayed }

// expires tells whether the records of a sink may have expired, for all that the model knows of time.
func (r *run) expires(sink string, x *row) bool {
	b := r.bounds(sink)
	switch {
	case b.DropOldest, r.clockWasSet:
		return true
	case b.MaxAge == 0:
		return time.Since(x.at) >= 30*24*time.Hour
	}
	return time.Since(x.at) >= b.MaxAge
}

// atTheEnd is a time for seeKept when all activity has ended.
const atTheEnd = math.MaxInt

// seeKept notes the records of a listing of a quarantine that began at since, and checks all that is known of each record. It returns how often
// each name is there.
func (r *run) seeKept(sink string, list []kept, since int) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := map[string]int{}
	last := ""
	for _, k := range list {
		if _, id, _ := strings.Cut(k.id, "-"); id <= last {
			r.t.Errorf("sink %s: record %s of the quarantine comes after %s", sink, k.id, last)
		} else {
			last = id
		}
		x := r.rows[rowKey(sink, k.name)]
		if x == nil {
			r.t.Errorf("sink %s: record %s of the quarantine has the name %q, which nobody has sent", sink, k.id, k.name)
			continue
		}
		count[k.name]++
		switch {
		case count[k.name] > 1 && (since == atTheEnd || k.poison == nil):
			r.t.Errorf("sink %s: row %s is in the quarantine twice", sink, k.name)
		case k.poison == nil && x.place == inRows && x.placed < since:
			r.t.Errorf("sink %s: record %s was taken as a row, and is in the quarantine", sink, k.name)
		case k.poison != nil && !r.out.refusable(k.name) && !r.asides[sink]:
			r.t.Errorf("sink %s: row %s is in the quarantine, the target has never refused it: %+v", sink, k.name, k.poison)
		case x.fate == refused:
			r.t.Errorf("sink %s: row %s was refused, and is in the quarantine", sink, k.name)
		case k.edited && x.edited == no:
			r.t.Errorf("sink %s: record %s was edited, and nobody has done it", sink, k.name)
		case !k.edited && x.edited == surely && x.editedAt < since && k.poison == nil:
			r.t.Errorf("sink %s: record %s has lost its edit", sink, k.name)
		case k.failed > x.replays+r.replaysOfAll[sink]:
			r.t.Errorf("sink %s: record %s has failed in %d replays, it was named in %d, and there were %d of all records", sink, k.name, k.failed, x.replays,
				r.replaysOfAll[sink])
		case k.poison != nil && r.bounds(sink).HoldFiles && !r.plans[sink].refuses && !r.decided[k.poison.FileID]:
			r.t.Errorf("sink %s: row %s has left file %s, which is held, and nobody has asked for it", sink, k.name, k.poison.FileID)
		}
		if k.poison != nil {
			if x.minted != k.minted && x.minted != [2]string{} {
				r.t.Errorf("sink %s: row %s had %q, in the quarantine it has %q", sink, k.name, x.minted, k.minted)
			}
			x.minted = k.minted
			x.columns = map[string]bool{}
			for _, c := range k.poison.Columns {
				x.columns[strings.ToLower(c.Name)] = true
			}
		}
	}
	return count
}

// mustBeKept are the names of the records of a sink that are certainly in its quarantine. Called with mu held.
func (r *run) mustBeKept(sink string) (names []string) {
	if r.bounds(sink).DropOldest || r.clockWasSet {
		return nil
	}
	for _, key := range sortedKeys(r.rows) {
		x := r.rows[key]
		if name, ok := strings.CutPrefix(key, sink+" "); ok && x.onlyKept() && !x.discarded && !r.expires(sink, x) {
			names = append(names, name)
		}
	}
	return names
}

// checkKept compares the quarantine of a sink at the end with its counters, with the tables and with the clients' knowledge. lost reports
// whether a row was lost for another reason. It returns how often each name is there, and the keys of the rows that have left it as they may.
func (r *run) checkKept(st buffer.SinkStats, list []kept, seen map[string]int, lost func(key string, x *row) bool) (count map[string]int, gone map[string]bool) {
	q := st.Quarantine
	count = r.seeKept(st.ID, list, atTheEnd)
	if q.Records != int64(len(list)) || q.Lost != 0 {
		r.t.Errorf("sink %s: %d records are in the quarantine, its counters say %+v", st.ID, len(list), q)
	}
	if sum := q.Records + q.Replayed + q.Discarded + q.Expired + q.Lost; sum != q.Added {
		r.t.Errorf("sink %s: the counters of the quarantine differ: %+v", st.ID, q)
	}
	if b := q.Bounds; b.DropOldest && (q.Records > int64(b.MaxRecords) || q.Bytes > b.MaxBytes+int64(len(list))*newReason && q.Records > 1) {
		r.t.Errorf("sink %s: the quarantine passes its bounds: %+v", st.ID, q)
	}
	// What can only have left by one way comes first.
	gone = map[string]bool{}
	expired, discarded := q.Expired, q.Discarded
	var oldest *row // of the rows that are certainly there since their first rejection
	for _, k := range list {
		if x := r.rows[rowKey(st.ID, k.name)]; x != nil && k.poison == nil && x.onlyKept() && (oldest == nil || x.placed < oldest.placed) {
			oldest = x
		}
	}
	type leaver struct {
		*row
		key            string
		rank           int
		expiry, thrown bool
	}
	var leavers []leaver
	added := int64(0)
	for _, key := range sortedKeys(r.rows) {
		x := r.rows[key]
		name, ok := strings.CutPrefix(key, st.ID+" ")
		if !ok {
			continue
		}
		if x.onlyKept() {
			added++
		}
		if seen[key]+count[name] > 0 || x.fate != acked && x.fate != accepted || !r.mayBeKept(x, name) || !x.onlyKept() && lost(key, x) {
			continue
		}
		l := leaver{row: x, key: key, expiry: r.expires(st.ID, x), thrown: x.discarded}
		if !x.onlyKept() {
			l.rank = 2
		}
		if l.expiry && l.thrown {
			l.rank++
		}
		leavers = append(leavers, l)
	}
	slices.SortStableFunc(leavers, func(a, b leaver) int { return cmp.Compare(a.rank, b.rank) })
	// Those with one way alone that have not had their turn.
	var throwns, expiries int64
	for _, l := range leavers {
		switch {
		case l.thrown && !l.expiry:
			throwns++
		case l.expiry && !l.thrown:
			expiries++
		}
	}
	for _, l := range leavers {
		switch {
		case l.thrown && !l.expiry:
			throwns--
		case l.expiry && !l.thrown:
			expiries--
		}
		switch {
		// A record that may have left either way is counted for the way with more departures than the other records need.
		case l.thrown && discarded > 0 && (!l.expiry || expired == 0 || discarded-throwns >= expired-expiries):
			discarded--
		case l.expiry && expired > 0:
			expired--
			if l.onlyKept() && !l.thrown && oldest != nil && oldest.placed < l.began {
				r.t.Errorf("sink %s: record %s has left the quarantine, and an older one is there", st.ID, l.key)
			}
		default:
			continue
		}
		gone[l.key] = true
	}
	if fromClients := q.Added - st.Poison.Rows; fromClients < added {
		r.t.Errorf("sink %s: %d records were said to be in the quarantine, %d were added", st.ID, added, fromClients)
	}
	r.sum.add("quarantine: from clients", q.Added-st.Poison.Rows)
	r.sum.add("quarantine: refused by the target", st.Poison.Rows)
	r.sum.add("quarantine: replayed", q.Replayed)
	r.sum.add("quarantine: discarded", q.Discarded)
	r.sum.add("quarantine: expired", q.Expired)
	r.sum.add("quarantine: there at the end", q.Records)
	return count, gone
}

// newReason is more than a replay that fails adds to a record.
const newReason = 2 << 10

// checkPlaces checks that a row is in one place.
func (r *run) checkPlaces(key string, x *row, inTable, held int) {
	switch {
	case inTable+held > 1 && held > 0:
		r.t.Errorf("row %s is %d times in the table and %d times in the quarantine", key, inTable, held)
	case inTable == 1 && x.onlyKept():
		r.t.Errorf("row %s is in the table, its client knows it in the quarantine, and nobody has replayed it", key)
	}
}

// belongsByMove tells whether a replay may have brought a row into a table, with these columns and cells.
func (r *run) belongsByMove(x *row, table string, made func(version) bool) bool {
	return slices.ContainsFunc(x.moves, func(m move) bool { return m.table == table && made(m.version) })
}

// allKept lists all quarantines, at the end.
func (r *run) allKept(stats buffer.Stats) map[string][]kept {
	all := map[string][]kept{}
	if r.more == nil {
		return all
	}
	for _, st := range stats.Sinks {
		if isArchive(st.ID) {
			continue
		}
		list, err := r.gen.level.listKept(r.gen.ctx, st.ID)
		if err != nil {
			r.t.Errorf("list the quarantine of %s: %v", st.ID, err)
		}
		all[st.ID] = list
	}
	return all
}

// tellPlace notes where the engine says that a record is.
func (r *run) tellPlace(g *generation, x *row, status forebay.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x == nil || g.dead.Load() {
		return
	}
	r.ticks++
	switch status {
	case forebay.Stored, forebay.Queued:
		x.place, x.placed = inRows, r.ticks
	case forebay.Quarantined:
		x.place, x.placed = inQuarantine, r.ticks
	}
}

// bareShare is how many events have no value.
func (r *run) bareShare() float64 {
	if r.keeps() {
		return 0.15
	}
	return 0.05
}

// rejects tells whether a client of the buffer hands over a record as rejected.
func (r *run) rejects(h *handle, name string) bool {
	return r.more != nil && h.conf.Quarantine != nil && chance(r.seed, 0.15, "rejected "+name)
}

// reject makes a rejected record, unless the quarantine is full. before is the number already made for the same call. Called with mu held.
func (r *run) reject(g *generation, h *handle, sink, name string, before int) (buffer.Reject, *row) {
	reject := buffer.Reject{Info: []byte(name), Data: rejectedRow(name, value(name, 1))}
	size := len(reject.Info) + len(reject.Data)
	if h.sink.QuarantineFull(size, before, before*size) != nil {
		return reject, nil
	}
	x := r.newRow(g, sink, name, h.conf.Table.ID)
	x.place, x.placed, x.body = inQuarantine, x.began, sumOf(reject.Data)
	return reject, x
}
