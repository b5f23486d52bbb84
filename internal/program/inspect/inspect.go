// Package inspect shows the waiting rows of a data directory, where, for how long and why. It changes nothing.
package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/flagtext"
)

// Options are the differences between programs.
type Options struct {
	// Staging opens the value of the flag -staging. Nil takes a folder.
	Staging func(text string) (driver.Staging, error)
}

// picture is everything that is shown.
type picture struct {
	buffer.Stats
	Slices []buffer.SliceStats
	Damage []buffer.Damage `json:",omitempty"`
	Report *buffer.Report  `json:",omitempty"`
}

// Run is the program. Its flags explain themselves with -h, which returns [flag.ErrHelp].
func Run(ctx context.Context, args []string, out, usage io.Writer, o Options) (err error) {
	flags := flag.NewFlagSet("inspect", flag.ContinueOnError)
	flags.SetOutput(usage)
	asJSON := flags.Bool("json", false, "write JSON")
	verify := flags.Bool("verify", false, "count the stored rows again and compare them with the counters")
	rows := flags.String("rows", "", "id of the slice whose rows are written as CSV, and nothing else (default none; e.g. 0000000001)")
	staging := flags.String("staging", "", "folder or bucket of the staged objects (default DIR/staging, if it exists; e.g. s3://bucket/wait)")
	if err := flagtext.Parse(flags, args); err != nil {
		return err
	}
	if err := flagtext.Misplaced(flags); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one data directory, after the flags; -help shows them")
	}
	data := flags.Arg(0)
	opts := buffer.InspectOptions{}
	if *staging != "" && o.Staging != nil {
		if opts.Staging, err = o.Staging(*staging); err != nil {
			return err
		}
	} else {
		folder := cmp.Or(*staging, filepath.Join(data, "staging"))
		if _, err := os.Stat(folder); err == nil || *staging != "" {
			opts.Staging = dir.Staging(folder)
		}
	}
	in, err := forebay.Inspect(data, opts)
	if err != nil {
		return Explain(err, data, "inspect")
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if *rows != "" {
		err := in.WriteRows(ctx, out, *rows)
		if errors.Is(err, buffer.ErrUnknownSlice) {
			return fmt.Errorf("%s has no slice %q: forebay inspect %[1]s lists the slices", data, *rows)
		}
		return err
	}
	p := picture{Stats: in.Stats(), Slices: in.Slices()}
	if p.Damage, err = in.Damaged(ctx); err != nil {
		return err
	}
	if *verify {
		report, err := in.Verify(ctx)
		if err != nil {
			return err
		}
		p.Report = &report
	}
	if *asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(p)
	} else {
		err = p.print(out, time.Now())
	}
	if err == nil && p.Report != nil && !p.Report.OK() {
		err = errors.New("the ledger does not hold")
	}
	return err
}

// Explain adds to the error of a directory which one the command of the name verb reads in its place. Other errors stay as they are.
func Explain(err error, data, verb string) error {
	if inUse, ok := errors.AsType[*buffer.InUseError](err); ok {
		staging := ""
		if verb == "inspect" {
			staging = ", with -staging " + filepath.Join(filepath.Dir(inUse.Dir), "staging")
		}
		return fmt.Errorf("%w. Or run forebay %s on a checkpoint of it%s. A server with -admin HOST:PORT makes a checkpoint: "+
			"curl -X POST http://HOST:PORT/checkpoint. A Go program makes one with its engine", err, verb, staging)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not a data directory of Forebay: name the -dir of a server that has run, or a checkpoint", data)
	}
	return err
}

// hasQuarantine reports whether a sink has a quarantine or had something in one.
func hasQuarantine(s buffer.SinkStats) bool { return s.Quarantine.On || s.Quarantine.Added > 0 }

