package changelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/synctest"
)

// TestStories plays the scripts of testdata/stories on a fake clock, with nodes, their stores, and a log that obeys the script.
//
//	open NODE [forgetful] open the log with the store of the node, or with one that cannot yield its batches
//	append NODE [DATA]... append batches; 600kB is a batch of that size
//	checkpoint NODE N     append that a checkpoint has the batches up to N
//	finish NODE           append that the instance no longer has rows
//	close NODE [lose=N]   end the appender, and lose the last batches of its store
//	mode MODE             of appends: ok, hold (until "respond"), lose (store, no response), drop (no response), full; of the log: down,
//	                      stale (reads lack the last entry)
//	respond N MODE        end the Nth append that is held, in one of these modes
//	lease NODE ok|out     what its lease says
//	owner NODE [EPOCH]    who owns the instance
//	released NODE N       the number that the node knows to be released
//	put ENTRY...          entries of other writers, as in TestReadingRule
//	cut N, trim N         remove the entries after, or up to, a position
//	damage N              change a byte of an entry
//	wait DURATION, log, store NODE, state NODE
//
// Rewrite them with: go test ./changelog -run TestStories -rewrite
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{log: &scriptedLog{mode: "ok"}, nodes: map[string]*storyNode{}, marks: map[string]changelog.Mark{}}
				s.logger = slog.New(slog.NewTextHandler(&s.news, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == "time" || a.Key == "instance" {
						return slog.Attr{}
					}
					return a
				}}))
				t.Cleanup(func() {
					for _, n := range s.nodes {
						n.close()
					}
				})
				datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
					out := s.play(t, d)
					synctest.Wait()
					return out + s.news.take()
				})
			})
		})
	}
}

type story struct {
	log    *scriptedLog
	nodes  map[string]*storyNode
	marks  map[string]changelog.Mark // by the data of a batch
	logger *slog.Logger
	news   news

	mu    sync.Mutex
	owner string
	epoch uint64
}

// storyNode is a node with its local store.
type storyNode struct {
	disk     []storyBatch
	released uint64
	valid    atomic.Bool
	appender *changelog.Appender
}

// storyBatch is a batch of a store with its mark, which the data of a real one contains.
type storyBatch struct {
	data []byte
	mark changelog.Mark
}

func (n *storyNode) mark() changelog.Mark {
	if len(n.disk) == 0 {
		return changelog.Mark{}
	}
	return n.disk[len(n.disk)-1].mark
}

func (n *storyNode) close() {
	if n.appender != nil {
		n.appender.Close()
		n.appender = nil
	}
}

// news are lines from anywhere. Lines of one moment are shown in the order of the alphabet.
type news struct {
	mu    sync.Mutex
	lines []string
}

func (n *news) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, string(line))
	return len(line), nil
}

func (n *news) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.Sort(n.lines)
	text := strings.Join(n.lines, "")
	n.lines = nil
	return text
}

func (s *story) node(name string) *storyNode {
	if s.nodes[name] == nil {
		s.nodes[name] = new(storyNode)
		s.nodes[name].valid.Store(true)
	}
	return s.nodes[name]
}

