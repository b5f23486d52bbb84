// Package lease gives names to one node of a cluster at a time, by records in the store of owners. It is the [driver.Leases] of a
// node.
//
//	          Take: compare and set                silence of one lease: compare and set
//	free ───────────────────────────▶ held by a ──────────────────────────────────────────▶ held by b
//	 ▲                                 │ ▲   │
//	 │      the last call ends         │ └───┘ every sixth of the lease: a beat
//	 └─────────────────────────────────┘
//
// A lease is timing, not safety. See [driver.Exclusive]. A holder tells its calls to end when two thirds of a lease have passed since it began
// its last successful beat. Another node begins when it has seen no beat for a whole lease, each on its own monotonic clock. So calls have a third
// of a lease to end in. A process that stands still, and calls that do not end, may overlap with the next holder.
//
// Nothing is decided by reading, because a read may be old. Only a compare-and-set of the version that was read takes a lease.
//
// A node that waits writes that into the record. The holder then lets no more calls begin once it has had the lease for half of its
// length, and after it has given it back it waits until another node has it, or a twelfth of the lease has passed.
package lease

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driver"
)

// prefix begins the keys of records.
const prefix = "lease."

// format is the format of the record that this release writes, and the newest that it reads.
const format = 1

// record names the holder of a lease.
type record struct {
	Format  int           `json:"format"`
	Name    string        `json:"name"`
	Node    string        `json:"node"`
	Session string        `json:"session"` // random and new for each process
	Beat    uint64        `json:"beat"`    // grows with each attempt of a holder to write
	Lease   time.Duration `json:"lease_ns"`
	Held    bool          `json:"held"`
	Wanted  bool          `json:"wanted"` // another node waits
}

func key(name string) string {
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:16])
}

// Leases are the leases of one process. It is safe for concurrent use.
type Leases struct {
	owners  changelog.Owners
	node    string
	session string
	length  time.Duration
	log     *slog.Logger

	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup

	mu    sync.Mutex // guards what follows and the fields of all scopes that say so, never held during a call
	names map[string]*scope
}

var _ driver.Leases = (*Leases)(nil)

// New returns the leases of a node, which all last as long as length when it falls silent.
func New(owners changelog.Owners, node string, length time.Duration, log *slog.Logger) *Leases {
	l := &Leases{owners: owners, node: node, session: rand.Text(), length: length, log: log, names: make(map[string]*scope)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Close ends all leases. If a lease is in use, all of them run out by themselves. Otherwise Close waits briefly for the pending releases to be
// written, so that no other node waits for the silence of this one. The caller makes sure that no Take follows.
func (l *Leases) Close() {
	over := make(chan struct{})
	go func() {
		l.background.Wait()
		close(over)
	}()
	if !l.used() {
		select {
		case <-over:
		case <-time.After(l.length / 12):
		}
	}
	l.cancel()
	<-over
}

// used reports whether a call has a lease or waits for one.
func (l *Leases) used() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.names {
		if s.users > 0 || len(s.waiting) > 0 {
			return true
		}
	}
	return false
}

var errClosed = errors.New("the node is closed")

// Take implements [driver.Leases].
func (l *Leases) Take(ctx context.Context, name string) (lost <-chan struct{}, release func(), err error) {
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		return nil, nil, errClosed
	}
	s := l.names[name]
	if s == nil {
		s = &scope{Leases: l, name: name, key: key(name), signal: make(chan struct{}, 1)}
		l.names[name] = s
	}
	granted := make(chan *term, 1)
	s.waiting = append(s.waiting, granted)
	if !s.runs {
		s.runs = true
		l.background.Go(s.run)
	}
	s.wake()
	l.mu.Unlock()
	select {
	case t := <-granted:
		return t.lost, s.releaser(), nil
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-granted: // it was granted meanwhile
		s.users--
		s.wake()
	default:
		s.forget(granted)
	}
	switch {
	case l.ctx.Err() != nil:
		return nil, nil, errClosed
	case s.err != nil:
		return nil, nil, fmt.Errorf("the lease of %q: %w", name, s.err)
	}
	return nil, nil, &driver.LeasedError{Name: name, Holder: s.holder}
}

