// Command quickstart moves events all the way on one machine. It opens an engine in a directory, serves the ingestion
// endpoint on a loopback port, sends webhook-like events to it over HTTP, and waits until they are in the tables. Then it
// reads the tables back to see that every acknowledged event is there exactly once.
//
//	cd examples
//	go run ./quickstart                  10000 events, in a temporary directory that is kept
//	go run ./quickstart -n 200000        more of them
//	go run ./quickstart -bad 5           5 % of the events lack a field that one of the sinks needs
//	go run ./quickstart -ui              the console shows it, until you interrupt the program
//	go run ./quickstart -crash           the engine is killed again and again, the clients retry
//
// The last line on standard output tells the result. The exit status is 1 if a row was lost or doubled:
//
//	quickstart: sent=10000 rows=20000 rejected=0 lost=0 duplicated=0
//
// internal/program/quickstart has the code and explains the figures. The verb demo of cmd/forebay is the same program with
// more targets.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/forebay/forebay/internal/program/quickstart"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // the second interrupt is not caught
	status := quickstart.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, quickstart.Options{})
	stop()
	os.Exit(status)
}
