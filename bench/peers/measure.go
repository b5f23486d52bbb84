package main

import (
	"context"
	"os"
	"time"
)

// measurement is a round of one peer, on an empty table and in an empty folder.
type measurement struct {
	options
	db   *database
	peer *peer
}

func (m measurement) measure(ctx context.Context) (*result, error) {
	dir, err := os.MkdirTemp(m.dir, "peers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := m.db.reset(ctx); err != nil {
		return nil, err
	}
	p, err := startPeer(ctx, m.peer, place{Dir: dir, Database: m.db.url, Batch: m.batch})
	if err != nil {
		return nil, err
	}
	defer func() { p.Kill() }()
	r := &result{Peer: m.peer.name, Settings: m.peer.settings}
	speed, err := m.speed(ctx, p)
	if err != nil {
		return nil, err
	}
	r.Rounds = append(r.Rounds, speed)
	if m.kills > 0 {
		if r.Kills, err = m.faulty(ctx, p, func(l *load) error { return m.killed(ctx, p, l) }); err != nil {
			return nil, err
		}
	}
	if m.outage > 0 {
		if r.Outage, err = m.faulty(ctx, p, func(l *load) error { return m.away(ctx, l) }); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// speed sends events as fast as the peer takes them. The peer's costs count until its last row is stored.
func (m measurement) speed(ctx context.Context, p *process) (s speed, err error) {
	l := newLoad(m.peer, p.Addr, 0)
	before, err := p.usage()
	if err != nil {
		return s, err
	}
	database := m.db.server.CPU()
	l.start()
	defer l.end()
	if err := wait(ctx, m.warm); err != nil {
		return s, err
	}
	from := time.Now()
	if err := wait(ctx, m.duration); err != nil {
		return s, err
	}
	to := time.Now()
	l.end()
	s.Audit, err = m.db.settled(ctx, l, m.settle)
	if err != nil {
		return s, err
	}
	after, err := p.usage()
	if err != nil {
		return s, err
	}
	acknowledged := float64(s.Audit.Acknowledged)
	s.CPU = float64((after.cpu - before.cpu).Microseconds()) / acknowledged
	s.DatabaseCPU = float64((m.db.server.CPU() - database).Microseconds()) / acknowledged
	s.MemoryMB = float64(after.memory-before.memory) / 1e6
	s.Written = float64(after.written-before.written) / (acknowledged * float64(len(event(l.first))))
	s.PerS, s.P50, s.P99 = l.between(from, to)
	s.Fresh = s.Audit.freshP99
	return s, nil
}

// faulty sends events at a fixed rate until the fault is over.
func (m measurement) faulty(ctx context.Context, p *process, fault func(*load) error) (f fault, err error) {
	l := newLoad(m.peer, p.Addr, time.Duration(connections)*time.Second/time.Duration(m.rate))
	begin := time.Now()
	l.start()
	defer l.end()
	// Some rows first, then the fault, then some rows more.
	for _, step := range []func(*load) error{m.some(ctx), fault, m.some(ctx)} {
		if err := step(l); err != nil {
			return f, err
		}
	}
	f.Offered = int(time.Since(begin).Seconds() * float64(m.rate))
	l.end()
	f.Refused = l.refused()
	f.Audit, err = m.db.settled(ctx, l, m.settle)
	return f, err
}

// some waits for as many confirmed events as half a second brings.
func (m measurement) some(ctx context.Context) func(*load) error {
	return func(l *load) error { return l.wait(ctx, int64(m.rate/2)) }
}

func (m measurement) killed(ctx context.Context, p *process, l *load) error {
	for range m.kills {
		if err := p.restart(ctx); err != nil {
			return err
		}
		if err := m.some(ctx)(l); err != nil {
			return err
		}
	}
	return nil
}

func (m measurement) away(ctx context.Context, l *load) error {
	restore, err := m.db.server.Shutdown()
	if err != nil {
		return err
	}
	err = wait(ctx, m.outage)
	if failed := restore(); failed != nil {
		return failed
	}
	return err
}

// wait returns after d, or with an error when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
