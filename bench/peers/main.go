// Command peers sends the same events to Forebay and to other programs that could stand in its place. All have the same destination, a
// PostgreSQL server that the command starts, on the same machine. It prints one table.
//
//	go run .                                    every peer, about half an hour
//	go run . -peers forebay,inserts -json       two of them, one JSON object a line
//
// Each peer is a separate process. First all peers, in turns, get events as fast as they take them. Every second round has the reverse order. Then
// each gets events at a fixed rate while it is killed and restarted, and again while the database is down. The client never retries. Each event has
// a unique id, so the audit finds each row that was confirmed and is missing, and each row that is stored twice.
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
	"strings"
	"time"
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
	flags.IntVar(&o.rounds, "rounds", 2, "rounds of events as fast as possible; medians are reported")
	flags.IntVar(&o.kills, "kills", 10, "how often each peer is killed")
	flags.IntVar(&o.rate, "rate", 1000, "events per second during kills and the outage")
	flags.StringVar(&o.dir, "dir", "", "`folder` on the disk under test (default: the system's temporary folder)")
	names := flags.String("peers", "", "peers to measure, separated by commas (default: all)")
	asJSON := flags.Bool("json", false, "one JSON object a line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.rate < 2 {
		return errors.New("-rounds is at least 1, and -rate at least 2")
	}
	chosen := peers
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
	results := make([]*result, len(chosen))
	for i, p := range chosen {
		results[i] = &result{Peer: p.name, Settings: p.settings}
	}
	each := func(what string, reverse bool, measure func(measurement, *result) error) error {
		for n := range chosen {
			if reverse {
				n = len(chosen) - 1 - n
			}
			p := chosen[n]
			fmt.Fprintf(stderr, "%s %s of %s, load of the machine %s\n", time.Now().Format(time.TimeOnly), what, p.name, machineLoad())
			if err := (measurement{options: o, db: &db, peer: p}).in(ctx, func(m measurement) error { return measure(m, results[n]) }); err != nil {
				return fmt.Errorf("%s of %s: %w", what, p.name, err)
			}
		}
		return nil
	}
	for round := range o.rounds {
		if err := each("speed", round%2 == 1, func(m measurement, r *result) error { return m.speed(ctx, r) }); err != nil {
			return err
		}
	}
	if o.kills > 0 {
		if err := each("kills", false, func(m measurement, r *result) error { return m.kill(ctx, r) }); err != nil {
			return err
		}
	}
	if o.outage > 0 {
		if err := each("outage", false, func(m measurement, r *result) error { return m.away(ctx, r) }); err != nil {
			return err
		}
	}
	if !*asJSON {
		return printTable(stdout, results)
	}
	encoder := json.NewEncoder(stdout)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
