// Command inspect shows the waiting rows of a data directory, where, for how long and why they wait. It changes nothing.
//
//	cd examples
//	go run ./inspect DIR                     sinks with their columns, files and slices
//	go run ./inspect -json DIR               the same for programs
//	go run ./inspect -verify DIR             count the stored rows again; status 1 if they differ from the counters
//	go run ./inspect -rows SLICE DIR         write the rows of a slice as CSV
//
// DIR is the data directory of an engine that is closed, or a checkpoint of one that runs: Engine.Checkpoint makes it.
// Staged objects are read from the folder staging in DIR, unless -staging names a different one.
//
// The verb inspect of cmd/forebay is the same program. Its code is in internal/program/inspect.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/forebay/forebay/internal/program/inspect"
)

func main() {
	err := inspect.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, inspect.Options{})
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "inspect:", err)
		os.Exit(1)
	}
}
