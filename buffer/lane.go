package buffer

import (
	"strings"
	"sync"
	"time"
	"unicode"
)

// A lane is what has failed at one step, of one sink and for one table, and waits for another attempt. One attempt at a
// time probes whether the cause has passed, each time with the work that has waited longest; when it succeeds, all the
// rest goes at once, and other lanes of the step are probed. So an outage costs one call a lane and delay, however many
// slices wait, and ends for all of them when it ends for one. Work that has not failed yet has its first attempt at once.

// step names a kind of call, as metrics and the log have it.
type step string

const (
	stepUpload  step = "upload"
	stepImport  step = "import"
	stepCleanup step = "clean-up"
)

type laneKey struct {
	step  step
	sink  string // its id
	table string // of imports: another table may have another cause
}

// errand is one piece of work that waits in a lane.
type errand struct {
	lane laneKey
	num  uint64
	run  func() // hands it to the workers
}

type lane struct {
	key   laneKey
	id    uint64 // of its timer
	queue []errand
	in    map[uint64]bool // the numbers in queue
	// probe is the errand that is out to probe. While there is none, next is when one will be.
	probe  *errand
	next   time.Time
	tried  time.Time // when the last attempt failed
	streak int       // failed probes in a row
	began  time.Time // when the first attempt failed
	failed int       // attempts since then
	spoken bool      // the log has a line of this failure
}

// lanes are all that a buffer has. Safe for concurrent use; reset makes them ready.
type lanes struct {
	// mu is held for a few instructions, never while run is called.
	mu     sync.Mutex
	byKey  map[laneKey]*lane
	byID   map[uint64]*lane
	forced map[laneKey]map[uint64]bool
	paces  map[paceKey]*pace
	last   uint64
}

// reset forgets all errands: the state that they belong to is read again. Nothing else may use the lanes meanwhile but
// next.
func (l *lanes) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKey, l.byID, l.forced = make(map[laneKey]*lane), make(map[uint64]*lane), make(map[laneKey]map[uint64]bool)
	if l.paces == nil {
		l.paces = make(map[paceKey]*pace)
	}
}

// admit reports whether an errand may make its call now. Otherwise it waits in its lane, which has again as soon as it is
// its turn.
func (l *lanes) admit(e errand, failedBefore bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	forced := l.forced[e.lane][e.num]
	if delete(l.forced[e.lane], e.num); len(l.forced[e.lane]) == 0 {
		delete(l.forced, e.lane)
	}
	ln := l.byKey[e.lane]
	if ln == nil || !failedBefore || forced || ln.probe != nil && ln.probe.num == e.num {
		return true
	}
	ln.push(e)
	return false
}

// force lets the next attempt of an errand pass.
func (l *lanes) force(key laneKey, num uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forced[key] == nil {
		l.forced[key] = make(map[uint64]bool)
	}
	l.forced[key][num] = true
}

func (ln *lane) push(e errand) {
	if !ln.in[e.num] {
		ln.in[e.num] = true
		ln.queue = append(ln.queue, e)
	}
}

// pop takes the errand that has waited longest as the probe.
func (ln *lane) pop() (errand, bool) {
	if ln.probe != nil || len(ln.queue) == 0 {
		return errand{}, false
	}
	e := ln.queue[0]
	ln.queue = ln.queue[1:]
	delete(ln.in, e.num)
	ln.probe = &e
	return e, true
}

// refusal is what a failed attempt means for its lane.
type refusal struct {
	id   uint64    // of the lane
	next time.Time // when the lane is probed next
}

// refused notes a failed attempt. delay gives the time until the next one by the number of failed ones in a row.
func (l *lanes) refused(e errand, now time.Time, delay func(streak int) time.Duration) refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.byKey[e.lane]
	if ln == nil {
		l.last++
		ln = &lane{key: e.lane, id: l.last, in: make(map[uint64]bool), began: now}
		l.byKey[e.lane], l.byID[ln.id] = ln, ln
	}
	ln.push(e)
	ln.failed++
	ln.tried = now
	if probed := ln.probe != nil && ln.probe.num == e.num; probed || ln.streak == 0 {
		ln.probe = nil
		ln.streak++
		ln.next = now.Add(delay(ln.streak))
	}
	return refusal{ln.id, ln.next}
}

