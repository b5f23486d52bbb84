package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
)

// model is the knowledge of the rows without looking into the buffer.
type model struct {
	handles map[string][]*handle // all of a sink that the process has defined, the newest last
	rows    map[string]*row      // by rowKey
	// history are the requested definitions of a sink, inForce the place of the last definition that is known to
	// be effective. A later request may be effective.
	history map[string][]entry
	inForce map[string]int
	// unsynced bounds the age of rows that a cut may take although no caller waited for them.
	unsynced time.Duration
	// failures are the times at which the local level failed. Rows in memory are lost then, as in a cut.
	failures []time.Time
	// expired are the files that were reported as expired, discards the calls of Discard by sink.
	expired  map[string]bool
	discards map[string]int
	// asides are the sinks of which an operator has sent a file to the quarantine, with rows that the target would have taken.
	asides map[string]bool
	// decided are the files that an operator has decided about, replaysOfAll the replays of the whole quarantine, by sink.
	decided      map[string]bool
	replaysOfAll map[string]int
	left         time.Time // when the last bubble ended
	ticks        int       // a clock that is never set
}

func newModel() model {
	return model{
		rows: map[string]*row{}, history: map[string][]entry{}, inForce: map[string]int{},
		expired: map[string]bool{}, discards: map[string]int{}, asides: map[string]bool{}, decided: map[string]bool{}, replaysOfAll: map[string]int{},
	}
}

type handle struct {
	sink    *buffer.DefinedSink
	conf    buffer.SinkConfig
	version version
}

// entry is a definition of a sink of an engine.
type entry struct {
	table string
	// enabled says that the sink accepts rows. It stays defined while its source is disabled. Its columns are accepted then.
	enabled, defined bool
	// versions are the columns, or several when it is not known which of them were accepted.
	versions []version
}

// fate is a client's knowledge about a row.
type fate uint8

const (
	unknown  fate = iota // no response, or an error that leaves it open
	accepted             // accepted, without a waiting caller
	acked                // on disk
	refused              // certainly not taken
)

type row struct {
	fate fate
	sink string
	// table is where it belongs. Empty means a table of one of the definitions in history from..to (-1: the last).
	table    string
	version  version // if table is set
	from, to int
	bare     bool // it was sent without a value
	// at is when it was offered, acked when the client learned that it was accepted.
	at, acked time.Time
	gen       *generation
	gone      time.Time // when its process died by a cut, zero if it did not
	aside
}

func rowKey(sink, name string) string { return sink + " " + name }

// newRow adds a row that is about to be offered. Called with mu held.
func (r *run) newRow(g *generation, sink, name, table string) *row {
	r.ticks++
	x := &row{sink: sink, table: table, at: time.Now(), gen: g, aside: aside{began: r.ticks}}
	r.rows[rowKey(sink, name)] = x
	return x
}

// told notes the fate that a client learned for rows, unless the response was lost.
func (r *run) told(g *generation, f fate, rows ...*row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.dead.Load() {
		return
	}
	for _, x := range rows {
		x.fate, x.acked = f, time.Now()
	}
}

// begins notes that the sinks of a source are about to get the definitions of the plans.
func (r *run) begins(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		p := r.plans[id]
		source, _ := sourceOf(id)
		e := entry{table: p.conf.Table.ID, defined: !p.gone && !p.disabled && !r.removed[source]}
		e.enabled = e.defined && !r.disabled[source]
		if e.defined {
			e.versions = r.offers(id)
		}
		r.history[id] = append(r.history[id], e)
	}
}

// ends notes the outcome. The definitions are effective, or certainly not, or either. A refusal leaves open which one is
// when that was open before. kept are the sinks whose earlier columns stay in use.
func (r *run) ends(ids []string, err error, kept map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done, refused := err == nil, verdictOf(err, false) == turnedDown
	for _, id := range ids {
		if e := &r.history[id][len(r.history[id])-1]; e.defined {
			v := verdictOf(err, kept[id])
			if r.gen.dead.Load() {
				v = unclear
			}
			if versions := r.settles(id, v); v != turnedDown {
				e.versions = versions
			}
		}
		known := refused && r.inForce[id] == len(r.history[id])-2
		if known {
			r.history[id] = append(r.history[id], r.history[id][r.inForce[id]])
		}
		if done || known {
			r.inForce[id] = len(r.history[id]) - 1
		}
	}
}

