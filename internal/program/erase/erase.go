// Package erase erases the records of a person, in a running server over the Stream API, and lists the data that remains.
package erase

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/api"
)

// Selection has the flags that select the data to erase.
type Selection struct {
	path, value, header, text, sources, reason string
	wait                                       time.Duration
	dryRun, asJSON                             bool
}

// Register makes the flags.
func (s *Selection) Register(flags *flag.FlagSet) {
	flags.StringVar(&s.path, "path", "", "path in the body of an event, with -value (default none; e.g. user.email)")
	flags.StringVar(&s.value, "value", "", "exact value at -path; - reads it from the standard input (default none; e.g. ada@example.com)")
	flags.StringVar(&s.header, "header", "", "exact header of an event; - reads it from the standard input (default none; e.g. 'X-User: 4711')")
	flags.StringVar(&s.text, "text", "", "part of an event in any case, at least 3 bytes with a letter or digit; - reads it from the standard input (default none; e.g. ada@example.com)")
	flags.StringVar(&s.sources, "sources", "", "sources to search, with commas between them (default all; e.g. shop,web)")
	flags.DurationVar(&s.wait, "wait", 30*time.Second, "how long to wait for rows on their way, a duration (e.g. 5m)")
	flags.StringVar(&s.reason, "because", "", "reason for the log (default none; e.g. 'erasure request 4711')")
	flags.BoolVar(&s.dryRun, "dry-run", false, "find and report, and change nothing")
	flags.BoolVar(&s.asJSON, "json", false, "write JSON")
}

// JSON reports whether JSON is asked for.
func (s *Selection) JSON() bool { return s.asJSON }

// Match returns the selection of the flags. The error is an [*api.UsageError].
func (s *Selection) Match(stdin io.Reader) (m forebay.Match, err error) {
	type input struct {
		flag string
		to   *string
	}
	var inputs []input
	for _, v := range []input{{"value", &s.value}, {"header", &s.header}, {"text", &s.text}} {
		if *v.to == "-" {
			inputs = append(inputs, v)
		}
	}
	if len(inputs) > 1 {
		return m, api.Wrong("-%s and -%s cannot both read the standard input: give one of them on the command line", inputs[0].flag, inputs[1].flag)
	}
	for _, v := range inputs {
		line, err := bufio.NewReader(stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return m, fmt.Errorf("-%s: %w", v.flag, err)
		}
		if *v.to = strings.TrimRight(line, "\r\n"); *v.to == "" {
			return m, api.Wrong("-%s is -, and the standard input has no line: write the text to it", v.flag)
		}
	}
	m = forebay.Match{Path: s.path, Value: s.value, Text: s.text, Wait: s.wait, DryRun: s.dryRun, Reason: s.reason}
	if s.header != "" {
		name, value, ok := strings.Cut(s.header, ":")
		if m.Header, m.HeaderValue = strings.TrimSpace(name), strings.TrimSpace(value); !ok || m.Header == "" || m.HeaderValue == "" {
			return m, api.Wrong("-header has no name and value: write it as 'X-User: 4711'")
		}
	}
	for id := range strings.SplitSeq(s.sources, ",") {
		if id = strings.TrimSpace(id); id != "" {
			m.Sources = append(m.Sources, id)
		}
	}
	switch {
	case m.Path == "" && m.Value == "" && m.Header == "" && m.Text == "":
		return m, api.Wrong("nothing says whose records to erase: give -path and -value, -header, or -text")
	case (m.Path == "") != (m.Value == ""):
		return m, api.Wrong("-path and -value belong together: give both")
	}
	if err := m.Validate(); err != nil {
		return m, api.Wrong("%s", flagNames.Replace(err.Error()))
	}
	return m, nil
}

// flagNames are the names of the flags, by the fields of a Match.
var flagNames = strings.NewReplacer("Match.Path: ", "-path: ", "Match.Text ", "-text ", "Match.Sources: ", "-sources: ", "Match.Wait ", "-wait ")

// Run is the program. It takes flags alone. It returns [flag.ErrHelp] after -h and an [*api.UsageError] for wrong arguments.
func Run(ctx context.Context, args []string, env api.Environment) error {
	var (
		server api.Flags
		what   Selection
	)
	flags := flag.NewFlagSet("erase", flag.ContinueOnError)
	flags.SetOutput(env.Errors)
	server.Register(flags)
	what.Register(flags)
	if err := api.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return api.Wrong("unexpected argument %q: erase has flags only", flags.Arg(0))
	}
	m, err := what.Match(env.Stdin)
	if err != nil {
		return err
	}
	c, err := server.Client(env)
	if err != nil {
		return err
	}
	body, err := json.Marshal(request{m.Path, m.Value, m.Header, m.HeaderValue, m.Text, m.Sources, m.Wait.String(), m.DryRun, m.Reason})
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodPost, c.Erase(), body, &answer); err != nil {
		return err
	}
	var r Report
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	if what.asJSON {
		if err := c.Write(answer); err != nil {
			return err
		}
		return r.Err()
	}
	return r.Show(env.Out)
}

