// Package pipebench measures the path from an event to a query. It compares an engine that has a driver with the code that a user would write
// instead for the same database, with the same events in one run. Each driver has a command for it:
//
//	cd drivers/sqlite && go run ./bench pipeline -json
//
// The scenarios, from which -run chooses:
//
//	pipeline/NAME/http            one event a request, over 64 connections, against a net/http handler that stores each event before it responds
//	pipeline/NAME/callers         1,024 goroutines in the process, against as many with single inserts; and 16 with batches of 100, both ways.
//	                              If an insert waits for a file that many share: also against inserts with a file each
//	pipeline/NAME/fresh           the time from an event to the query that sees it, at 20,000 events/s
//	pipeline/NAME/outage/OUTAGE   http, while the database is away for a while
//	pipeline/NAME/kills           http, while the service is killed ten times. If the database can be opened by a second process
//
// The engine uploads and imports each second. Every measurement ends when a query sees the last row, and fails if the number of rows is not the
// number that was confirmed.
package pipebench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/importbench"
)

// Database is the database of a driver's command, and how to reach it.
type Database struct {
	// Name is for example postgres.
	Name string
	// Reset removes the table, and the driver's data about it.
	Reset func(ctx context.Context) error
	// Target opens the driver. close is called after the engine is closed.
	Target func(ctx context.Context) (target driver.Target, close func() error, err error)
	// Own opens the user's own way, with the table created again.
	Own func(ctx context.Context) (Own, error)
	// Count returns the exact number of rows that a query sees in the table. The query is independent of Target and Own.
	Count func(ctx context.Context) (int64, error)
	// Seen, if not nil, is a cheaper Count for a table to which rows are only added. It is called every 20 ms.
	Seen func(ctx context.Context) (int64, error)
	// Close, if not nil, is called at the end.
	Close func() error
	// CPU, if not nil, returns the processor time of the processes of the database.
	CPU func() time.Duration
	// Outages, by name, take the database away. restore gives it back.
	Outages map[string]func() (restore func() error, err error)
	// Address, if not empty, is where a second process, whose [Address] it is, opens the database.
	Address string
	// Users returns how many rows have each user_id. It is needed with Address.
	Users func(ctx context.Context) (map[int64]int, error)
}

// Own is how a user would store events without an engine, as durably. Both calls are for many goroutines.
type Own struct {
	// Insert stores one event.
	Insert func(ctx context.Context, e Event) error
	// InsertBatch, if not nil, stores events in one round trip or transaction, as the database's users do.
	InsertBatch func(ctx context.Context, batch []Event) error
	// InsertAlone, if not nil, stores one event in its own file or commit. It is for a database whose Insert waits for a shared file or commit.
	InsertAlone func(ctx context.Context, e Event) error
	// InsertLater, if not nil, keeps one event in memory and returns, see [InMemory]. Flush stores all kept events.
	InsertLater func(ctx context.Context, e Event) error
	Flush       func(ctx context.Context) error
	Close       func() error
}

type bench struct {
	db       Database
	duration time.Duration
	outage   time.Duration
	rounds   int
	kills    int
	dir      string
}