func (s *story) play(t *testing.T, d *datadriven.TestData) string {
	arg := func(i int) string {
		if i >= len(d.CmdArgs) {
			return ""
		}
		return d.CmdArgs[i].Key
	}
	number := func(i int) int {
		n, err := strconv.Atoi(arg(i))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return n
	}
	name, l := arg(0), s.log
	switch d.Cmd {
	case "open":
		return s.open(t, name, arg(1) != "")
	case "append":
		for i := range d.CmdArgs[1:] {
			s.append(name, arg(i+1))
		}
	case "checkpoint":
		n := uint64(number(1))
		s.note(name, fmt.Sprintf("checkpoint %d", n), func(a *changelog.Appender) error { return a.Checkpointed(t.Context(), n) })
	case "finish":
		s.note(name, "the end", func(a *changelog.Appender) error { return a.Finish(t.Context()) })
	case "close":
		n := s.node(name)
		n.close()
		var lost int
		d.MaybeScanArgs(t, "lose", &lost)
		n.disk = n.disk[:len(n.disk)-lost]
	case "mode":
		l.setMode(name)
	case "respond":
		l.answer(number(0)-1, arg(1))
	case "lease":
		s.node(name).valid.Store(arg(1) == "ok")
	case "owner":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.owner = name
		if arg(1) != "" {
			s.epoch = uint64(number(1))
		}
	case "put":
		for _, a := range d.CmdArgs {
			l.put(a.Key)
		}
	case "released":
		s.node(name).released = uint64(number(1))
	case "cut":
		l.mu.Lock()
		defer l.mu.Unlock()
		l.entries = l.entries[:number(0)]
	case "trim":
		l.mu.Lock()
		defer l.mu.Unlock()
		l.trimmed = number(0)
	case "damage":
		l.mu.Lock()
		defer l.mu.Unlock()
		e := &l.entries[number(0)-1]
		e.Data = append([]byte("not "), e.Data...)
	case "wait":
		wait, err := time.ParseDuration(name)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		time.Sleep(wait)
	case "log":
		return l.String()
	case "store":
		var words []string
		for _, b := range s.node(name).disk {
			words = append(words, string(b.data))
		}
		return strings.Join(words, " ") + "\n"
	case "state":
		a := s.node(name).appender.State()
		return fmt.Sprintf("%s for %v, epoch %d, released %d, waiting %d with %d bytes, cause: %v\n",
			[]string{"running", "suspect", "ended"}[a.Status], time.Since(a.Since), a.Epoch, a.Released.Number, a.Waiting, a.WaitingBytes, a.Cause)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return ""
}

func (s *story) open(t *testing.T, name string, forgetful bool) string {
	n := s.node(name)
	n.close()
	var local iter.Seq2[[]byte, error]
	if !forgetful {
		local = func(yield func([]byte, error) bool) {
			for _, b := range n.disk[n.mark().Released.Number:] {
				if !yield(b.data, nil) {
					return
				}
			}
		}
	}
	a, err := changelog.OpenAppender(t.Context(), changelog.AppenderOptions{
		Log: s.log, Instance: "i", Node: name, Store: n.mark(), Local: local, Released: n.released, Logger: s.logger, MaxBytes: 1 << 20,
		Apply: func(_ context.Context, b changelog.StoredBatch) error {
			if b.Number != uint64(len(n.disk))+1 {
				return fmt.Errorf("batch %d cannot follow on %d", b.Number, len(n.disk))
			}
			n.disk = append(n.disk, storyBatch{b.Data, s.marks[string(b.Data)]})
			return nil
		},
		NextEpoch: func(context.Context) (uint64, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.owner == "" {
				s.owner = name
			}
			if s.owner != name {
				return 0, fmt.Errorf("%w: the owner is %s", changelog.ErrFenced, s.owner)
			}
			s.epoch++
			return s.epoch, nil
		},
		Valid: n.valid.Load,
	})
	if err != nil {
		return err.Error() + "\n"
	}
	n.appender = a
	synctest.Wait()
	state := a.State()
	return fmt.Sprintf("opened: epoch %d, the store has %d\n", state.Epoch, len(n.disk))
}

func (s *story) append(name, text string) {
	data := []byte(text)
	if size, ok := strings.CutSuffix(text, "kB"); ok {
		n, _ := strconv.Atoi(size)
		data = bytes.Repeat([]byte("x"), n<<10)
	}
	n := s.node(name)
	if n.appender == nil {
		fmt.Fprintf(&s.news, "%s: closed\n", name)
		return
	}
	mark := n.appender.Mark()
	s.marks[string(data)] = mark
	n.disk = append(n.disk, storyBatch{data, mark})
	n.released = mark.Released.Number
	go func() { // Append may block
		p := n.appender.Append(data)
		if err := p.Wait(context.Background()); err != nil {
			fmt.Fprintf(&s.news, "%s: batch %d failed: %v\n", name, p.Number(), err)
			return
		}
		fmt.Fprintf(&s.news, "%s: batch %d released\n", name, p.Number())
	}()
	synctest.Wait()
}

// note appends a record that is not a batch.
func (s *story) note(name, what string, call func(*changelog.Appender) error) {
	a := s.node(name).appender
	go func() {
		if err := call(a); err != nil {
			fmt.Fprintf(&s.news, "%s: %s failed: %v\n", name, what, err)
			return
		}
		fmt.Fprintf(&s.news, "%s: %s is in the log\n", name, what)
	}()
	synctest.Wait()
}

// scriptedLog is a log that fences as a sequence of expected positions does, without a gap. An append is stored if the log ends where its
// writer expects. Appends after a failed one are not refused for that, so releasing depends on the appender alone.
type scriptedLog struct {
	changelog.Log // the other methods are not called
	mu            sync.Mutex
	mode          string
	entries       []changelog.Entry
	trimmed       int
	held          []*scriptedTicket
}

var errScripted = fmt.Errorf("%w: as the script says", changelog.ErrUnknown)

type scriptedWriter struct {
	log    *scriptedLog
	marker changelog.Position
	next   changelog.Position
	closed chan struct{}
}

type scriptedTicket struct {
	expected changelog.Position
	record   changelog.Record
	closed   chan struct{} // of the writer
	done     chan struct{}
	err      error
}

func (l *scriptedLog) setMode(mode string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = mode
}

func (l *scriptedLog) Open(_ context.Context, _ string, marker changelog.Record) (changelog.Writer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == "down" {
		return nil, errScripted
	}
	for _, e := range l.entries {
		if e.Epoch > marker.Epoch {
			return nil, changelog.ErrFenced
		}
	}
	at := l.store(marker)
	if l.mode == "lose" {
		return nil, errScripted
	}
	return &scriptedWriter{log: l, marker: at, next: at, closed: make(chan struct{})}, nil
}

func (l *scriptedLog) Stat(context.Context, string) (s changelog.Stat, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.MaxBytes = 1 << 30
	switch l.mode {
	case "full":
		s.Bytes = s.MaxBytes
	case "down":
		err = errScripted
	}
	return s, err
}

func (l *scriptedLog) store(r changelog.Record) changelog.Position {
	at := changelog.Position(len(l.entries) + 1)
	r.Data = bytes.Clone(r.Data)
	l.entries = append(l.entries, changelog.Entry{Position: at, Record: r})
	return at
}

func (l *scriptedLog) put(word string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := parseEntries(word)[0]
	for _, before := range l.entries {
		if e.Kind == changelog.Batch && before.Kind == changelog.Batch && before.Number == e.Number-1 && before.Epoch <= e.Epoch {
			e.Chain = changelog.Chain(before.Chain, e.Record)
		}
	}
	l.store(e.Record)
}

func (l *scriptedLog) Read(ctx context.Context, _ string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == "down" {
		return entries{err: errScripted}.Read(ctx, "", 0)
	}
	end := len(l.entries)
	if l.mode == "stale" {
		end--
	}
	return entries{list: slices.Clone(l.entries)[l.trimmed:end], trimmed: changelog.Position(l.trimmed)}.Read(ctx, "", from)
}

func (l *scriptedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, e := range l.entries[l.trimmed:] {
		fmt.Fprintf(&b, "%d: %c epoch %d of %s", e.Position, e.Kind, e.Epoch, e.Node)
		if e.Kind == changelog.Batch {
			fmt.Fprintf(&b, ", batch %d", e.Number)
			if e.Parts > 1 {
				fmt.Fprintf(&b, ", part %d of %d", e.Part, e.Parts)
			}
			fmt.Fprintf(&b, ": %.10s", e.Data)
		} else if e.Kind != changelog.Opened {
			fmt.Fprintf(&b, ", batch %d", e.Number)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *scriptedWriter) Marker() changelog.Position { return w.marker }

func (w *scriptedWriter) Append(r changelog.Record) changelog.Ticket {
	t := &scriptedTicket{expected: w.next, record: r, closed: w.closed, done: make(chan struct{})}
	w.next++
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == "hold" {
		l.held = append(l.held, t)
	} else {
		l.end(t, l.mode)
	}
	return t
}

func (l *scriptedLog) answer(i int, mode string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(l.held[i], mode)
}

func (l *scriptedLog) end(t *scriptedTicket, mode string) {
	switch {
	case mode == "full":
		t.err = changelog.ErrFull
	case mode == "drop" || mode == "down":
		t.err = errScripted
	case t.expected != changelog.Position(len(l.entries)):
		t.err = fmt.Errorf("%w: refused", changelog.ErrUnknown)
	default:
		l.store(t.record)
		if mode == "lose" {
			t.err = errScripted
		}
	}
	close(t.done)
}

func (w *scriptedWriter) Close() error {
	close(w.closed)
	return nil
}

func (t *scriptedTicket) Wait(ctx context.Context) (changelog.Position, error) {
	select {
	case <-t.done:
		return t.expected + 1, t.err
	default:
	}
	select {
	case <-t.done:
		return t.expected + 1, t.err
	case <-t.closed:
		return 0, fmt.Errorf("%w: the writer was closed", changelog.ErrUnknown)
	case <-ctx.Done():
		return 0, errors.Join(changelog.ErrUnknown, ctx.Err())
	}
}