// definitions are the definitions that may have been in force during the call that offered a row. Called with mu held.
func (r *run) definitions(sink string, x *row) []entry {
	to := x.to
	if to < 0 {
		to = len(r.history[sink]) - 1
	}
	return r.history[sink][x.from : to+1]
}

// enabledAll tells whether the sink took part whichever of the definitions was effective.
func (r *run) enabledAll(sink string, x *row) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.definitions(sink, x), func(e entry) bool { return !e.enabled })
}

// belongs tells whether a row may be in a table.
func (r *run) belongs(x *row, table string) bool {
	if x.table != "" {
		return x.table == table || r.belongsByMove(x, table, func(version) bool { return true })
	}
	return slices.ContainsFunc(r.definitions(x.sink, x), func(e entry) bool { return e.enabled && e.table == table })
}

// ackedRows are the names of the acknowledged rows of a sink that the process g took.
func (r *run) ackedRows(g *generation, sink string) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, x := range r.rows {
		if name := strings.TrimPrefix(key, sink+" "); x.sink == sink && x.fate == acked && x.gen == g && !r.mayBeKept(x, name) {
			names = append(names, name)
		}
	}
	return names
}

// checkFlushed checks the barrier. Rows acknowledged before are in the table, or were given up and reported.
func (r *run) checkFlushed(g *generation, sink string, names []string) {
	if g.dead.Load() {
		return
	}
	r.mu.Lock()
	discards, aside := r.discards[sink], r.asides[sink]
	expired := map[string]bool{}
	for id := range r.expired {
		expired[id] = true
	}
	r.mu.Unlock()
	if discards > 0 || aside {
		return // which rows were given up is not known
	}
	have := map[string]bool{}
	r.out.mu.Lock()
	for _, f := range r.out.files {
		if r.sinkOf(f.table) == sink {
			for _, row := range f.rows {
				have[nameOf(row)] = true
			}
		}
	}
	for _, o := range r.out.ever {
		if expired[o.file] {
			for _, row := range o.rows {
				have[nameOf(row)] = true
			}
		}
	}
	r.out.mu.Unlock()
	for _, name := range names {
		if !have[name] {
			r.t.Errorf("flush of %s returned, row %s is not in the table", sink, name)
		}
	}
}

// sinkOf is the sink that a table belongs to.
func (r *run) sinkOf(table string) string {
	if table == archived {
		return archiveID
	}
	for id := range r.plans {
		if strings.HasPrefix(table, "in.c-sim."+letter(id)) {
			return id
		}
	}
	return ""
}