// Compare measures the scenarios of imports, or the database in a temporary folder if the first argument is pipeline. Its process begins with [Main]
// or [Process].
func Compare(ctx context.Context, args []string, stdout io.Writer, database func(dir string) (Database, error), imports ...importbench.Scenario) (err error) {
	if len(args) == 0 || args[0] != "pipeline" {
		return importbench.Run(ctx, args, stdout, imports...)
	}
	dir, err := os.MkdirTemp("", "pipeline-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := database(dir)
	if err != nil {
		return err
	}
	if db.Close != nil {
		defer func() { err = errors.Join(err, db.Close()) }()
	}
	return Run(ctx, args[1:], stdout, db)
}

// Run runs the command with these arguments: it measures and writes the report. Its process begins with [Main] or [Process].
func Run(ctx context.Context, args []string, stdout io.Writer, db Database) error {
	b := bench{db: db}
	if text, ok := os.LookupEnv(serviceEnv); ok {
		return b.serveUntilKilled(ctx, text, stdout)
	}
	flags := flag.NewFlagSet("pipeline", flag.ContinueOnError)
	flags.DurationVar(&b.duration, "duration", 20*time.Second, "how long events are sent")
	flags.DurationVar(&b.outage, "outage", time.Minute, "how long the database is away; events are sent for a quarter of -duration before it and after it")
	flags.IntVar(&b.rounds, "rounds", 3, "measurements of each way of http and callers, in turn; medians are reported")
	flags.StringVar(&b.dir, "dir", "", "`folder` on the disk under test, for the engine (default: the system's temporary folder)")
	pattern := flags.String("run", ".", "measure the scenarios whose names match this `regexp`")
	flags.IntVar(&b.kills, "kills", 10, "how often the scenario kills kills each service, which serves for about a tenth of -duration")
	asJSON := flags.Bool("json", false, "one JSON object a line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	re, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	for _, s := range b.scenarios() {
		s.name = "pipeline/" + db.Name + "/" + s.name
		if !re.MatchString(s.name) {
			continue
		}
		r := result{Scenario: s.name, Ways: map[string]measured{}}
		if err := s.measure(ctx, &r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if *asJSON {
			err = json.NewEncoder(stdout).Encode(r)
		} else {
			err = r.print(stdout)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type scenario struct {
	name    string
	measure func(context.Context, *result) error
}

// The names of the ways.
const (
	byEngine        = "engine"
	byInserts       = "inserts"
	byAlone         = "each alone"
	byLater         = "in memory"
	byBatches       = "batches"
	byEngineBatches = "engine in batches"
)

var ways = []string{byInserts, byAlone, byLater, byBatches, byEngine, byEngineBatches}

func (b *bench) scenarios() []scenario {
	all := []scenario{{"http", b.http}, {"callers", b.callers}, {"fresh", b.fresh}}
	for name, outage := range b.db.Outages {
		all = append(all, scenario{"outage/" + name, func(ctx context.Context, r *result) error { return b.away(ctx, r, outage) }})
	}
	if b.db.Address != "" {
		all = append(all, scenario{"kills", b.killed})
	}
	slices.SortFunc(all[3:], func(a, b scenario) int { return cmp.Compare(a.name, b.name) })
	return all
}

func (b *bench) http(ctx context.Context, r *result) error {
	err := b.inTurns(r, map[string]func() (measured, error){
		byInserts: func() (measured, error) { return b.overHTTP(ctx, b.inserts) },
		byLater:   func() (measured, error) { return b.overHTTP(ctx, b.later) },
		byEngine:  func() (measured, error) { return b.overHTTP(ctx, b.engine) },
	})
	if err != nil {
		return err
	}
	r.goal("rows/s of inserts", r.ratio(byEngine, byInserts, rowsPerS), ">=", 2)
	r.goal("CPU of inserts", r.ratio(byEngine, byInserts, cpuPerRow), "<=", 1.0/3)
	r.goal("p99 of inserts", r.ratio(byEngine, byInserts, p99), "<=", 1)
	return nil
}

func (b *bench) callers(ctx context.Context, r *result) error {
	err := b.inTurns(r, map[string]func() (measured, error){
		byInserts:       func() (measured, error) { return b.inProcess(ctx, b.inserts) },
		byAlone:         func() (measured, error) { return b.inProcess(ctx, b.alone) },
		byLater:         func() (measured, error) { return b.inProcess(ctx, b.later) },
		byEngine:        func() (measured, error) { return b.inProcess(ctx, b.engine) },
		byBatches:       func() (measured, error) { return b.inBatches(ctx, b.inserts) },
		byEngineBatches: func() (measured, error) { return b.inBatches(ctx, b.engine) },
	})
	if err != nil {
		return err
	}
	r.goal("rows/s of inserts", r.ratio(byEngine, byInserts, rowsPerS), ">=", 8)
	r.goal("CPU of inserts", r.ratio(byEngine, byInserts, cpuPerRow), "<=", 1.0/8)
	if _, ok := r.Ways[byAlone]; ok {
		r.goal("CPU of inserts, each alone", r.ratio(byEngine, byAlone, cpuPerRow), "<=", 1.0/8)
	}
	if _, ok := r.Ways[byBatches]; ok {
		r.goal("rows/s of batches", r.ratio(byEngine, byBatches, rowsPerS), ">=", 2)
		r.goal("rows/s of batches, both in batches", r.ratio(byEngineBatches, byBatches, rowsPerS), ">=", 2)
	}
	return nil
}

// errNone says that the database has no such way.
var errNone = errors.New("no such way")

// inTurns measures each way once a round.
func (b *bench) inTurns(r *result, measures map[string]func() (measured, error)) error {
	for range b.rounds {
		for _, name := range ways {
			measure := measures[name]
			if measure == nil {
				continue
			}
			m, err := measure()
			if errors.Is(err, errNone) {
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			r.add(name, m)
		}
	}
	r.finish()
	return nil
}

// databaseCPU is the processor time of the database.
func (b *bench) databaseCPU() time.Duration {
	if b.db.CPU == nil {
		return 0
	}
	return b.db.CPU()
}
