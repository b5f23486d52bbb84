// Command cluster runs three or more nodes as processes of this machine, sends events to all of them, and kills one node after the other. At
// the end it reads the tables and compares them, id by id, with the acknowledged events.
//
//	cd examples/cluster && go run .               20,000 events, three losses, in a temporary folder that is kept; about a minute
//	cd examples/cluster && go run . -n 200000     more of them
//	cd examples/cluster && go run . -cycles 20    20 losses at random: killed, stopped past the lease, disk wiped or damaged
//	cd examples/cluster && go run . -nodes 5      five nodes
//
// It is a separate module because of the servers of NATS that the nodes embed.
//
// A node that is lost comes back in different ways. The first stays away until the others have moved its rows to the table. The second
// comes back at once and resumes where it was. The third comes back without its disk. Clients whose request fails, or gets no response,
// send the event again to another node. Every second event has an Idempotency-Key, by which all nodes recognize it. The others get a new id for
// each attempt, because it is unknown whether the attempt before was stored.
//
// The last line on standard output tells the result. The exit status is 1 if a row was lost or doubled:
//
//	cluster: sent=20000 rows=20013 lost=0 duplicated=0 recovered=21.3s unconfirmed=13 stalled=6.2s losses=3 damaged=0
//
//	sent         acknowledged events, at least -n: clients send a few more until the cluster has recovered
//	rows         rows in the table
//	lost         acknowledged ids that are not in the table
//	duplicated   rows whose id is in the table already
//	recovered    the longest time from a loss until the table had all that the lost node had acknowledged
//	unconfirmed  rows whose attempt failed or got no response, but was stored
//	stalled      the longest time in which no node acknowledged anything although events waited
//
// With -settle, a table before it has the costs of each kind of loss. The nodes log to DIR/a.log, DIR/b.log and DIR/c.log. The table is the folder DIR/tables/in.c-cluster.events.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// config are the flags.
type config struct {
	n, clients, cycles int
	size               int // nodes
	dir                string
	kinds              []string
	lease, settle      time.Duration
	checkpoint         int64
	seed               uint64
	// connect returns the network of servers that listen on addresses, or of others, if it can be cut.
	connect func(listen []string) (network, error)
	// program is the program of the nodes, if files move its clock and make its disk slow, and other a different build of it.
	program, other string
}

func main() {
	if os.Getenv(nodeEnv) != "" {
		if err := runNode(context.Background(), os.Getenv(nodeEnv), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "cluster: a node:", err)
			os.Exit(1)
		}
		return
	}
	cfg, err := parseConfig(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	if err := run(ctx, cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func parseConfig(args []string, usage io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&cfg.n, "n", 20_000, "events to send")
	flags.IntVar(&cfg.clients, "clients", 64, "clients that send at the same time")
	flags.IntVar(&cfg.cycles, "cycles", 0, "losses at random instead of the three of the story")
	flags.IntVar(&cfg.size, "nodes", 3, "nodes of the cluster, each with a server")
	flags.Func("kinds", "kinds of losses at random, with commas between them (default: all)", func(text string) error {
		for _, kind := range strings.Split(text, ",") {
			if does[lossKind(kind)] == "" {
				return fmt.Errorf("unknown kind %q, must be one of %q", kind, slices.Sorted(maps.Keys(does)))
			}
			cfg.kinds = append(cfg.kinds, kind)
		}
		return nil
	})
	flags.StringVar(&cfg.dir, "dir", "", "folder for everything, which must be empty (default: a temporary one, which is kept)")
	flags.DurationVar(&cfg.lease, "lease", 6*time.Second, "silence after which another node takes over")
	flags.DurationVar(&cfg.settle, "settle", 0, "after each loss wait until all nodes have been ready for so long, and print after how long they were")
	flags.Int64Var(&cfg.checkpoint, "checkpoint-bytes", 256<<10, "how much the log of a node grows between two checkpoints; the default of a cluster is 256 MiB")
	flags.Uint64Var(&cfg.seed, "seed", 0, "seed of the losses at random (default: a new one, which is printed)")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	for cfg.seed == 0 {
		cfg.seed = rand.Uint64N(1 << 32)
	}
	switch {
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case cfg.n < 1 || cfg.n > maxEvents:
		return cfg, fmt.Errorf("-n is %d, must be 1 to %d", cfg.n, maxEvents)
	case cfg.size < 3:
		return cfg, fmt.Errorf("-nodes is %d, must be at least 3", cfg.size)
	case cfg.clients < 1:
		return cfg, fmt.Errorf("-clients is %d, must be positive", cfg.clients)
	case cfg.cycles < 0:
		return cfg, fmt.Errorf("-cycles is %d, must not be negative", cfg.cycles)
	case cfg.checkpoint < 1:
		return cfg, fmt.Errorf("-checkpoint-bytes is %d, must be positive", cfg.checkpoint)
	case cfg.lease < 3*time.Second:
		return cfg, fmt.Errorf("-lease is %s, must be at least 3s", cfg.lease)
	}
	return cfg, nil
}
