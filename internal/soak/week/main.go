// Command week plays a week in an hour. Three nodes of a cluster, each a process with a server of NATS inside, load a server of PostgreSQL, MariaDB
// or ClickHouse over seven short days, and something breaks all the time.
//
//	cd internal/soak/week && go run .                               an hour; the results are in week.csv and week.svg
//	cd internal/soak/week && go run . -duration 3m -days 1 -faults 6   shorter
//	cd internal/soak/week && go run . -target mysql                 with MariaDB; clickhouse is the third target
//
// It is a separate module because of the servers of NATS and the clients of the databases. It needs Linux and the programs of the database.
//
// The load follows day and night, and is lower at the weekend. Each event goes to two sinks, one with a column of each type, one with untyped
// columns. Both have a quarantine and a table that grows by a column a day. Some events cannot be mapped, and some make rows that the
// database refuses. Clients repeat an event under another id until a node has acknowledged it.
//
// Each day has some faults, one at a time: a node is killed, stands still, is stopped or loses its disk; the database is killed, away
// or stands still; the folder of the staging fails. The next one begins when all nodes are ready again. Meanwhile an operator adds columns, and
// edits, replays and discards quarantined records, through any node, even during faults.
//
// At the end each acknowledged event must be in exactly one place for each sink: in the table once, with the right cells, in the quarantine once,
// or among the records that the operator has discarded. An attempt that was not acknowledged must be in one place at most. The exit status is 1
// if that does not hold, if a ledger does not, or if the nodes take more than one and a half times the memory of the second day on a later one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
)

// config are the flags.
type config struct {
	duration     time.Duration
	days, faults int
	rate         float64
	bad, poison  float64
	lease        time.Duration
	dir, out     string
	target       string
	seed         uint64
}

// maxDays is how many columns an event has for tables that grow by one a day.
const maxDays = 7

func main() {
	clickhousetest.Main()
	if os.Getenv(nodeEnv) != "" {
		if err := runNode(context.Background(), os.Getenv(nodeEnv), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "week: a node:", err)
			os.Exit(1)
		}
		return
	}
	cfg, err := parseConfig(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "week:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	if err := run(ctx, cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "week:", err)
		os.Exit(1)
	}
}

func parseConfig(args []string, usage io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("week", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.DurationVar(&cfg.duration, "duration", time.Hour, "how long events are sent")
	flags.IntVar(&cfg.days, "days", maxDays, "days that it stands for")
	flags.IntVar(&cfg.faults, "faults", 4, "faults a day")
	flags.Float64Var(&cfg.rate, "rate", 300, "events per second at noon of a working day")
	flags.Float64Var(&cfg.bad, "bad", 0.004, "share of the events that a sink cannot map")
	flags.Float64Var(&cfg.poison, "poison", 0.001, "share of the events of which the database refuses a row")
	flags.DurationVar(&cfg.lease, "lease", 12*time.Second, "silence after which another node takes over")
	flags.StringVar(&cfg.dir, "dir", "", "folder for the nodes, which must not exist (default: a temporary one, removed after a success)")
	flags.StringVar(&cfg.out, "out", "week", "where to write, without .csv and .svg")
	flags.StringVar(&cfg.target, "target", "postgres", "database of the tables: postgres, mysql or clickhouse")
	flags.Uint64Var(&cfg.seed, "seed", 0, "seed of events and faults (default: a new one, which is printed)")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	for cfg.seed == 0 {
		cfg.seed = rand.Uint64N(1 << 32)
	}
	switch {
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case databases[cfg.target] == nil:
		return cfg, fmt.Errorf("-target is %q, must be postgres, mysql or clickhouse", cfg.target)
	case cfg.days < 1 || cfg.days > maxDays:
		return cfg, fmt.Errorf("-days is %d, must be 1 to %d", cfg.days, maxDays)
	case cfg.duration < time.Duration(cfg.days)*time.Second:
		return cfg, fmt.Errorf("-duration is %s, must be at least a second a day", cfg.duration)
	case cfg.faults < 0:
		return cfg, fmt.Errorf("-faults is %d, must not be negative", cfg.faults)
	case cfg.rate <= 0:
		return cfg, fmt.Errorf("-rate is %g, must be positive", cfg.rate)
	case cfg.bad < 0 || cfg.poison < 0 || cfg.bad+cfg.poison > 0.2:
		return cfg, errors.New("-bad and -poison must not be negative, nor more than 0.2 together: databases name one refused row at a time")
	case cfg.lease < 3*time.Second:
		return cfg, fmt.Errorf("-lease is %s, must be at least 3s", cfg.lease)
	}
	return cfg, nil
}