// scope is one name.
type scope struct {
	*Leases
	name, key string
	signal    chan struct{} // has an element when waiting or a term has changed

	// Guarded by Leases.mu. users are the calls that have not released yet, of all terms. One that was told to end still uses the lease when
	// this process has taken it again. runs says that there is a goroutine of run. holder is the other node that had the lease when the record was
	// read last, and err why it could not be read or written.
	waiting []chan *term
	users   int
	runs    bool
	holder  string
	err     error

	// Of the goroutine of run.
	seen   record        // of the holder that is silent
	silent time.Duration // how long it has been
	looked time.Time     // when the record was read last, or zero if the last attempt failed
	rest   time.Time     // until when other nodes go first
}

// term is the time from taking a lease until its end.
type term struct {
	lost    chan struct{}
	expiry  *time.Timer // closes lost
	record  record
	version changelog.Version
	began   time.Time
	// attempts is the number of the last beat that this process has tried to write.
	attempts uint64
}

func (s *scope) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *scope) forget(granted chan *term) {
	for i, w := range s.waiting {
		if w == granted {
			s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
			return
		}
	}
}

func (s *scope) releaser() func() {
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.users--
		s.wake()
	})
}

// run takes the lease as long as a caller waits for it.
func (s *scope) run() {
	for s.wanted() {
		if t := s.try(); t != nil {
			s.hold(t)
			continue
		}
		select {
		case <-time.After(s.length/48 + mathrand.N(s.length/48)):
		case <-s.ctx.Done():
		}
	}
}

// wanted reports whether a caller waits. If none does, the goroutine ends.
func (s *scope) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = len(s.waiting) > 0 && s.ctx.Err() == nil
	return s.runs
}

func (s *scope) note(holder string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder, s.err = holder, err
}

// bounded bounds one call of the store.
func (s *scope) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, s.length/12)
}

func (s *scope) read() (r record, version changelog.Version, err error) {
	ctx, cancel := s.bounded()
	defer cancel()
	v, err := s.owners.Get(ctx, s.key)
	if err != nil || v.Version == 0 {
		return r, 0, err
	}
	if err := json.Unmarshal(v.Value, &r); err != nil {
		return r, v.Version, fmt.Errorf("its record is unreadable: %w", err)
	}
	if r.Format > format {
		return r, v.Version, fmt.Errorf("its record has the format %d, this release reads %d: upgrade this node", r.Format, format)
	}
	return r, v.Version, nil
}

func (s *scope) write(version changelog.Version, r record) (changelog.Version, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	ctx, cancel := s.bounded()
	defer cancel()
	return s.owners.CompareAndSet(ctx, s.key, version, value)
}

// try looks once and takes the lease if it is free or its holder was silent for long enough. It returns nil if it is not, or if that failed.
func (s *scope) try() *term {
	from, now := s.looked, time.Now()
	s.looked = time.Time{}
	found, version, err := s.read()
	if err != nil {
		s.note("", err)
		return nil
	}
	s.looked = time.Now()
	own := found.Session == s.session
	if !found.Held || own { // own: a write whose response was lost, or a lease that could not be given back
		if own && now.Before(s.rest) {
			s.note("", nil)
			return nil
		}
		return s.take(found, version)
	}
	s.note(found.Node, nil)
	if s.seen.Session != found.Session || s.seen.Beat != found.Beat {
		s.seen, s.silent = found, 0
	} else if idle := now.Sub(from); !from.IsZero() && idle <= s.length/2 { // or this process itself stood still, or did not look
		s.silent += idle
	}
	if s.silent >= max(s.length, found.Lease) {
		t := s.take(found, version)
		if t != nil {
			s.log.Warn("lease taken from a silent node", "name", s.name, "node", found.Node, "silent", s.silent, "next", "find out why that node was silent")
		}
		s.silent = 0 // if it was lost, the holder lives
		return t
	}
	if !found.Wanted {
		found.Wanted = true
		_, _ = s.write(version, found) // the next look tells whether it did
	}
	return nil
}

