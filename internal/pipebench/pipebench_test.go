package pipebench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) { os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run)) }

// counter is a target that counts rows. lose is how many rows a file has that are not counted.
type counter struct {
	rows atomic.Int64
	away atomic.Bool
	lose int64

	inserted, refused signal // inserts before and while it was away
}

// signal has room for one event that a goroutine may wait for.
type signal chan struct{}

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// wait is bounded, so that a client that ends early makes the test fail and not hang.
func (s signal) wait() error {
	select {
	case <-s:
		return nil
	case <-time.After(10 * time.Second):
		return errors.New("no insert came")
	}
}

var errAway = errors.New("the database is away")

func (c *counter) Ensure(context.Context, driver.Table) error { return nil }

func (c *counter) Import(ctx context.Context, f *driver.File) error {
	if c.away.Load() {
		return errAway
	}
	rows, n := f.ReadRows(ctx), -c.lose
	defer rows.Close()
	for rows.Next() {
		n++
	}
	if rows.Err() == nil {
		c.rows.Add(n)
	}
	return rows.Err()
}

func database(c *counter) pipebench.Database {
	own := false // whether the handler that inserts is measured
	store := func(n int64) error {
		if c.away.Load() {
			c.refused.set()
			return errAway
		}
		c.rows.Add(n)
		c.inserted.set()
		return nil
	}
	return pipebench.Database{
		Name:  "counter",
		Reset: func(context.Context) error { c.rows.Store(0); return nil },
		Target: func(context.Context) (driver.Target, func() error, error) {
			own = false
			return c, func() error { return nil }, nil
		},
		Own: func(context.Context) (pipebench.Own, error) {
			own = true
			c.inserted, c.refused = make(signal, 1), make(signal, 1)
			return pipebench.Own{
				Insert:      func(context.Context, pipebench.Event) error { return store(1) },
				InsertAlone: func(context.Context, pipebench.Event) error { return store(1) },
				InsertBatch: func(_ context.Context, batch []pipebench.Event) error { return store(int64(len(batch))) },
				Close:       func() error { return nil },
			}, nil
		},
		Count: func(context.Context) (int64, error) { return c.rows.Load(), nil },
		Outages: map[string]func() (func() error, error){"none": func() (func() error, error) {
			var err error
			if own {
				err = c.inserted.wait()
			}
			c.away.Store(true)
			return func() (err error) {
				if own {
					err = c.refused.wait()
				}
				c.away.Store(false)
				return err
			}, err
		}},
	}
}

func TestRunReportsEachScenario(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-duration", "100ms", "-outage", "100ms", "-rounds", "2", "-dir", t.TempDir()}
	if err := pipebench.Run(t.Context(), append(args, "-json"), &out, database(&counter{})); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(&out)
	for _, want := range []struct {
		scenario string
		ways     []string
	}{
		{"http", []string{"engine", "inserts"}},
		{"callers", []string{"batches", "each alone", "engine", "engine in batches", "inserts"}},
		{"fresh", []string{"engine"}},
		{"outage/none", []string{"engine", "inserts"}},
	} {
		var r struct {
			Scenario string
			Ways     map[string]struct {
				RowsPerS float64 `json:"rows_per_s"`
				P99      float64 `json:"p99_ms"`
				Failed   float64
			}
			Goals []struct{ Value float64 }
		}
		if err := lines.Decode(&r); err != nil || r.Scenario != "pipeline/counter/"+want.scenario || len(r.Goals) < 2 {
			t.Fatalf("got %+v, %v, want %s", r, err, want.scenario)
		}
		for _, way := range want.ways {
			m := r.Ways[way]
			if away := want.scenario == "outage/none" && way == "inserts"; m.RowsPerS <= 0 || m.P99 <= 0 || (m.Failed > 0) != away {
				t.Errorf("got %s, %s: %+v, want m.RowsPerS > 0 and m.P99 > 0 and (m.Failed > 0) == %v", r.Scenario, way, m, away)
			}
		}
	}
	err := pipebench.Run(t.Context(), append(args, "-run", "http"), &out, database(&counter{lose: 1}))
	if err == nil || !strings.Contains(err.Error(), "were confirmed") {
		t.Errorf("%v although rows are missing", err)
	}
	out.Reset()
	if err := pipebench.Run(t.Context(), append(args, "-run", "fresh"), &out, database(&counter{})); err != nil || !strings.Contains(out.String(), "ms from event to query, p99 (goal <= 2000: met") {
		t.Errorf("got %v, %s, want no error and a goal that is met", err, &out)
	}
}
