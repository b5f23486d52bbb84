package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driver"
)

// link is the connection of one process to everything outside. A dead process gets no response, and none of its requests takes effect. A process
// that stalls waits.
type link struct {
	w    *world
	name string

	mu   sync.Mutex
	dead bool
	held chan struct{} // nil if nothing is held up, closed when it continues
	// before runs before each call with its name, without the lock held. With an error nothing happens.
	before func(call string) error
	// after runs after each call. With an error its response is lost.
	after func(call string) error
}

var errDead = errors.New("the process is dead")

func (l *link) pass(ctx context.Context) error {
	for {
		l.mu.Lock()
		dead, held := l.dead, l.held
		l.mu.Unlock()
		switch {
		case dead:
			return errDead
		case held == nil:
			return nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *link) hook(ctx context.Context, call string, at *func(string) error) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	f := *at
	l.mu.Unlock()
	if f != nil {
		if err := f(call); err != nil {
			return err
		}
	}
	return l.pass(ctx)
}

func (l *link) setHooks(before, after func(call string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

// stop lets the process stand still.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

func (l *link) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

func (l *link) die() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.resume()
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead && l.held == nil
}

// through makes a call of a process.
func through[R any](ctx context.Context, l *link, call string, do func() (R, error)) (none R, err error) {
	if err := l.hook(ctx, call, &l.before); err != nil {
		return none, err
	}
	result, err := do()
	if err := l.hook(ctx, call, &l.after); err != nil {
		return none, err
	}
	return result, err
}

func call(ctx context.Context, l *link, name string, do func() error) error {
	_, err := through(ctx, l, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// linkedLog is the log as a process sees it.
type linkedLog struct {
	*link
	log changelog.Log
}

// Create arrives even if the process no longer waits for its response, like any request that has been sent.
func (l linkedLog) Create(ctx context.Context, instance string) error {
	return call(ctx, l.link, "log create", func() error { return l.log.Create(context.WithoutCancel(ctx), instance) })
}

func (l linkedLog) Open(ctx context.Context, instance string, marker changelog.Record) (changelog.Writer, error) {
	w, err := through(ctx, l.link, "log open", func() (changelog.Writer, error) { return l.log.Open(ctx, instance, marker) })
	if err != nil {
		return nil, err
	}
	return linkedWriter{w, l.link}, nil
}

func (l linkedLog) Read(ctx context.Context, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
	return func(yield func(changelog.Entry, error) bool) {
		if err := l.hook(ctx, "log read", &l.before); err != nil {
			yield(changelog.Entry{}, err)
			return
		}
		for e, err := range l.log.Read(ctx, instance, from) {
			if passErr := l.pass(ctx); passErr != nil {
				yield(changelog.Entry{}, passErr)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (l linkedLog) Trim(ctx context.Context, instance string, through changelog.Position) error {
	return call(ctx, l.link, "log trim", func() error { return l.log.Trim(ctx, instance, through) })
}

func (l linkedLog) Stat(ctx context.Context, instance string) (changelog.Stat, error) {
	return through(ctx, l.link, "log stat", func() (changelog.Stat, error) { return l.log.Stat(ctx, instance) })
}

func (l linkedLog) Delete(ctx context.Context, instance string) error {
	return call(ctx, l.link, "log delete", func() error { return l.log.Delete(ctx, instance) })
}

// Leaders implements [changelog.Elector].
func (l linkedLog) Leaders(ctx context.Context, instance string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := l.hook(ctx, "log leaders", &l.before); err != nil {
			yield("", err)
			return
		}
		l.log.(changelog.Elector).Leaders(ctx, instance)(yield)
	}
}

// linkedWriter holds up appends and their responses.
type linkedWriter struct {
	changelog.Writer
	*link
}

func (w linkedWriter) Append(r changelog.Record) changelog.Ticket {
	if err := w.hook(context.Background(), "log append "+string(r.Kind), &w.before); err != nil {
		_ = w.Writer.Close() // as a connection that is lost. Nothing more is stored, and nothing more is heard
		return failedTicket{err}
	}
	return linkedTicket{w.Writer.Append(r), w.link, r.Kind}
}

type linkedTicket struct {
	changelog.Ticket
	*link
	kind changelog.Kind
}

func (t linkedTicket) Wait(ctx context.Context) (changelog.Position, error) {
	at, err := t.Ticket.Wait(ctx)
	if passErr := t.hook(ctx, "log append "+string(t.kind), &t.after); passErr != nil {
		return 0, fmt.Errorf("%w: %w", changelog.ErrUnknown, passErr)
	}
	return at, err
}

type failedTicket struct{ err error }

func (t failedTicket) Wait(context.Context) (changelog.Position, error) {
	return 0, fmt.Errorf("%w: %w", changelog.ErrUnknown, t.err)
}

// owners names a call of the store of owners: "owners set" of a record, "note set" of what package checkpoint notes.
func owners(key, call string) string {
	if strings.HasPrefix(key, "c.") {
		return "note " + call
	}
	return "owners " + call
}

// linkedOwners is the store of owners as a process sees it.
type linkedOwners struct {
	*link
	owners changelog.Owners
}

func (o linkedOwners) Get(ctx context.Context, key string) (changelog.Versioned, error) {
	return through(ctx, o.link, owners(key, "get"), func() (changelog.Versioned, error) { return o.owners.Get(ctx, key) })
}

func (o linkedOwners) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	return through(ctx, o.link, owners(key, "set"), func() (changelog.Version, error) { return o.owners.CompareAndSet(ctx, key, old, value) })
}

func (o linkedOwners) Delete(ctx context.Context, key string, old changelog.Version) error {
	return call(ctx, o.link, owners(key, "delete"), func() error { return o.owners.Delete(ctx, key, old) })
}

func (o linkedOwners) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return func(yield func(changelog.Versioned, error) bool) {
		for v, err := range o.owners.Watch(ctx, prefix) {
			if passErr := o.pass(ctx); passErr != nil {
				yield(changelog.Versioned{}, passErr)
				return
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// linkedMemory is staging and tables as a process sees them.
type linkedMemory struct {
	*link
	mem *buffertest.Memory
}

// errHalf is the error of a hook by which a put fails half-way. A part of an object is there that was not there before.
var errHalf = errors.New("the connection was lost half-way")

func (m linkedMemory) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	var data bytes.Buffer
	if _, err := src.WriteTo(&data); err != nil {
		return err
	}
	err := call(ctx, m.link, "put "+obj.ID, func() error {
		m.w.means("object "+obj.ID, data.String())
		return m.mem.Put(ctx, obj, src)
	})
	there := func(o driver.Object) bool { return o.ID == obj.ID }
	if errors.Is(err, errHalf) && !slices.ContainsFunc(m.mem.Objects(), there) {
		return errors.Join(err, m.mem.Put(ctx, obj, content(data.Bytes()[:data.Len()/2])))
	}
	return err
}

func (m linkedMemory) Open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	return through(ctx, m.link, "open "+obj.ID, func() (io.ReadCloser, error) { return m.mem.Open(ctx, obj) })
}

func (m linkedMemory) Delete(ctx context.Context, objs ...driver.Object) error {
	return call(ctx, m.link, "delete "+objs[0].ID, func() error { return m.mem.Delete(ctx, objs...) })
}

func (m linkedMemory) Ensure(ctx context.Context, t driver.Table) error {
	return call(ctx, m.link, "ensure", func() error { return m.mem.Ensure(ctx, t) })
}

func (m linkedMemory) Import(ctx context.Context, f *driver.File) error {
	return call(ctx, m.link, "import "+f.ID, func() error {
		m.w.means("file "+f.ID, fmt.Sprint(f.Slices))
		return m.mem.Import(ctx, f)
	})
}

func (m linkedMemory) CountFile(ctx context.Context, t driver.Table, id string) (int64, error) {
	return m.mem.CountFile(ctx, t, id)
}