// take replaces a record by one of this process.
func (s *scope) take(found record, version changelog.Version) *term {
	t := &term{lost: make(chan struct{}), record: record{
		Format: format, Name: s.name, Node: s.node, Session: s.session, Beat: found.Beat + 1, Lease: s.length, Held: true,
	}}
	t.attempts = t.record.Beat
	t.began = time.Now()
	var err error
	if t.version, err = s.write(version, t.record); err != nil {
		if errors.Is(err, changelog.ErrLost) {
			err = nil // another node was faster
		}
		s.note("", err)
		return nil
	}
	s.note("", nil)
	t.expiry = time.AfterFunc(s.usable()-time.Since(t.began), func() { close(t.lost) })
	return t
}

// usable is how long calls may continue after the beginning of a successful beat.
func (s *scope) usable() time.Duration { return s.length * 2 / 3 }

// hold lets calls use the lease and gives it back when none is left.
func (s *scope) hold(t *term) {
	defer t.expiry.Stop()
	beat := time.NewTicker(s.length / 6)
	defer beat.Stop()
	for s.grant(t) {
		select {
		case <-s.signal:
		case <-beat.C:
			s.beat(t)
		case <-t.lost:
			s.log.Warn("lease not renewed in time", "name", s.name, "next", "check the servers and the network")
			return
		case <-s.ctx.Done():
			if t.expiry.Stop() {
				close(t.lost)
			}
			return
		}
	}
	s.giveBack(t)
}

// grant gives a share to all waiting callers, unless other nodes have waited for long enough. It returns false if no caller has one.
func (s *scope) grant(t *term) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.lost:
		return true // hold is about to find out
	default:
	}
	if !t.record.Wanted || time.Since(t.began) < s.length/2 {
		for _, w := range s.waiting {
			s.users++
			w <- t
		}
		s.waiting = nil
	}
	return s.users > 0
}

// beat writes the record again. If that does not succeed, the next beat may have more luck.
func (s *scope) beat(t *term) {
	var began time.Time // of the write that succeeded
	if s.update(t, func(*record) { began = time.Now() }) && t.expiry.Stop() {
		t.expiry.Reset(s.usable() - time.Since(began)) // if the lease has just ended it stays so, because the calls were told
	}
}

// update changes the record of a lease that this process has. After an attempt that failed it looks which version the record has, because a node
// that waits may have written it too. What others show there is not believed, because it may be old. The time decides.
func (s *scope) update(t *term, change func(*record)) bool {
	for range 2 {
		next := t.record
		// Not the number of an earlier attempt. If that arrives late, or has arrived without a response, it says nothing about now.
		t.attempts++
		next.Beat = t.attempts
		change(&next)
		version, err := s.write(t.version, next)
		if err == nil {
			t.record, t.version = next, version
			return true
		}
		found, version, err := s.read()
		if err != nil || found.Session != s.session {
			continue
		}
		if found == next { // its response was lost
			t.record, t.version = found, version
			return true
		}
		if found.Held {
			t.record, t.version = found, version
		}
	}
	return false
}

// giveBack frees the record. If that does not succeed within a third of the lease, others wait for the silence of this process.
func (s *scope) giveBack(t *term) {
	for end := time.Now().Add(s.length / 3); time.Now().Before(end) && s.ctx.Err() == nil; {
		if s.update(t, func(r *record) { r.Held = false }) {
			break
		}
		select {
		case <-time.After(s.length / 48):
		case <-s.ctx.Done():
		}
	}
	if t.record.Wanted {
		s.rest = time.Now().Add(s.length / 12)
	}
}
