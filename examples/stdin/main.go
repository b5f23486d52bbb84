// Command stdin feeds the lines of its standard input into a table, as fast as they can be stored:
//
//	cd examples
//	seq 1 1000000 | go run ./stdin -data stdin-data
//
// It keeps many lines in progress at once with Submit, and waits for them in their order. Where a bound of memory or disk is
// reached, Submit waits for room, and so the writer of the pipe waits as well. No line is refused, and none is kept outside
// of the bounds. At the end of the input everything is in the table.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "stdin:", err)
		os.Exit(1)
	}
}

// underWay is how many lines may be in memory and not on disk yet.
const underWay = 4096

// maxLine is the length of the longest line, in bytes.
const maxLine = 1 << 20

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("stdin", flag.ContinueOnError)
	data := flags.String("data", "stdin-data", "data directory; the table is a folder in its tables")
	share := flags.Int64("max", 256<<20, "bytes that may wait for the table, compressed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	eng, err := forebay.Open(*data, forebay.Options{
		Buffer: buffer.Tuning{MaxSinkBytes: *share},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if err := eng.Define(ctx, forebay.Source{ID: "stdin", Sinks: []forebay.Sink{{
		ID: "lines", Table: forebay.Table{ID: "in.c-stdin.lines", Columns: mapping.Columns{mapping.UUID("id"), mapping.Body("line")}},
	}}}); err != nil {
		return err
	}
	stored, err := feed(ctx, eng.WaitForRoom(), in)
	if err != nil {
		return fmt.Errorf("%d lines are on disk and flow on at the next start: %w", stored, err)
	}
	if err := eng.Flush(ctx, "stdin"); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d lines are in the table\n", stored)
	return err
}

// feed submits each line, and returns how many are on disk.
func feed(ctx context.Context, intake forebay.Intake, in io.Reader) (stored int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pending := make(chan forebay.Pending, underWay)
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		for p := range pending {
			if _, err := p.Wait(ctx); err != nil {
				cancel(err) // the lines after it are not read
				continue
			}
			stored++
		}
	}()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine+1) // with the line end
	var rec mapping.Record
	read := 0
	for lines.Scan() {
		read++
		rec.Reset()
		rec.Body = lines.Bytes() // free again when Submit returns
		p, err := intake.Submit(ctx, "stdin", &rec)
		if err != nil {
			cancel(err)
			break
		}
		pending <- p
	}
	close(pending)
	<-settled
	err = lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("line %d has more than %d bytes", read+1, maxLine)
	}
	return stored, errors.Join(err, context.Cause(ctx))
}