func (p *picture) print(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "SOURCE/SINK\tACCEPTED\tLOCAL\tSTAGING\tTABLE\tEXPIRED\tDISCARDED\tDAMAGED\tOLDEST\n")
	for _, s := range p.Sinks {
		id := s.ID
		if s.Dropped {
			id += " (ended)"
		}
		oldest := s.Local.FirstAt
		if first := s.Staging.FirstAt; oldest.IsZero() || !first.IsZero() && first.Before(oldest) {
			oldest = first
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", id, s.Accepted, s.Local.Rows, s.Staging.Rows, s.Target.Rows,
			s.Expired.Rows, s.Discarded.Rows, s.Damaged.Rows, age(oldest, now))
	}
	if slices.ContainsFunc(p.Sinks, hasQuarantine) {
		fmt.Fprintf(w, "\nSOURCE/SINK\tQUARANTINED\tBYTES\tOLDEST\tEVER\tPOISON\tREPLAYED\tDISCARDED\tEXPIRED\tLOST\n")
	}
	for _, s := range p.Sinks {
		if q := &s.Quarantine; hasQuarantine(s) {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", s.ID, q.Records, q.Bytes, age(q.OldestAt, now), q.Added, s.Poison.Rows, q.Replayed,
				q.Discarded, q.Expired, q.Lost)
		}
	}
	fmt.Fprintf(w, "\nSOURCE/SINK\tTABLE\tVERSION\tCOLUMNS\tRETIRED\tREFUSED\n")
	for _, s := range p.Sinks {
		version := "-" // it has exactly these columns
		if s.Version > 0 {
			version = fmt.Sprint(s.Version)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, tableName(s.Table), version, columnList(s.Table.Columns), columnList(s.Retired),
			cmp.Or(oneLine(s.Refused), "-"))
	}
	fmt.Fprintf(w, "\nFILE\tSINK\tSTATE\tREASON\tSLICES\tROWS\tBYTES\tAGE\tATTEMPTS\tLAST FAILURE\tOTHER COLUMNS THAN ITS SINK\n")
	for _, s := range p.Sinks {
		for _, f := range s.Files {
			other := "-"
			if tableName(f.Table) != tableName(s.Table) || !slices.Equal(f.Table.Columns, s.Table.Columns) {
				other = tableName(f.Table) + ": " + columnList(f.Table.Columns)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\t%s\t%s\n", f.ID, s.ID, f.State, cmp.Or(f.Reason, "-"), f.Slices,
				f.Level.Rows, f.Level.StoredBytes, age(f.OpenedAt, now), f.Attempt, cmp.Or(oneLine(f.RetryReason), "-"), other)
		}
	}
	fmt.Fprintf(w, "\nSLICE\tFILE\tSTATE\tREASON\tROWS\tBYTES\tAGE\tATTEMPTS\tLAST FAILURE\n")
	for _, s := range p.Slices {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%d\t%s\n", s.ID, s.FileID, s.State, cmp.Or(s.Reason, "-"), s.Level.Rows,
			s.Level.StoredBytes, age(s.OpenedAt, now), s.Attempt, cmp.Or(oneLine(s.RetryReason), "-"))
	}
	if len(p.Damage) > 0 {
		fmt.Fprintf(w, "\nDAMAGE\tFILE\tSLICE\tCHUNKS\tROWS\tFOUND\tREASON\n")
	}
	for _, d := range p.Damage {
		rows := fmt.Sprint(d.Rows)
		if d.Uncounted {
			rows = "at least " + rows
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d to %d\t%s\t%s\t%s\n", cmp.Or(d.SinkID, "-"), cmp.Or(d.FileID, "-"), cmp.Or(d.SliceID, "-"),
			d.FirstChunk, d.LastChunk, rows, d.At.Format(time.RFC3339), oneLine(d.Reason))
	}
	if p.Report != nil {
		fmt.Fprintf(w, "\nLEDGER\tSTATE\n")
		for _, s := range p.Report.Sinks {
			fmt.Fprintf(w, "%s\t%s\n", s.ID, cmp.Or(strings.Join(s.Differences, "; "), "holds"))
		}
	}
	return w.Flush()
}

// columnList writes columns with their types, such as id uuid required, note string. An untyped column is a name alone.
func columnList(columns []datatype.Column) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = oneLine(c.Name + " " + string(c.Type))
		if c.Required {
			list[i] += " required"
		}
	}
	return cmp.Or(strings.Join(list, ", "), "-")
}

func age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return now.Sub(t).Round(time.Second).String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// tableName returns the name of a table, after the name of its target if there is one.
func tableName(t driver.Table) string {
	if t.Target == "" {
		return t.ID
	}
	return t.Target + ":" + t.ID
}