// laneEnd is what a lane leaves whose cause has passed.
type laneEnd struct {
	errands []errand // that go now: those of the lane and the probes of others
	failed  int
	began   time.Time
	spoken  bool
}

// succeeded notes an attempt that succeeded, and returns what goes because of it; nil when nothing has failed before.
// Other lanes of the step are probed, unless their last attempt is younger than recent.
func (l *lanes) succeeded(e errand, now time.Time, recent time.Duration) *laneEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.byKey[e.lane]
	if ln == nil {
		return nil
	}
	l.remove(ln)
	end := &laneEnd{errands: ln.queue, failed: ln.failed, began: ln.began, spoken: ln.spoken}
	for _, other := range l.byKey {
		if other.key.step == e.lane.step && now.Sub(other.tried) >= recent {
			if probe, ok := other.pop(); ok {
				end.errands = append(end.errands, probe)
			}
		}
	}
	return end
}

func (l *lanes) remove(ln *lane) {
	delete(l.byKey, ln.key)
	delete(l.byID, ln.id)
}

// left notes that an errand ended without an attempt that counts, such as one that was not due any more, and returns the
// next probe if it was one.
func (l *lanes) left(e errand) (errand, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.byKey[e.lane]
	if ln == nil || ln.probe == nil || ln.probe.num != e.num {
		return errand{}, false
	}
	ln.probe = nil
	if len(ln.queue) == 0 {
		l.remove(ln)
	}
	return ln.pop()
}

// due returns the probe of a lane whose time has come; false when it is out already, or the lane is gone.
func (l *lanes) due(id uint64) (errand, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln := l.byID[id]; ln != nil {
		return ln.pop()
	}
	return errand{}, false
}

// next is when the lane is probed next; zero when there is no such lane.
func (l *lanes) next(key laneKey) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln := l.byKey[key]; ln != nil {
		return ln.next
	}
	return time.Time{}
}

// The log has one line for the first failure of a lane and cause, and then further ones at a rising pace, each with the
// number of failures since the one before. A cause is the text of an error without what looks like a number or an id.
const (
	paceFirst  = 10 * time.Second
	paceMost   = time.Hour
	paceCauses = 8 // of a lane; further ones share a pace
)

type paceKey struct {
	lane  laneKey
	cause string
}

type pace struct {
	next   time.Time
	rest   time.Duration
	silent int
}

// causeOf reduces an error to what is the same at every attempt.
func causeOf(text string) string {
	const most = 400
	if len(text) > most {
		text = text[:most]
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"',;()[]/=`, r) })
	kept := words[:0]
	for _, w := range words {
		if !strings.ContainsAny(w, "0123456789") {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

// speak reports whether the log gets a line for a failure, and how many failures it stands for; waiting is how many
// errands are in the lane.
func (l *lanes) speak(key laneKey, text string, now time.Time) (failures, waiting int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := paceKey{key, causeOf(text)}
	p := l.paces[k]
	if p == nil {
		known := 0
		for other := range l.paces {
			if other.lane == key {
				known++
			}
		}
		if known >= paceCauses {
			k.cause = "…"
			p = l.paces[k]
		}
	}
	if p == nil {
		p = &pace{}
		l.paces[k] = p
	}
	p.silent++
	if now.Before(p.next) {
		return 0, 0, false
	}
	if p.rest == 0 || now.Sub(p.next) > p.rest { // the first, or the first after a quiet time
		p.rest = paceFirst
	} else {
		p.rest = min(2*p.rest, paceMost)
	}
	p.next = now.Add(p.rest)
	failures, p.silent = p.silent, 0
	if ln := l.byKey[key]; ln != nil {
		ln.spoken = true
		waiting = len(ln.queue)
	}
	return failures, waiting, true
}
