package changelogtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/suitetest"
)

// brokenLog is a Log whose operations a test replaces.
type brokenLog struct {
	*Log
	create func(ctx context.Context, l *Log, instance string) error
	open   func(ctx context.Context, l *Log, instance string, marker changelog.Record) (changelog.Writer, error)
	read   func(ctx context.Context, l *Log, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error]
	stat   func(s *changelog.Stat, instance string)
	trim   func(ctx context.Context, l *Log, instance string, through changelog.Position) error
	writer func(l *Log, instance string, w brokenWriter) changelog.Writer
	// leaders replaces what Leaders yields.
	leaders func(yield func(string, error) bool, name string, err error) bool
}

func (b *brokenLog) Create(ctx context.Context, instance string) error {
	if b.create != nil {
		return b.create(ctx, b.Log, instance)
	}
	return b.Log.Create(ctx, instance)
}

func (b *brokenLog) Open(ctx context.Context, instance string, marker changelog.Record) (w changelog.Writer, err error) {
	if b.open != nil {
		w, err = b.open(ctx, b.Log, instance, marker)
	} else {
		w, err = b.Log.Open(ctx, instance, marker)
	}
	if err == nil && b.writer != nil {
		return b.writer(b.Log, instance, brokenWriter{writer: w.(*writer)}), nil
	}
	return w, err
}

func (b *brokenLog) Read(ctx context.Context, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
	if b.read != nil {
		return b.read(ctx, b.Log, instance, from)
	}
	return b.Log.Read(ctx, instance, from)
}

func (b *brokenLog) Stat(ctx context.Context, instance string) (changelog.Stat, error) {
	s, err := b.Log.Stat(ctx, instance)
	if b.stat != nil {
		b.stat(&s, instance)
	}
	return s, err
}

func (b *brokenLog) Trim(ctx context.Context, instance string, through changelog.Position) error {
	if b.trim != nil {
		return b.trim(ctx, b.Log, instance, through)
	}
	return b.Log.Trim(ctx, instance, through)
}

func (b *brokenLog) Leaders(ctx context.Context, instance string) iter.Seq2[string, error] {
	if b.leaders == nil {
		return b.Log.Leaders(ctx, instance)
	}
	return func(yield func(string, error) bool) {
		for name, err := range b.Log.Leaders(ctx, instance) {
			if !b.leaders(yield, name, err) {
				return
			}
		}
	}
}

// brokenWriter is a writer whose operations a test replaces.
type brokenWriter struct {
	*writer
	append func(w *writer, r changelog.Record) changelog.Ticket
	marker func(w *writer) changelog.Position
	close  func()
}

func (b *brokenWriter) Append(r changelog.Record) changelog.Ticket {
	if b.append != nil {
		return b.append(b.writer, r)
	}
	return b.writer.Append(r)
}

func (b *brokenWriter) Marker() changelog.Position {
	if b.marker != nil {
		return b.marker(b.writer)
	}
	return b.writer.Marker()
}

func (b *brokenWriter) Close() error {
	if b.close != nil {
		b.close()
		return nil
	}
	return b.writer.Close()
}

// appendWith replaces Append.
func appendWith(do func(w *writer, r changelog.Record) changelog.Ticket) brokenLog {
	return brokenLog{writer: func(_ *Log, _ string, w brokenWriter) changelog.Writer {
		w.append = do
		return &w
	}}
}

// waitWith replaces Wait.
func waitWith(do func(ctx context.Context, t changelog.Ticket, r changelog.Record) (changelog.Position, error)) brokenLog {
	return appendWith(func(w *writer, r changelog.Record) changelog.Ticket {
		t := w.Append(r)
		return waitFunc(func(ctx context.Context) (changelog.Position, error) { return do(ctx, t, r) })
	})
}

type waitFunc func(ctx context.Context) (changelog.Position, error)

func (f waitFunc) Wait(ctx context.Context) (changelog.Position, error) { return f(ctx) }