type request struct {
	Path        string   `json:"path,omitempty"`
	Value       string   `json:"value,omitempty"`
	Header      string   `json:"header,omitempty"`
	HeaderValue string   `json:"headerValue,omitempty"`
	Text        string   `json:"text,omitempty"`
	SourceIDs   []string `json:"sourceIds,omitempty"`
	Wait        string   `json:"wait,omitempty"`
	DryRun      bool     `json:"dryRun,omitempty"`
	Reason      string   `json:"reason,omitempty"`
}

// Report is the response of the Stream API.
type Report struct {
	// Match, DryRun and the members of places and tables are as in [forebay.EraseReport].
	Match    string
	DryRun   bool
	Places   []Place
	Tables   []Table
	Problems []string
}

// Place is a [forebay.ErasedPlace].
type Place struct {
	// Place, Name, At and Note are texts for people, and the others numbers of records or rows.
	Place, Name, At, Note                            string
	Searched, Found, Erased, Left, Moved, Unreadable int64
}

// Table is a [forebay.ErasedTable].
type Table struct {
	// SQL is empty for a target without SQL.
	SourceID, SinkID, Target, TableID, SQL, Note string
}

// ReportOf returns the report of an engine of this process, and the error that was returned with it.
func ReportOf(r forebay.EraseReport, err error) Report {
	out := Report{Match: r.Match, DryRun: r.DryRun}
	for _, p := range r.Places {
		at := ""
		if !p.At.IsZero() {
			at = p.At.Format(time.RFC3339)
		}
		out.Places = append(out.Places, Place{p.Place, p.Name, at, p.Note, p.Searched, p.Found, p.Erased, p.Left, p.Moved, p.Unreadable})
	}
	for _, t := range r.Tables {
		out.Tables = append(out.Tables, Table{t.Source, t.Sink, t.Target, t.Table, t.SQL, t.Note})
	}
	if err != nil {
		out.Problems = strings.Split(err.Error(), "\n")
	}
	return out
}

// Show writes the report for people, and returns what Err does.
func (r *Report) Show(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "PLACE\tNAME\tSEARCHED\tFOUND\tERASED\tLEFT\tNOTE\n")
	for _, p := range r.Places {
		note := p.Note
		if p.At != "" {
			note = strings.TrimSpace("Of " + p.At + ". " + note)
		}
		if p.Moved > 0 {
			note = strings.TrimSpace(fmt.Sprintf("%d rows have come into the table. %s", p.Moved, note))
		}
		if p.Unreadable > 0 {
			note = strings.TrimSpace(fmt.Sprintf("%d records have no fields: search them with -text. %s", p.Unreadable, note))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", p.Place, api.Line(cmp.Or(p.Name, "-")), p.Searched, p.Found, p.Erased, p.Left, api.Line(note))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Tables) > 0 {
		fmt.Fprint(out, "\nTables are not changed. Delete their rows yourself:\n")
	}
	for _, t := range r.Tables {
		name := t.TableID
		if t.Target != "" {
			name += " of target " + t.Target
		}
		fmt.Fprintf(out, "\n-- %s/%s, table %s\n", api.Line(t.SourceID), api.Line(t.SinkID), api.Line(name))
		if t.Note != "" {
			fmt.Fprintf(out, "-- %s\n", api.Line(t.Note))
		}
		if t.SQL != "" {
			fmt.Fprintln(out, api.Plain(t.SQL))
		}
	}
	if r.DryRun {
		fmt.Fprint(out, "\nNothing was changed, because of -dry-run.\n")
	} else {
		fmt.Fprintf(out, "\nThe log has this erasure as match=%s.\n", api.Line(r.Match))
	}
	return r.Err()
}

// Err returns an error if something failed, or records are left although they should be erased.
func (r *Report) Err() error {
	if len(r.Problems) > 0 {
		return errors.New(api.Plain(strings.Join(r.Problems, "\n")))
	}
	var left int64
	for _, p := range r.Places {
		left += p.Left
	}
	if left > 0 && !r.DryRun {
		return fmt.Errorf("%d records or rows are left, the notes say why: remove the causes and repeat the command", left)
	}
	return nil
}
