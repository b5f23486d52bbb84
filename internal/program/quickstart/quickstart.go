// Package quickstart moves events all the way on one machine. It opens an engine in a directory, serves the ingestion
// endpoint on a loopback port, sends webhook-like events to it over HTTP, and waits until they are in the tables. Then it
// reads the tables back to see that every acknowledged event is there exactly once.
//
// The last line on standard output has the result. The exit status is 1 if a row was lost or doubled:
//
//	quickstart: sent=10000 rows=20000 rejected=0 lost=0 duplicated=0
//
// sent counts events. The other figures count rows, and every event has one in each of the two tables. rows are in the tables, rejected rows
// were permanently refused by a sink, lost rows were acknowledged and are missing, and duplicated rows are there more than once. With -crash
// the line ends with unconfirmed=U: rows that are in a table although their response was lost with the process.
package quickstart

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/internal/program/store"
)

type config struct {
	n, clients, bad, kills int
	dir                    string
	crash, ui              bool
	outage                 time.Duration // of -ui; 0 is the default
	seed                   uint64
	child                  string // the data directory of the process that -crash kills
	open                   store.Open
	childArgs              func() []string
}

// Options are the differences between programs.
type Options struct {
	// Name of the program begins its errors. Default: "quickstart".
	Name string
	// Flags adds flags. Nil adds none.
	Flags func(*flag.FlagSet)
	// Open opens the tables. Nil is [store.Folders].
	Open store.Open
	// Child returns the first arguments with which this executable runs [Main] as the process that -crash kills. Main adds two.
	Child func() []string

	outage time.Duration // of tests
}

// Main is the program. It returns the exit status: 0, 1 if it failed, 2 for wrong flags.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, o Options) int {
	o.Name = cmp.Or(o.Name, "quickstart")
	cfg, err := parseFlags(args, stderr, o)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	if cfg.child != "" {
		if err := runChild(cfg, stdout); err != nil {
			fmt.Fprintln(stderr, o.Name+": engine process:", err)
			return 1
		}
		return 0
	}
	if err := run(ctx, stdout, cfg); err != nil {
		fmt.Fprintln(stderr, o.Name+":", err)
		return 1
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer, o Options) (config, error) {
	cfg := config{open: o.Open, childArgs: o.Child, outage: o.outage}
	if cfg.open == nil {
		cfg.open = store.Folders
	}
	flags := flag.NewFlagSet(o.Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	if o.Flags != nil {
		o.Flags(flags)
	}
	flags.IntVar(&cfg.n, "n", 10_000, "number of events (e.g. 100000)")
	flags.IntVar(&cfg.clients, "clients", 64, "number of concurrent clients (e.g. 8)")
	flags.StringVar(&cfg.dir, "dir", "", "data directory (default a new temporary one; e.g. demo)")
	flags.IntVar(&cfg.bad, "bad", 0, "percent of events that lack a field which one sink requires (e.g. 5)")
	flags.BoolVar(&cfg.crash, "crash", false, "run the engine in a separate process and kill it several times")
	flags.IntVar(&cfg.kills, "kills", 4, "number of kills with -crash, the last one during Flush (e.g. 10)")
	flags.BoolVar(&cfg.ui, "ui", false, "serve the console until you press Ctrl-C")
	flags.Uint64Var(&cfg.seed, "seed", uint64(time.Now().UnixNano()), "seed of random choices, a number (default from the clock; e.g. 42)")
	if err := flagtext.Parse(flags, args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(stderr, "%s: %v\n", o.Name, err)
		}
		return cfg, err
	}
	var problems []error
	check := func(ok bool, text string) {
		if !ok {
			problems = append(problems, errors.New(text))
		}
	}
	if flags.NArg() == 2 && flags.Arg(0) == childCommand {
		cfg.child = flags.Arg(1)
		return cfg, nil
	}
	check(flags.NArg() == 0, fmt.Sprintf("unexpected argument %q: flags begin with a dash", flags.Arg(0)))
	check(cfg.n >= 1 && cfg.n <= maxEvents, fmt.Sprintf("-n is %d, must be 1 to %d", cfg.n, maxEvents))
	check(cfg.clients >= 1, fmt.Sprintf("-clients is %d, must be at least 1", cfg.clients))
	check(cfg.bad >= 0 && cfg.bad <= 100, fmt.Sprintf("-bad is %d, must be 0 to 100", cfg.bad))
	check(cfg.kills >= 1, fmt.Sprintf("-kills is %d, must be at least 1", cfg.kills))
	check(!cfg.ui || !cfg.crash, "-ui and -crash exclude each other: the engine is then in another process. Leave one out")
	err := errors.Join(problems...)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", o.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return cfg, err
}

// run is the whole story. out gets the report.
func run(ctx context.Context, out io.Writer, cfg config) error {
	dir, err := dataDir(cfg.dir)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	secret, ledger := rand.Text(), newLedger()
	var svc service
	var crash *crashing
	var own *node
	if cfg.crash {
		crash, err = startCrashing(cfg, dir, secret, ledger, fail)
		svc = crash
	} else {
		own, err = startNode(ctx, cfg, dir, secret)
		svc = own
	}
	if err != nil {
		return err
	}
	if cfg.ui {
		page, err := startUI(own.eng, out)
		if err != nil {
			svc.abort()
			return err
		}
		defer page.close()
		own.failing.down.Store(true)
	}
	fmt.Fprintf(out, "sending %d events to %s (seed %d)\n", cfg.n, strings.ReplaceAll(svc.url(), secret, "***"), cfg.seed)

	start := time.Now()
	watched, stop := context.WithCancel(context.Background())
	firstRow := watch(watched, out, cfg.n, ledger, svc, start)
	err = sendAll(ctx, cfg, svc, ledger)
	sending := time.Since(start)
	if err == nil && cfg.ui {
		stop()
		<-firstRow
		return showAndAudit(ctx, cfg, own, ledger, dir, out)
	}
	if err == nil {
		err = svc.finish(ctx)
	} else {
		fail(err)
		svc.abort()
	}
	total := time.Since(start)
	stop()
	first := cmp.Or(<-firstRow, total)
	if err != nil {
		return err
	}

	fmt.Fprintf(out, "\n%d events sent by %d clients in %s, %.0f per second; all rows in the tables after %s\n",
		cfg.n, cfg.clients, sending.Round(time.Millisecond), float64(cfg.n)/sending.Seconds(), total.Round(time.Millisecond))
	fmt.Fprintf(out, "from the first event to its row in a table: %s\n", first.Round(time.Millisecond))
	if crash != nil {
		fmt.Fprintf(out, "the engine was killed %d times and recovered each time\n", crash.kills)
	}
	return report(cfg, dir, ledger, out)
}

// report reads the tables and prints a summary.
func report(cfg config, dir string, ledger *ledger, out io.Writer) error {
	audit, err := auditTables(cfg, dir, ledger)
	if err != nil {
		return err
	}
	if err := audit.print(out, dir, cfg.dir == ""); err != nil {
		return err
	}
	if audit.unconfirmed > 0 {
		fmt.Fprintf(out, unconfirmedText, audit.unconfirmed)
	}
	return audit.verdict(out, cfg)
}

// unconfirmedText explains, after their number, the rows that exceed the number of events that were sent.
const unconfirmedText = "%d rows are from requests whose responses were lost in a crash. The clients resent the requests.\n" +
	"Each confirmed attempt is in the tables once. To identify these rows, store an event id in a column.\n\n"

// dataDir returns an absolute path, so that the printed commands work everywhere.
func dataDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "forebay-quickstart-")
	}
	if err := keep.Folder("dir", dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}
