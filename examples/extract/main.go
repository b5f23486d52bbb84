// Command extract pulls records from an HTTP API, as a JSON configuration says, into tables of an embedded engine.
//
//	cd examples
//	go run ./extract                             a bundled configuration, against a small API served here
//	go run ./extract -config FILE                your configuration
//	go run ./extract check -config FILE          only log in, and ask for the first page of each job
//	go run ./extract preview -config FILE        show the first records of each job
//	go run ./extract discover -config FILE       propose typed columns for the records of each job
//	go run ./extract -config FILE -out DIR       CSV files and manifests in DIR/tables, without an engine
//	go run ./extract -config FILE -state FILE    the state is read and written; after a crash or an error
//	                                             the run resumes after the last page that is on disk
//
// The program waits for the disk after every page, and then saves the position. After a crash a page is in its table once, if
// the API responds the same and the run resumes within a day. Use -data with -state, so that both are kept. With -out and -state, pages are kept in
// DIR/unfinished.pages until the tables are written.
//
// The exit status is 0 when all went well, 1 when the configuration, the API or the data must be looked at, and 2 for
// every other failure.
//
// The verb extract of cmd/forebay is the same program with more targets. Its code is in internal/program/extract.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/forebay/forebay/internal/program/extract"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := extract.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, extract.Options{})
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "extract:", err)
	}
	os.Exit(extract.ExitStatus(err))
}
