package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
)

// drivers are a staging directory and a counting target, with faults. The target imports a file once.
type drivers struct {
	driver.Staging
	mode atomic.Int32

	mu    sync.Mutex
	files map[string]int64 // rows of the imported files by id
	rows  []tally          // by client
	rng   *rand.Rand
}

// The modes of the drivers.
const (
	healthy int32 = iota
	stagingDown
	targetDown
	answersLost // the work is done but the call fails
	hanging     // calls end with their context
	modes
)

func newDrivers(s driver.Staging, clients int, rng *rand.Rand) *drivers {
	return &drivers{Staging: s, files: map[string]int64{}, rows: make([]tally, clients), rng: rng}
}

func (d *drivers) heal() { d.mode.Store(healthy) }

func (d *drivers) arrived(client int) tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows[client]
}

var errFault = errors.New("a fault of the soak")

func (d *drivers) call(ctx context.Context, down int32, effect func() error) error {
	switch mode := d.mode.Load(); {
	case mode == down:
		return errFault
	case mode == hanging && d.coin():
		<-ctx.Done()
		return ctx.Err()
	case mode == answersLost:
		return errors.Join(effect(), errFault)
	}
	return effect()
}

func (d *drivers) coin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(2) == 0
}

func (d *drivers) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	return d.call(ctx, stagingDown, func() error { return d.Staging.Put(ctx, obj, src) })
}

func (d *drivers) Delete(ctx context.Context, objs ...driver.Object) error {
	return d.call(ctx, stagingDown, func() error { return d.Staging.Delete(ctx, objs...) })
}

func (d *drivers) Ensure(context.Context, driver.Table) error { return nil }

func (d *drivers) Import(ctx context.Context, f *driver.File) error {
	return d.call(ctx, targetDown, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if _, known := d.files[f.ID]; known {
			return nil
		}
		rows := make([]tally, len(d.rows))
		var n int64
		for _, obj := range f.Slices {
			rc, err := f.OpenRows(ctx, obj)
			if err != nil {
				return err
			}
			k, err := count(rc, rows)
			rc.Close()
			if err != nil {
				return err
			}
			n += k
		}
		d.files[f.ID] = n
		for i := range rows {
			d.rows[i].n += rows[i].n
			d.rows[i].sum += rows[i].sum
			d.rows[i].squares += rows[i].squares
		}
		return nil
	})
}

func count(r io.Reader, into []tally) (n int64, err error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	for {
		row, err := in.Read()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		client, err1 := strconv.Atoi(row[0])
		seq, err2 := strconv.ParseInt(row[1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return n, driver.Permanent(err)
		}
		into[client].add(seq)
		n++
	}
}

// CountFile implements [driver.Counter].
func (d *drivers) CountFile(_ context.Context, _ driver.Table, id string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[id], nil
}

// cause injects faults until ctx ends.
func (s *soak) cause(ctx context.Context) {
	for {
		if ctxio.Sleep(ctx, time.Duration(s.rng.Float64()*2*float64(s.cfg.faultEvery))) != nil {
			return
		}
		s.faults++
		switch kind := s.rng.IntN(10); {
		case kind < 7:
			s.drivers.mode.Store(1 + s.rng.Int32N(modes-1))
			_ = ctxio.Sleep(ctx, time.Duration(s.rng.Float64()*float64(3*time.Second)))
			s.drivers.heal()
		case kind < 8: // a changed definition closes the open file
			_ = s.eng.Define(ctx, source(100_000+s.rng.Int64N(200_000)))
		case kind < 9:
			to := filepath.Join(s.cfg.dir, "checkpoints", fmt.Sprint(s.faults))
			if err := s.eng.Checkpoint(ctx, to); err == nil {
				_ = os.RemoveAll(to)
			}
		default:
			if err := s.restart(ctx); err != nil {
				panic(err) // the run cannot continue
			}
		}
	}
}

func (s *soak) restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.eng.Close(); err != nil {
		return err
	}
	s.restarts++
	return s.open(context.WithoutCancel(ctx))
}
