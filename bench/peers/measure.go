package main

import (
	"context"
	"errors"
	"os"
	"time"
)

// measurement is of one peer, on an empty table and in an empty folder.
type measurement struct {
	options
	db      *database
	peer    *peer
	process *process
}

// in starts the peer for a measurement.
func (m measurement) in(ctx context.Context, measure func(measurement) error) error {
	dir, err := os.MkdirTemp(m.dir, "peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := m.db.reset(ctx); err != nil {
		return err
	}
	if m.process, err = startPeer(ctx, m.peer, place{Dir: dir, Database: m.db.url, Batch: m.batch}); err != nil {
		return err
	}
	defer func() { m.process.Kill() }()
	return measure(m)
}

// speed sends events as fast as the peer takes them. The peer's costs count until its last row is stored.
func (m measurement) speed(ctx context.Context, r *result) error {
	l := newLoad(m.peer, m.process.Addr, 0)
	before, err := m.process.usage()
	if err != nil {
		return err
	}
	database := m.db.server.CPU()
	l.start()
	defer l.end()
	if err := wait(ctx, m.warm); err != nil {
		return err
	}
	from := time.Now()
	if err := wait(ctx, m.duration); err != nil {
		return err
	}
	to := time.Now()
	l.end()
	var s speed
	if s.Audit, err = m.db.settled(ctx, l, m.settle); err != nil {
		return err
	}
	after, err := m.process.usage()
	if err != nil {
		return err
	}
	acknowledged := float64(s.Audit.Acknowledged)
	s.CPU = float64((after.cpu - before.cpu).Microseconds()) / acknowledged
	s.DatabaseCPU = float64((m.db.server.CPU() - database).Microseconds()) / acknowledged
	s.MemoryMB = float64(after.memory-before.memory) / 1e6
	s.Written = float64(after.written-before.written) / (acknowledged * float64(len(event(l.first))))
	s.PerS, s.P50, s.P99 = l.between(from, to)
	s.Fresh = s.Audit.freshP99
	r.Rounds = append(r.Rounds, s)
	return nil
}

// kill sends events while the peer is killed and started again.
func (m measurement) kill(ctx context.Context, r *result) error {
	return m.faulty(ctx, &r.Kills, func(l *load) error {
		for range m.kills {
			if err := m.process.restart(ctx); err != nil {
				return err
			}
			if err := m.some(ctx, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// away sends events while the database is down.
func (m measurement) away(ctx context.Context, r *result) error {
	return m.faulty(ctx, &r.Outage, func(*load) error {
		restore, err := m.db.server.Shutdown()
		if err != nil {
			return err
		}
		return errors.Join(wait(ctx, m.outage), restore())
	})
}

// faulty sends events at a fixed rate, some before the fault and some after it.
func (m measurement) faulty(ctx context.Context, f *fault, do func(*load) error) (err error) {
	l := newLoad(m.peer, m.process.Addr, time.Duration(connections)*time.Second/time.Duration(m.rate))
	begin := time.Now()
	l.start()
	defer l.end()
	if err := m.some(ctx, l); err != nil {
		return err
	}
	if err := do(l); err != nil {
		return err
	}
	if err := m.some(ctx, l); err != nil {
		return err
	}
	f.Offered = int(time.Since(begin).Seconds() * float64(m.rate))
	l.end()
	f.Refused = l.refused()
	f.Audit, err = m.db.settled(ctx, l, m.settle)
	return err
}

// some waits for as many confirmed events as half a second brings.
func (m measurement) some(ctx context.Context, l *load) error { return l.wait(ctx, int64(m.rate/2)) }

// wait returns after d, or with an error when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