// check compares the tables with the clients' knowledge.
func (r *run) check(stats buffer.Stats, damage []buffer.Damage, held map[string][]kept) {
	for _, b := range r.out.breach {
		r.t.Error(b)
	}
	var (
		seen     = map[string]int{}   // rows in the tables
		lost     = map[string]bool{}  // rows that were given up, and reported
		nameless = map[string]int64{} // likewise, where only their number is known, by sink
		ended    = map[string]*ending{}
		inTable  = map[string]int64{} // rows of files that were not given up, by sink
	)
	r.checkDamage(stats, damage, lost)
	damaged := maps.Clone(lost)
	for _, st := range stats.Sinks {
		for id, e := range r.endings(st) {
			ended[id] = e
			for name := range e.known {
				lost[rowKey(st.ID, name)] = true
			}
			counted := int64(0)
			for name := range e.counted {
				if !damaged[rowKey(st.ID, name)] { // the file was given up before its object was put again without it
					counted++
				}
			}
			nameless[st.ID] += max(0, e.rows-counted)
		}
	}
	for _, id := range sortedKeys(r.out.files) {
		f := r.out.files[id]
		sink := r.sinkOf(f.table)
		if e := ended[fileOf(id)]; e == nil {
			inTable[sink] += int64(len(f.rows))
		} else if fileOf(id) != id {
			e.parts += int64(len(f.rows))
		}
		last := map[string]string{}
		for _, cells := range f.rows {
			name := nameOf(cells)
			key := rowKey(sink, name)
			seen[key]++
			x := r.rows[key]
			if x == nil {
				r.t.Errorf("row %q of file %s in table %s was invented", name, id, f.table)
				continue
			}
			if !r.belongs(x, f.table) {
				r.t.Errorf("row %s is in table %s, where it does not belong", name, f.table)
			}
			if client := name[:1]; x.replayed || x.late {
				// it is as late as its replay
			} else if name <= last[client] {
				r.t.Errorf("file %s: row %s comes after %s", id, name, last[client])
			} else {
				last[client] = name
			}
			r.checkCells(x, name, f, cells)
		}
	}
	justified := func(key string, x *row) bool { return lost[key] || x.fate == accepted && r.mayLack(x) }
	gone, kept, quarantined := map[string]bool{}, map[string]int{}, int64(0)
	for _, st := range stats.Sinks {
		count, left := r.checkKept(st, held[st.ID], seen, justified)
		maps.Copy(gone, left)
		for name, n := range count {
			kept[rowKey(st.ID, name)] = n
		}
		quarantined += st.Quarantine.Bytes
	}
	for _, key := range sortedKeys(r.rows) {
		x, n := r.rows[key], seen[key]
		r.checkPlaces(key, x, n, kept[key])
		if kept[key] > 0 || n == 0 && gone[key] {
			continue
		}
		if n == 0 && (x.fate == acked || x.fate == accepted) && !x.onlyKept() {
			if justified(key, x) {
				continue
			}
			// The damaged end of an open slice counts as one row. If the operator discards it before its upload, the
			// other rows are never looked for.
			if _, name, _ := strings.Cut(key, " "); r.hits[name] && r.discards[x.sink] > 0 {
				continue
			}
			if nameless[x.sink] > 0 {
				nameless[x.sink]--
				continue
			}
		}
		switch {
		case n > 1:
			r.t.Errorf("row %s is %d times in the table", key, n)
		case n == 1 && x.fate == refused:
			r.t.Errorf("row %s was refused and is in the table", key)
		case n == 0 && x.fate == acked:
			r.t.Errorf("row %s was acknowledged at %s and is lost; %+v", key, x.at.Sub(r.begin), x.aside)
		case n == 0 && x.fate == accepted:
			r.t.Errorf("row %s was accepted at %s and is lost, its process ended at %s", key, x.at.Sub(r.begin), x.gone.Sub(r.begin))
		}
	}
	if n := len(r.out.objects); n > 0 {
		r.t.Errorf("%d objects are left in staging: %v", n, sortedKeys(r.out.objects))
	}
	if stats.LocalBytes != quarantined || stats.PendingBytes != 0 {
		r.t.Errorf("left over: %d bytes on disk, %d of them quarantined, %d pending", stats.LocalBytes, quarantined, stats.PendingBytes)
	}
	for _, st := range stats.Sinks {
		r.checkLedger(st, inTable[st.ID], ended)
	}
	r.count(stats, damage)
}

// checkCells checks the cells of a row after its name.
func (r *run) checkCells(x *row, name string, f *imported, cells []string) {
	if isArchive(x.sink) {
		r.checkArchived(x, name, cells)
		return
	}
	want := name[:3]
	ok := strings.HasPrefix(cells[1], want) && strings.ReplaceAll(cells[1], want, "") == ""
	switch {
	case x.bare && cells[1] != repaired:
		ok = cells[1] == noValue && x.edited != surely
	case x.edited == surely, x.edited == maybe && cells[1] == repaired:
		ok = cells[1] == repaired
	}
	behind := 2
	if r.engine() && letter(x.sink) == "b" {
		ok, behind = ok && len(cells) > 2 && cells[2] == "label of "+name, 3
	}
	if r.mints(x.sink) {
		ok, behind = ok && len(cells) > 3 && r.mintedOnce(x, cells[2], cells[3]), 4
	}
	ok = ok && len(cells) == len(f.columns)
	made := func(v version) bool { return v.made(r.seed, x, name, f.columns[behind:], cells[behind:], r.engine()) }
	if x.table != "" {
		ok = ok && (made(x.version) || r.belongsByMove(x, f.table, made))
	} else {
		ok = ok && slices.ContainsFunc(r.definitions(x.sink, x), func(e entry) bool {
			return e.enabled && e.table == f.table && slices.ContainsFunc(e.versions, made)
		})
	}
	if !ok {
		r.t.Errorf("row %s of %s has in %q the cells %.50q…", name, x.sink, f.columns, cells)
	}
}

// mayLack reports whether a row without a waiting caller may have been lost by a cut or a failure soon after it was accepted.
func (r *run) mayLack(x *row) bool {
	if !x.gone.IsZero() && x.gone.Sub(x.acked) <= r.unsynced {
		return true
	}
	return slices.ContainsFunc(r.failures, func(at time.Time) bool {
		return !at.Before(x.at) && at.Sub(x.acked) <= r.unsynced
	})
}
