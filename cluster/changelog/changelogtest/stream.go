package changelogtest

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// replicas is how many hold each stream.
const replicas = 3

// overhead is the size of a record without its data.
const overhead = 128

// stream is the log of one instance on all replicas.
//
//	first         commit         last
//	  | committed    | proposed    |     the leader has it all
//	  |------------------------|         a follower has a beginning of it
//
// A proposal is committed when a majority has it. A new leader is one that has everything committed. The others drop entries that
// it does not have. A leader gives its followers nothing after a hole in its own copy. The lock of the network guards all of it.
type stream struct {
	net      *network
	id       string
	maxBytes int64
	deleted  bool

	first   changelog.Position // of entries[0]
	entries []changelog.Entry  // of the leader, never modified, since readers keep parts of it
	bytes   int64              // of entries
	commit  changelog.Position
	term    uint64
	leader  int
	replica [replicas]replica
	pending []proposal // of this term, in order
	ids     map[messageID]copyOf
}

// messageID identifies a part of a batch in a stream, as drivers name it. Other records have none.
type messageID struct {
	epoch, number uint64
	part          int
}

// copyOf is the first message with an ID.
type copyOf struct {
	position changelog.Position
	since    time.Time
}

type replica struct {
	last  changelog.Position
	in    link // from the leader
	away  bool // gets nothing from the leader
	holes map[changelog.Position]bool
}

type proposal struct {
	end       changelog.Position
	committed func()
}

func newStream(n *network, maxBytes int64) *stream {
	return &stream{net: n, id: rand.Text(), maxBytes: maxBytes, first: 1, ids: make(map[messageID]copyOf)}
}

func (s *stream) last() changelog.Position { return s.first + changelog.Position(len(s.entries)) - 1 }

// through returns the entries up to a position that is not before the trimmed ones.
func (s *stream) through(p changelog.Position) []changelog.Entry { return s.entries[:p+1-s.first] }

// fenced reports whether the entries up to a position shut out the writer of a marker. They do if they hold a higher epoch, or if its epoch belongs
// to a different node, which used it first.
func (s *stream) fenced(marker changelog.Record, through changelog.Position) bool {
	owner := marker.Node
	for i := len(s.through(through)) - 1; i >= 0; i-- {
		switch e := &s.entries[i]; {
		case e.Epoch > marker.Epoch:
			return true
		case e.Epoch == marker.Epoch:
			owner = e.Node
		}
	}
	return owner != marker.Node
}

// propose appends records after the last proposal. All become committed together, or none. A full stream takes nothing but markers.
func (s *stream) propose(committed func(), records ...changelog.Record) error {
	size := int64(0)
	for _, r := range records {
		size += sizeOf(r)
	}
	if s.bytes+size > s.maxBytes && records[0].Kind != changelog.Opened {
		return fmt.Errorf("%w: %d of %d bytes", changelog.ErrFull, s.bytes, s.maxBytes)
	}
	s.bytes += size
	for _, r := range records {
		s.entries = append(s.entries, changelog.Entry{Position: s.last() + 1, Record: r})
		if r.Kind == changelog.Batch {
			s.ids[idOf(r)] = copyOf{s.last(), time.Now()}
		}
	}
	s.pending = append(s.pending, proposal{s.last(), committed})
	s.replicate()
	return nil
}

// append proposes a record if its writer expects the log to end at its position. A refusal is based on proposed records, which may never
// be committed. It needs no majority, and so it proves nothing. Only a committed entry of another owner does.
//
// For a batch whose ID the stream knows it reports the position of the first copy, wherever that is, before it checks anything else.
func (s *stream) append(marker changelog.Record, expected changelog.Position, r changelog.Record, respond func(changelog.Position, error)) {
	s.mayChangeLeader()
	var err error
	first, known := s.copyOf(r)
	switch last := s.last(); {
	case s.deleted:
		err = fmt.Errorf("%w: %w", changelog.ErrUnknown, changelog.ErrMissing)
	case known && first <= s.commit:
		respond(first, nil)
	case known:
		err = fmt.Errorf("%w: a record with its id is under way", changelog.ErrUnknown)
	case last == expected:
		err = s.propose(func() { respond(expected+1, nil) }, r)
	case s.fenced(marker, s.commit):
		err = fmt.Errorf("%w: it ends at %d", changelog.ErrFenced, last)
	default:
		err = fmt.Errorf("%w: refused behind %d, for the log ends at %d", changelog.ErrUnknown, expected, last)
	}
	if err != nil {
		respond(0, err)
	}
}

