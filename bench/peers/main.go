// Command peers sends the same events to Forebay and to other programs that could stand in its place. All have the same destination, a
// PostgreSQL server that the command starts, on the same machine. It prints one table.
//
//	go run .                                    every peer, about half an hour
//	go run . -peers forebay,inserts -json       two of them, one JSON object a line
//
// Each peer is a separate process. In each round it first gets events as fast as it takes them. In the first round it then gets events at a fixed
// rate while it is killed and restarted, and again while the database is down. The client never retries. Each event has a unique id, so the audit
// finds each row that was confirmed and is missing, and each row that is stored twice. The second round has the reverse order.
//
// A kill of a process is not a power cut. The kernel keeps the pages that the process has written, so a peer that does not sync loses
// no more than a peer that does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/internal/proctest"
)

func main() {
	if runs, err := asPeer(); runs {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	duration, warm, outage, settle time.Duration
	rounds, kills, rate            int
	dir                            string
	batch                          batch
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := options{batch: batch{Rows: 1000, Every: 100 * time.Millisecond}}
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "how long events are sent as fast as possible")
	flags.DurationVar(&o.warm, "warm", 2*time.Second, "how long they are sent before that, without being measured")
	flags.DurationVar(&o.outage, "outage", time.Minute, "how long the database is down")
	flags.DurationVar(&o.settle, "settle", 75*time.Second, "rows are missing if none has arrived for so long")
	flags.IntVar(&o.rounds, "rounds", 2, "rounds of events as fast as possible")
	flags.IntVar(&o.kills, "kills", 10, "how often each peer is killed")
	flags.IntVar(&o.rate, "rate", 1000, "events per second during kills and the outage")
	flags.StringVar(&o.dir, "dir", "", "`folder` on the disk under test (default: the system's temporary folder)")
	names := flags.String("peers", "", "peers to measure, separated by commas (default: all)")
	asJSON := flags.Bool("json", false, "one JSON object a line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen := slices.Clone(peers)
	if *names != "" {
		chosen = nil
		for _, name := range strings.Split(*names, ",") {
			p, err := peerNamed(name)
			if err != nil {
				return err
			}
			chosen = append(chosen, p)
		}
	}
	var db database
	defer db.close()
	if err := db.open(ctx); err != nil {
		return err
	}
	results := map[string]*result{}
	for round := range o.rounds {
		for _, p := range chosen {
			m := measurement{options: o, db: &db, peer: p}
			if round > 0 {
				m.kills, m.outage = 0, 0
			}
			fmt.Fprintf(stderr, "%s round %d of %s, load of the machine %s\n", time.Now().Format(time.TimeOnly), round+1, p.name, machineLoad())
			r, err := m.measure(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			fmt.Fprintln(stderr, proctest.JSON(r))
			if results[p.name] == nil {
				results[p.name] = r
			} else {
				results[p.name].Rounds = append(results[p.name].Rounds, r.Rounds...)
			}
		}
		slices.Reverse(chosen)
	}
	if o.rounds%2 == 1 {
		slices.Reverse(chosen)
	}
	var rows []*result
	for _, p := range chosen {
		rows = append(rows, results[p.name])
	}
	if !*asJSON {
		return printTable(stdout, rows)
	}
	encoder := json.NewEncoder(stdout)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
