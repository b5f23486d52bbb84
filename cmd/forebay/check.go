package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/mapping"
)

func (p process) check(ctx context.Context, args []string) int {
	var sample, source string
	var offline bool
	cfg, err := p.parseServe("check", args, func(flags *flag.FlagSet) {
		flags.StringVar(&sample, "sample", "", "file with events, - for standard input; show the rows that they give (default none; e.g. events.json)")
		flags.BoolVar(&offline, "offline", false, "do not ask the target whether it can have the tables")
		flags.StringVar(&source, "sample-source", "", "id of the source that gets the sample (default every source; e.g. web)")
	})
	if err == nil && cfg.file == "" {
		err = errors.New("give the file with -config; \"forebay check -h\" shows examples")
	}
	if err != nil {
		return p.end("check", err, wrongUsage)
	}
	var sinks int
	for _, s := range cfg.sources {
		sinks += len(s.Sinks)
	}
	what := count(len(cfg.sources), "source") + ", " + count(sinks, "sink")
	if cfg.node != "" {
		what = "node " + cfg.node + " of a cluster"
	}
	fmt.Fprintf(p.stdout, "%s is valid: %s, target %s\n", cfg.file, what, cfg.kindName())
	if err := cfg.checkTables(ctx, p.stdout, offline); err != nil {
		return p.end("check", err, failed)
	}
	if sample == "" {
		return 0
	}
	if source != "" && indexOf(cfg.sources, source) < 0 {
		return p.end("check", fmt.Errorf("-sample-source: there is no source %q", source), wrongUsage)
	}
	events, err := p.events(sample)
	if err == nil {
		err = cfg.show(p.stdout, events, source)
	}
	return p.end("check", err, failed)
}

// checkTables returns everything that does not fit among the options, sinks and tables of the target.
func (cfg *serveConfig) checkTables(ctx context.Context, out io.Writer, offline bool) error {
	tables, err := cfg.sinkTables()
	if err != nil || len(tables) == 0 {
		return err
	}
	var problems []string
	problems = append(problems, cfg.misfits(tables)...)
	if !offline {
		exist, wrong, unreachable := cfg.askTarget(ctx, tables)
		for _, err := range wrong {
			problems = append(problems, oneLine(err))
		}
		if unreachable != nil {
			problems = append(problems, "the target cannot be asked: "+oneLine(unreachable)+"; -offline does not ask it")
		} else if len(exist) > 0 {
			fmt.Fprintf(out, "the target has %s: %s\n", count(len(exist), "table"), strings.Join(exist, ", "))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "\n  "))
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// events reads a sample, which is one JSON document, the elements of an array, or one event a line.
func (p process) events(name string) (events [][]byte, err error) {
	var text []byte
	if name == "-" {
		text, err = io.ReadAll(p.stdin)
	} else {
		text, err = keep.Read("sample", name)
	}
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	switch text = bytes.TrimSpace(text); {
	case json.Unmarshal(text, &list) == nil:
		for _, event := range list {
			events = append(events, event)
		}
	case json.Valid(text):
		events = [][]byte{text}
	default:
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				events = append(events, line)
			}
		}
	}
	if len(events) == 0 {
		return nil, errors.New("-sample has no event")
	}
	return events, nil
}

// show prints the rows that events give in each sink, and returns an error if one is rejected.
func (cfg *serveConfig) show(out io.Writer, events [][]byte, only string) error {
	opts := cfg.compileOptions()
	refused := 0
	for _, source := range cfg.sources {
		if only != "" && only != source.ID {
			continue
		}
		d, err := forebay.Compile(source, opts)
		if err != nil {
			return err
		}
		for _, sink := range source.Sinks {
			fmt.Fprintf(out, "\n%s/%s → table %s\n", source.ID, sink.ID, sink.Table.ID)
			refused += showSink(out, d.Mapper(sink.ID), events)
		}
	}
	if refused > 0 {
		return fmt.Errorf("%s of the sample would be rejected; a path takes more events with a defaultValue, or with a dataType and without required", count(refused, "row"))
	}
	return nil
}

// showSink prints a table, and below it why events are rejected. It returns how many are.
func showSink(out io.Writer, m *mapping.Mapper, events [][]byte) (refused int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var head []string
	for _, c := range m.Columns() {
		head = append(head, strings.TrimSpace(c.Name+" "+string(c.Type)))
	}
	fmt.Fprintf(w, "  #\t%s\n", strings.Join(head, "\t"))
	var faults []string
	for i, event := range events {
		record := &mapping.Record{
			Body: event, Received: time.Now(), ClientIP: netip.MustParseAddr("203.0.113.7"),
			Header: http.Header{"Content-Type": {"application/json"}},
		}
		row, bad := make([]string, 0, len(head)), false
		for _, cell := range m.Cells(record) {
			text := cell.Value
			switch {
			case cell.Err != nil:
				text, bad = "!", true
				faults = append(faults, fmt.Sprintf("  event %d: %v", i+1, cell.Err))
			case cell.Null:
				text = "NULL"
			case text == "":
				text = `""`
			}
			row = append(row, shorten(text))
		}
		mark := ""
		if bad {
			refused++
			mark = " rejected"
		}
		fmt.Fprintf(w, "  %d%s\t%s\n", i+1, mark, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	for _, fault := range faults {
		fmt.Fprintln(out, fault)
	}
	return refused
}

// widest is the greatest number of characters of a cell that are shown.
const widest = 40

func shorten(text string) string {
	text = cmp.Or(strings.Join(strings.Fields(text), " "), `" "`)
	if r := []rune(text); len(r) > widest {
		return string(r[:widest-1]) + "…"
	}
	return text
}