// copyOf returns where the stream has a message with the ID of a record, if it remembers.
func (s *stream) copyOf(r changelog.Record) (changelog.Position, bool) {
	first, ok := s.ids[idOf(r)]
	return first.position, ok && r.Kind == changelog.Batch && time.Since(first.since) < s.net.duplicateWindow()
}

func idOf(r changelog.Record) messageID { return messageID{r.Epoch, r.Number, r.Part} }

// replicate sends the followers the entries that they lack.
func (s *stream) replicate() {
	term, end := s.term, s.last()
	for i := range s.replica {
		switch r := &s.replica[i]; {
		case i == s.leader:
			r.last = end
		case !r.away:
			s.net.send(&r.in, s.net.upTo(s.net.faults.Delay), func() {
				if s.term == term && !r.away {
					for r.last < end && !s.replica[s.leader].holes[r.last+1] {
						r.last++
					}
					s.advance()
				}
			})
		}
	}
	s.advance()
}

// advance commits the entries that a majority has.
func (s *stream) advance() {
	var lasts []changelog.Position
	for i := range s.replica {
		lasts = append(lasts, s.replica[i].last)
	}
	slices.Sort(lasts)
	s.commit = max(s.commit, lasts[replicas/2])
	for len(s.pending) > 0 && s.pending[0].end <= s.commit {
		done := s.pending[0]
		s.pending = s.pending[1:]
		done.committed()
	}
}

// elect makes a replica the leader, unless it lacks committed entries. The old leader sends no more responses. The new one knows the IDs of
// the batches it stores.
func (s *stream) elect(i int) bool {
	if s.replica[i].last < s.commit {
		return false
	}
	s.leader = i
	s.cut(s.replica[i].last)
	s.replicate()
	return true
}

func (s *stream) mayChangeLeader() {
	if !s.net.chance(s.net.faults.NewLeaders) {
		return
	}
	if i := s.net.rng.IntN(replicas); i != s.leader && !s.replica[i].away {
		s.elect(i)
	}
}

// cut begins a term in which no replica has anything after a position.
func (s *stream) cut(end changelog.Position) {
	s.term++
	s.pending = nil
	s.bytes -= sizeOfAll(s.entries[end+1-s.first:])
	s.entries = slices.Clip(s.through(end))
	s.commit = min(s.commit, end)
	maps.DeleteFunc(s.ids, func(_ messageID, c copyOf) bool { return c.position < s.first || c.position > end })
	for i := range s.replica {
		r := &s.replica[i]
		r.last = min(r.last, end)
		maps.DeleteFunc(r.holes, func(at changelog.Position, _ bool) bool { return at > end })
	}
}

// read returns the committed entries from a position on, up to the first hole.
func (s *stream) read(from changelog.Position) ([]changelog.Entry, error) {
	switch from = max(from, 1); {
	case from < s.first:
		return nil, fmt.Errorf("%w: it begins at %d", changelog.ErrTrimmed, s.first)
	case from > s.commit:
		return nil, nil
	}
	entries := s.through(s.commit)[from-s.first:]
	for i, e := range entries {
		if s.replica[s.leader].holes[e.Position] {
			return entries[:i], fmt.Errorf("%w: at %d", changelog.ErrHole, e.Position)
		}
	}
	return entries, nil
}

// trim removes committed entries from all replicas.
func (s *stream) trim(through changelog.Position) {
	if through = min(through, s.commit); through >= s.first {
		trimmed := s.through(through)
		s.bytes -= sizeOfAll(trimmed)
		s.entries = s.entries[len(trimmed):]
		s.first = through + 1
	}
}

// stat describes the state of the leader, or a follower that lags.
func (s *stream) stat() changelog.Stat {
	last := s.commit
	if s.net.chance(s.net.faults.StaleReads) {
		last = max(min(last, s.replica[s.net.rng.IntN(replicas)].last), s.first-1)
	}
	return changelog.Stat{ID: s.id, First: s.first, Last: last, Bytes: s.bytes, MaxBytes: s.maxBytes}
}

func sizeOf(r changelog.Record) int64 { return overhead + int64(len(r.Node)+len(r.Data)) }

func sizeOfAll(entries []changelog.Entry) (size int64) {
	for _, e := range entries {
		size += sizeOf(e.Record)
	}
	return size
}