// openWith replaces Open by one that appends so many markers, and looks for other owners before or after that, or never.
func openWith(markers int, before, after bool) brokenLog {
	return brokenLog{open: func(ctx context.Context, l *Log, instance string, marker changelog.Record) (changelog.Writer, error) {
		return onStream(ctx, l, instance, func(s *stream, respond func(changelog.Writer, error)) {
			start := s.last()
			if before && s.fenced(marker, start) {
				respond(nil, changelog.ErrFenced)
				return
			}
			_ = s.propose(func() {
				if after && s.fenced(marker, start) {
					respond(nil, changelog.ErrFenced)
					return
				}
				respond(newWriter(s, marker, start+changelog.Position(markers)), nil)
			}, slices.Repeat([]changelog.Record{marker}, markers)...)
		})
	}}
}

// readWith replaces entries on their way. None leaves one out.
func readWith(change func(e changelog.Entry, err error) (_ changelog.Entry, _ error, none bool)) brokenLog {
	return brokenLog{read: func(ctx context.Context, l *Log, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
		return func(yield func(changelog.Entry, error) bool) {
			for e, err := range l.Read(ctx, instance, from) {
				if e, err, none := change(e, err); !none && !yield(e, err) {
					return
				}
			}
		}
	}}
}

// Each of these drivers breaks one promise, and the check named for the promise must fail.
func TestBrokenLogIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("the sound log is enough for the race detector")
	}
	for name, tc := range map[string]struct {
		caughtBy, says string
		faults         Faults
		log            brokenLog
	}{
		"create begins again": {caughtBy: "CreateTwice", says: "leave it alone", log: brokenLog{
			create: func(ctx context.Context, l *Log, instance string) error {
				return errors.Join(l.Delete(ctx, instance), l.Create(ctx, instance))
			},
		}},
		"a missing stream reads as an empty one": {caughtBy: "MissingStream", says: "do not take it for an empty one", log: readWith(
			func(e changelog.Entry, err error) (changelog.Entry, error, bool) {
				return e, err, errors.Is(err, changelog.ErrMissing)
			},
		)},
		"open makes a missing stream": {caughtBy: "MissingStream", says: "Do not make it", log: brokenLog{
			open: func(ctx context.Context, l *Log, instance string, marker changelog.Record) (changelog.Writer, error) {
				if err := l.Create(ctx, instance); err != nil {
					return nil, err
				}
				return l.Open(ctx, instance, marker)
			},
		}},
		"the marker is the first of the gap": {caughtBy: "Marker", says: "the last record that Open has appended", log: brokenLog{
			writer: func(_ *Log, _ string, w brokenWriter) changelog.Writer {
				w.marker = func(w *writer) changelog.Position { return w.Marker() - changelog.Window }
				return &w
			},
		}},
		"it acknowledges before the quorum": {caughtBy: "TicketsInOrder", says: "when a majority has stored the record", faults: slowly, log: brokenLog{
			writer: func(_ *Log, _ string, w brokenWriter) changelog.Writer {
				end := w.writer.Marker()
				w.append = func(w *writer, r changelog.Record) changelog.Ticket {
					w.Append(r)
					end++
					at := end
					return waitFunc(func(context.Context) (changelog.Position, error) { return at, nil })
				}
				return &w
			},
		}},
		"reads go through a follower": {caughtBy: "ReadWhileAppending", says: "read through the leader", faults: slowly, log: brokenLog{
			read: func(ctx context.Context, l *Log, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
				return func(yield func(changelog.Entry, error) bool) {
					var end changelog.Position
					l.with(instance, func(s *stream) { end = min(s.replica[1].last, s.replica[2].last) })
					for e, err := range l.Read(ctx, instance, from) {
						if err == nil && e.Position > end || !yield(e, err) {
							return
						}
					}
				}
			},
		}},
		"tickets end out of order": {caughtBy: "TicketsInOrder", says: "end tickets in order", log: waitWith(
			func(ctx context.Context, t changelog.Ticket, r changelog.Record) (changelog.Position, error) {
				if r.Number%2 == 1 {
					select {
					case <-time.After(time.Millisecond):
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				}
				return t.Wait(ctx)
			},
		)},
		"records are stored twice": {caughtBy: "TicketsInOrder", says: "store each record once", log: appendWith(
			func(w *writer, r changelog.Record) changelog.Ticket {
				w.Append(r)
				w.net.mu.Lock()
				clear(w.stream.ids)
				w.net.mu.Unlock()
				return w.Append(r)
			},
		)},
		"nothing bounds what is under way": {caughtBy: "Window", says: "block until the oldest ticket has ended", faults: slowly, log: brokenLog{
			writer: func(_ *Log, _ string, w brokenWriter) changelog.Writer {
				before := make(chan struct{})
				close(before)
				w.append = func(w *writer, r changelog.Record) changelog.Ticket {
					wait, done := before, make(chan struct{})
					before = done
					var t changelog.Ticket
					go func() {
						defer close(done)
						<-wait
						t = w.Append(r)
					}()
					return waitFunc(func(ctx context.Context) (changelog.Position, error) {
						select {
						case <-done:
							return t.Wait(ctx)
						case <-ctx.Done():
							return 0, ctx.Err()
						}
					})
				}
				return &w
			},
		}},
		"the end of a context ends the append": {caughtBy: "EndedContexts", says: "not the append", log: func() brokenLog {
			gone := make(map[uint64]bool)
			return waitWith(func(ctx context.Context, t changelog.Ticket, r changelog.Record) (changelog.Position, error) {
				if gone[r.Number] = gone[r.Number] || ctx.Err() != nil; gone[r.Number] {
					return 0, context.Canceled
				}
				return t.Wait(ctx)
			})
		}()},
		"reads ignore their context": {caughtBy: "EndedContexts", says: "Read with a context that has ended", log: brokenLog{
			read: func(_ context.Context, l *Log, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
				return l.Read(context.Background(), instance, from)
			},
		}},
		"a writer looks for a new end": {caughtBy: "FencePipeline", says: "never look for a new end", log: appendWith(
			func(w *writer, r changelog.Record) changelog.Ticket {
				w.net.mu.Lock()
				w.next = w.stream.last()
				w.net.mu.Unlock()
				return w.Append(r)
			},
		)},
		"there is no gap":          {caughtBy: "FencePipeline", says: "leave a gap", faults: slowly, log: openWith(1, true, true)},
		"lower epochs are let in":  {caughtBy: "RefusedOwners", says: "want changelog.ErrFenced", log: openWith(changelog.Window+1, false, false)},
		"a refused owner disturbs": {caughtBy: "RefusedOwners", says: "before you append the marker", log: openWith(changelog.Window+1, false, true)},
		"a full stream is any error": {caughtBy: "FullStream", says: "tell the bound of the stream", log: waitWith(
			func(ctx context.Context, t changelog.Ticket, _ changelog.Record) (changelog.Position, error) {
				p, err := t.Wait(ctx)
				if errors.Is(err, changelog.ErrFull) {
					err = fmt.Errorf("%w: %v", changelog.ErrUnknown, err)
				}
				return p, err
			},
		)},
		"nothing bounds a stream": {caughtBy: "FullStream", says: "bound the stream", log: brokenLog{
			create: func(ctx context.Context, l *Log, instance string) error {
				l.MaxBytes = 1 << 40
				return l.Create(ctx, instance)
			},
			stat: func(s *changelog.Stat, _ string) { s.MaxBytes = suiteBytes },
		}},
		"a full stream cannot be opened": {caughtBy: "FullStream", says: "keep room for markers", log: brokenLog{
			open: func(ctx context.Context, l *Log, instance string, marker changelog.Record) (changelog.Writer, error) {
				s, err := l.Stat(ctx, instance)
				if size := (changelog.Window + 1) * sizeOf(marker); err == nil && s.Bytes+size > s.MaxBytes {
					return nil, changelog.ErrFull
				}
				return l.Open(ctx, instance, marker)
			},
		}},
		"the room for markers is for all": {caughtBy: "FullStream", says: "for nothing else", log: brokenLog{
			writer: func(l *Log, instance string, w brokenWriter) changelog.Writer {
				if w.record.Node == "node-2" {
					l.with(instance, func(s *stream) { s.maxBytes += 1 << 20 })
				}
				return &w
			},
		}},
		"trims are not counted": {caughtBy: "TrimInTime", says: "count what was trimmed", log: brokenLog{
			writer: func(_ *Log, _ string, w brokenWriter) changelog.Writer {
				left := suiteBytes
				w.append = func(w *writer, r changelog.Record) changelog.Ticket {
					if left -= len(r.Data); left < 0 {
						return waitFunc(func(context.Context) (changelog.Position, error) { return 0, changelog.ErrFull })
					}
					return w.Append(r)
				}
				return &w
			},
		}},
		"a trim up to nothing removes everything": {caughtBy: "Trim", says: "remove none", log: brokenLog{
			trim: func(ctx context.Context, l *Log, instance string, through changelog.Position) error {
				if s, err := l.Stat(ctx, instance); err == nil && through == 0 {
					through = s.Last
				}
				return l.Trim(ctx, instance, through)
			},
		}},
		"a trimmed position reads as the first": {caughtBy: "Trim", says: "would miss records", log: brokenLog{
			read: func(ctx context.Context, l *Log, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
				s, _ := l.Stat(ctx, instance)
				return l.Read(ctx, instance, max(from, s.First))
			},
		}},
		"a hole is skipped": {caughtBy: "ReadFromMiddle", says: "changelog.ErrHole", log: readWith(
			func(e changelog.Entry, err error) (changelog.Entry, error, bool) { return e, err, e.Number == 6 },
		)},
		"fields are lost": {caughtBy: "Records", says: "keep all fields", log: readWith(
			func(e changelog.Entry, err error) (changelog.Entry, error, bool) {
				e.Chain &= 1<<63 - 1
				return e, err, false
			},
		)},
		"the caller's bytes are kept": {caughtBy: "Records", says: "as they were when it was appended", log: appendWith(
			func(w *writer, r changelog.Record) changelog.Ticket {
				t := w.Append(r)
				w.net.mu.Lock()
				defer w.net.mu.Unlock()
				w.stream.entries[len(w.stream.entries)-1].Data = r.Data
				return t
			},
		)},
		"stat does not count": {caughtBy: "Stat", says: "10,000 bytes", log: brokenLog{
			stat: func(s *changelog.Stat, _ string) { s.Bytes = 0 },
		}},
		"instances share a name": {caughtBy: "TwoStreams", says: "have the same ID", log: brokenLog{
			stat: func(s *changelog.Stat, instance string) { s.ID = strings.ToLower(instance) },
		}},
		"the ID is the name": {caughtBy: "Delete", says: "draw an ID for each stream", log: brokenLog{
			stat: func(s *changelog.Stat, instance string) { s.ID = instance },
		}},
		"writers go by the name of a stream": {caughtBy: "Delete", says: "bind writers", log: brokenLog{
			writer: func(l *Log, instance string, w brokenWriter) changelog.Writer {
				w.append = func(w *writer, r changelog.Record) changelog.Ticket {
					l.with(instance, func(s *stream) { w.stream = s })
					return w.Append(r)
				}
				return &w
			},
		}},
		"a replica leads twice": {caughtBy: "Leaders", says: "once", log: brokenLog{
			leaders: func(yield func(string, error) bool, name string, err error) bool {
				more := yield(name, err)
				return more && yield(name, err)
			},
		}},
		"nobody says that no replica can be asked": {caughtBy: "Leaders", says: "nobody leads it", log: brokenLog{
			leaders: func(yield func(string, error) bool, name string, err error) bool {
				return err == nil && yield(name, nil)
			},
		}},
		"close does nothing": {caughtBy: "Close", says: "appended after Close", log: brokenLog{
			writer: func(_ *Log, _ string, w brokenWriter) changelog.Writer {
				w.close = func() {}
				return &w
			},
		}},
		"writers leave a goroutine": {caughtBy: "Goroutines", says: "end them in Close", log: brokenLog{
			open: func(ctx context.Context, l *Log, instance string, marker changelog.Record) (changelog.Writer, error) {
				go func() { <-ctx.Done() }()
				return l.Open(ctx, instance, marker)
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(logChecks, func(c logCheck) bool { return c.name == tc.caughtBy })
			expectCaught(t, tc.says, func(r suitetest.T, seed uint64) {
				driver := tc.log
				driver.Log = NewLog(seed, tc.faults)
				driver.MaxBytes = suiteBytes
				logChecks[i].play(r, [2]changelog.Log{&driver, &driver}, suiteBytes)
			})
		})
	}
}

const suiteBytes = 16 << 20
