package buffer

import (
	"strings"
	"sync"
	"time"
	"unicode"
)

// A probeQueue holds the failed work of one step, sink and table. One attempt at a time probes whether the cause has passed,
// each time with the work that has waited longest. When it succeeds, all the rest is released at once, and the other queues
// of the step are probed. So an outage costs one call per queue and delay, however many slices wait, and it ends for all of
// them when it ends for one. Work that has not failed yet is attempted at once.
//
//	              fails                      its turn
//	 first call ────────▶ waits in the queue ────────▶ probe ── succeeds ─▶ the queue is gone, all its work runs
//	                        ▲                            │
//	                        └────────── fails ───────────┘ the delay grows

// step names a kind of call, as metrics and the log have it.
type step string

const (
	stepUpload  step = "upload"
	stepImport  step = "import"
	stepCleanup step = "clean-up"
)

type queueKey struct {
	step  step
	sink  string // its id
	table string // of imports, because another table may have another cause
}

// errand is one piece of work that waits in a queue.
type errand struct {
	key queueKey
	num uint64
	run func() // hands it to the workers
}

type probeQueue struct {
	key   queueKey
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

// probeQueues are the queues of a buffer. They are safe for concurrent use. reset makes them ready.
type probeQueues struct {
	// mu is held for a few instructions, never while run is called.
	mu     sync.Mutex
	byKey  map[queueKey]*probeQueue
	byID   map[uint64]*probeQueue
	forced map[queueKey]map[uint64]bool
	paces  map[paceKey]*pace
	last   uint64
}

// reset forgets all errands, because their state is read again. Only next may be called meanwhile.
func (l *probeQueues) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKey, l.byID, l.forced = make(map[queueKey]*probeQueue), make(map[uint64]*probeQueue), make(map[queueKey]map[uint64]bool)
	if l.paces == nil {
		l.paces = make(map[paceKey]*pace)
	}
}

// admit reports whether an errand may make its call now. Otherwise it is queued and run when it is its turn.
func (l *probeQueues) admit(e errand, failedBefore bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	forced := l.forced[e.key][e.num]
	if delete(l.forced[e.key], e.num); len(l.forced[e.key]) == 0 {
		delete(l.forced, e.key)
	}
	q := l.byKey[e.key]
	if q == nil || !failedBefore || forced || q.probe != nil && q.probe.num == e.num {
		return true
	}
	q.push(e)
	return false
}

// force lets the next attempt of an errand pass without waiting.
func (l *probeQueues) force(key queueKey, num uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forced[key] == nil {
		l.forced[key] = make(map[uint64]bool)
	}
	l.forced[key][num] = true
}

func (q *probeQueue) push(e errand) {
	if !q.in[e.num] {
		q.in[e.num] = true
		q.queue = append(q.queue, e)
	}
}

// pop takes the errand that has waited longest as the probe.
func (q *probeQueue) pop() (errand, bool) {
	if q.probe != nil || len(q.queue) == 0 {
		return errand{}, false
	}
	e := q.queue[0]
	q.queue = q.queue[1:]
	delete(q.in, e.num)
	q.probe = &e
	return e, true
}

// refusal is the effect of a failed attempt on its queue.
type refusal struct {
	id    uint64    // of the queue
	next  time.Time // the next probe
	began time.Time // when the first attempt failed
}

// refused notes a failed attempt of an errand whose first one failed at a time, perhaps in an earlier process, or zero. delay returns the time until the next one for a number of failures in a row.
func (l *probeQueues) refused(e errand, now, first time.Time, delay func(streak int) time.Duration) refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.byKey[e.key]
	if q == nil {
		l.last++
		q = &probeQueue{key: e.key, id: l.last, in: make(map[uint64]bool), began: now}
		l.byKey[e.key], l.byID[q.id] = q, q
	}
	if !first.IsZero() && first.Before(q.began) {
		q.began = first
	}
	q.push(e)
	q.failed++
	q.tried = now
	if probed := q.probe != nil && q.probe.num == e.num; probed || q.streak == 0 {
		q.probe = nil
		q.streak++
		q.next = now.Add(delay(q.streak))
	}
	return refusal{q.id, q.next, q.began}
}

// queueEnd is what remains of a queue whose cause has passed.
type queueEnd struct {
	errands []errand // to run now, the work of the queue and the probes of other queues
	waiting int      // how many of the queue still have to succeed
	failed  int
	began   time.Time
	spoken  bool
}

// succeeded notes a successful attempt and returns the work that it releases, or nil when nothing had failed. Other queues of
// the step are probed too, unless their last attempt is younger than recent.
func (l *probeQueues) succeeded(e errand, now time.Time, recent time.Duration) *queueEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.byKey[e.key]
	if q == nil {
		return nil
	}
	l.remove(q)
	end := &queueEnd{errands: q.queue, failed: q.failed, began: q.began, spoken: q.spoken, waiting: len(q.queue)}
	if q.in[e.num] { // a forced attempt stays queued
		end.waiting--
	}
	for _, other := range l.byKey {
		if other.key.step == e.key.step && now.Sub(other.tried) >= recent {
			if probe, ok := other.pop(); ok {
				end.errands = append(end.errands, probe)
			}
		}
	}
	return end
}

func (l *probeQueues) remove(q *probeQueue) {
	delete(l.byKey, q.key)
	delete(l.byID, q.id)
}

// left records that a job ended without a real attempt, for example because it was no longer due. If it was the probe,
// left returns the next one.
func (l *probeQueues) left(e errand) (errand, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.byKey[e.key]
	if q == nil || q.probe == nil || q.probe.num != e.num {
		return errand{}, false
	}
	q.probe = nil
	if len(q.queue) == 0 {
		l.remove(q)
	}
	return q.pop()
}

// due returns the probe of a queue whose time has come, or false when it is out already, or the queue is gone.
func (l *probeQueues) due(id uint64) (errand, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.byID[id]; q != nil {
		return q.pop()
	}
	return errand{}, false
}

// next returns the time of the next probe, or zero when there is no such queue.
func (l *probeQueues) next(key queueKey) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.byKey[key]; q != nil {
		return q.next
	}
	return time.Time{}
}

// The log has one line for the first failure of a queue and cause, and then further ones at growing intervals, each with
// the number of failures since the one before. A cause is the text of an error without words that contain a digit.
const (
	paceFirst  = 10 * time.Second
	paceMost   = time.Hour
	paceCauses = 8 // of a queue. Further causes share a pace
)

type paceKey struct {
	key   queueKey
	cause string
}

type pace struct {
	next   time.Time
	rest   time.Duration
	silent int
}

// causeOf reduces the text of an error to the part that is the same at every attempt.
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

// speak reports whether the log gets a line for a failure, and how many failures it stands for. waiting is the number of
// errands in the queue.
func (l *probeQueues) speak(key queueKey, text string, now time.Time) (failures, waiting int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := paceKey{key, causeOf(text)}
	p := l.paces[k]
	if p == nil {
		known := 0
		for other, p := range l.paces {
			switch {
			case now.Sub(p.next) > paceMost: // its pace would begin again
				delete(l.paces, other)
			case other.key == key:
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
	if q := l.byKey[key]; q != nil {
		q.spoken = true
		waiting = len(q.queue)
	}
	return failures, waiting, true
}
