// Package shadow tries other columns of a sink on a running server alongside its current columns, shows the difference, and switches to
// them. It speaks the Stream API.
package shadow

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
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/duration"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/mapping"
)

// Options are the dependencies of the program in addition to the Stream API.
type Options struct {
	// Columns returns the columns that a sink has in a configuration file.
	Columns func(file, source, sink string) (mapping.Columns, error)
}

// flags are the flags of the program.
type flags struct {
	server             api.Flags
	json, wait         bool
	config, definition string
	copyOf             string
	length             time.Duration
	records            int64
	sample             float64
}

// Run is the program. Its arguments are an action, flags and SOURCE/SINK. It returns [flag.ErrHelp] after -h and an [*api.UsageError] for wrong
// arguments.
func Run(ctx context.Context, args []string, env api.Environment, opts Options) error {
	action, args := api.Action(args)
	var f flags
	set := flag.NewFlagSet("shadow", flag.ContinueOnError)
	set.SetOutput(env.Errors)
	f.server.Register(set)
	set.StringVar(&f.config, "config", "", "start, switch: configuration file that has the sink with the changed columns (default none; e.g. changed.yaml)")
	set.StringVar(&f.definition, "definition", "", "start, switch: JSON file with columns or a sink, - for standard input (default none; e.g. changed.json)")
	set.StringVar(&f.copyOf, "copy", "", "start, switch: id of another sink of the source, whose table is a copy, in place of changed columns (default none; e.g. orders-lake)")
	duration.Var(set, &f.length, "for", 0, "start: how long records are compared, a duration up to 24h (default 10m; e.g. 1h)")
	set.Int64Var(&f.records, "records", 0, "start: number of compared records that ends it (default by time alone; e.g. 10000)")
	set.Float64Var(&f.sample, "sample", 0, "start: share of the records that is compared, above 0 to 1 (default 1; e.g. 0.01)")
	set.BoolVar(&f.wait, "wait", false, "start, show: wait for the end of the shadow")
	set.BoolVar(&f.json, "json", false, "write JSON")
	if err := api.Parse(set, args); err != nil {
		return err
	}
	do := map[string]func(*client, context.Context) error{
		"start": (*client).start, "show": (*client).show, "stop": (*client).stop, "switch": (*client).switchOn,
	}[action]
	if do == nil {
		return api.WrongAction(action, "start, show, stop or switch")
	}
	source, sink, err := api.OnlySink(set)
	if err != nil {
		return err
	}
	c := &client{flags: f, name: source + "/" + sink}
	if asked := action == "start" || action == "switch"; asked && f.copyOf == "" {
		if c.columns, err = f.columns(source, sink, env, opts); err != nil {
			return err
		}
	} else if asked && (f.config != "" || f.definition != "") {
		return api.Wrong("-copy excludes -config and -definition: leave out one of them")
	}
	if c.Client, err = f.server.Client(env); err != nil {
		return err
	}
	c.sink = c.Sink(source, sink)
	return do(c, ctx)
}

// columns reads the changed columns, as the Stream API accepts them.
func (f *flags) columns(source, sink string, env api.Environment, opts Options) (json.RawMessage, error) {
	if (f.config == "") == (f.definition == "") {
		return nil, api.Wrong("name the changed columns with one of -config FILE and -definition FILE, or a copy of the table with -copy SINK")
	}
	if f.config != "" {
		columns, err := opts.Columns(f.config, source, sink)
		if err != nil {
			return nil, api.Wrong("%w", err)
		}
		return json.Marshal(columns)
	}
	var text []byte
	var err error
	if f.definition == "-" {
		text, err = io.ReadAll(env.Stdin)
	} else {
		text, err = keep.Read("definition", f.definition)
	}
	if err != nil {
		return nil, err
	}
	columns, err := columnsOf(text)
	if err != nil {
		return nil, api.Wrong("-definition: %w", err)
	}
	return columns, nil
}

// columnsOf finds the list of columns in a definition, the list itself, or what stands around it in the API.
func columnsOf(text []byte) (json.RawMessage, error) {
	text = bytes.TrimSpace(text)
	if bytes.HasPrefix(text, []byte{'['}) && json.Valid(text) {
		return text, nil
	}
	var d struct {
		Columns, Mapping, Table json.RawMessage
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, errors.New("the file is neither a JSON list of columns nor a definition of a sink in JSON: read the sink through the Stream API for an example")
	}
	inner := cmp.Or(string(d.Columns), string(d.Mapping), string(d.Table))
	if inner == "" {
		return nil, errors.New(`the file has no columns: give a list of them, or a definition with table.mapping.columns`)
	}
	return columnsOf([]byte(inner))
}

// client speaks with the API about the shadow of one sink.
type client struct {
	*api.Client
	flags
	name, sink string // "SOURCE/SINK", and its address
	columns    json.RawMessage
}

// request encodes the body of a request.
func request(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("shadow: encode a request: %v", err)) // the columns were valid JSON
	}
	return text
}

func (c *client) start(ctx context.Context) error {
	body := map[string]any{"mapping": map[string]any{"columns": c.columns}}
	if c.copyOf != "" {
		body = map[string]any{"copy": c.copyOf}
	}
	if c.length != 0 {
		body["seconds"] = c.length.Seconds()
	}
	if c.flags.records != 0 {
		body["records"] = c.flags.records
	}
	if c.sample != 0 {
		body["sample"] = c.sample
	}
	return c.report(ctx, http.MethodPost, request(body))
}

func (c *client) show(ctx context.Context) error { return c.report(ctx, http.MethodGet, nil) }

func (c *client) stop(ctx context.Context) error { return c.report(ctx, http.MethodDelete, nil) }

// report makes a request that returns a report, and shows that report, or with -wait the last report.
func (c *client) report(ctx context.Context, method string, body []byte) error {
	var answer json.RawMessage
	if err := c.Call(ctx, method, c.sink+"/shadow", body, &answer); err != nil {
		return err
	}
	pause := ctxio.Pause{First: 100 * time.Millisecond, Last: 2 * time.Second}
	for {
		var r report
		if err := json.Unmarshal(answer, &r); err != nil {
			return err
		}
		if !c.wait || r.End != "" && r.Waiting == 0 {
			break
		}
		if err := pause.Wait(ctx); err != nil {
			return fmt.Errorf("the shadow continues: %w", err)
		}
		if err := c.Call(ctx, http.MethodGet, c.sink+"/shadow", nil, &answer); err != nil {
			return err
		}
	}
	if c.json {
		return c.Write(answer)
	}
	return c.write(answer)
}

// switchOn gives the sink the changed columns or the table of its copy, which ends a shadow.
func (c *client) switchOn(ctx context.Context) error {
	var answer json.RawMessage
	method, path, has := http.MethodPatch, c.sink, "the changed columns"
	var body []byte
	if c.copyOf != "" {
		method, path, has = http.MethodPut, c.sink+"/copies/"+url.PathEscape(c.copyOf)+"/switch", fmt.Sprintf("the table of %s, which is deleted", c.copyOf)
	} else {
		body = request(map[string]any{"table": map[string]any{"mapping": map[string]any{"columns": c.columns}}})
	}
	if err := c.Call(ctx, method, path, body, &answer); err != nil {
		return err
	}
	answer, task, err := c.Await(ctx, answer, nil)
	if err != nil {
		return err
	}
	if task.Status != "success" {
		return errors.New(api.Plain(task.Error))
	}
	if c.json {
		return c.Write(answer)
	}
	fmt.Fprintf(c.Env.Out, "%s has %s.\n", api.Line(c.name), api.Line(has))
	return nil
}

// report is the report of the API.
type report struct {
	BeganAt, EndedAt, End, Failure                                string
	Compared, Equal, Different, OnlyCurrent, OnlyChanged, Neither int64
	Seen, Waiting, Unsampled, Dropped, TooLarge, Unreadable       int64
	Columns                                                       []column
	Errors                                                        []rejection
	OtherErrors                                                   int64
	CurrentMillis, ChangedMillis                                  float64
	Problems                                                      []string
}

type column struct {
	Name                    string
	New, Missing, Generated bool
	Different               int64
	Examples                []struct{ Current, Changed *string }
}

type rejection struct {
	Mapping, Reason, Column, Message string
	Records                          int64
}

// write shows a report to a person.
func (c *client) write(answer json.RawMessage) error {
	var r report
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	out := c.Env.Out
	switch {
	case r.End == "":
		fmt.Fprintf(out, "%s: runs since %s\n", api.Line(c.name), api.Line(r.BeganAt))
	default:
		fmt.Fprintf(out, "%s: ran from %s to %s, ended by %s\n", api.Line(c.name), api.Line(r.BeganAt), api.Line(r.EndedAt), api.Line(strings.TrimSpace(r.End+" "+r.Failure)))
	}
	fmt.Fprintf(out, "%d records compared: %d equal, %d different, %d only by the current columns, %d only by the changed columns, %d by neither\n",
		r.Compared, r.Equal, r.Different, r.OnlyCurrent, r.OnlyChanged, r.Neither)
	fmt.Fprintf(out, "of %d seen: %d wait, %d not in the sample, %d dropped, %d too large, %d unreadable\n", r.Seen, r.Waiting, r.Unsampled, r.Dropped, r.TooLarge, r.Unreadable)
	fmt.Fprintf(out, "time of the mappings: current %.1f ms, changed %.1f ms\n", r.CurrentMillis, r.ChangedMillis)
	for _, p := range r.Problems {
		fmt.Fprintf(out, "the table cannot follow: %s\n", api.Line(p))
	}

	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nCOLUMN\tDIFFERENT\tCURRENT\tCHANGED\n")
	for _, column := range r.Columns {
		different := strconv.FormatInt(column.Different, 10)
		switch {
		case column.New:
			different = "new"
		case column.Missing:
			different = "missing"
		case column.Generated:
			different = "generated"
		}
		if len(column.Examples) == 0 {
			fmt.Fprintf(w, "%s\t%s\t\t\n", api.Line(column.Name), different)
		}
		for i, e := range column.Examples {
			if i > 0 {
				column.Name, different = "", ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", api.Line(column.Name), different, cell(e.Current), cell(e.Changed))
		}
	}
	if len(r.Errors) > 0 {
		fmt.Fprint(w, "\nREJECTED BY\tRECORDS\tREASON\tCOLUMN\tMESSAGE\n")
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", api.Line(e.Mapping), e.Records, api.Line(e.Reason), api.Line(cmp.Or(e.Column, "-")), api.Line(e.Message))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.OtherErrors > 0 {
		fmt.Fprintf(out, "%d records were rejected for other reasons\n", r.OtherErrors)
	}
	return nil
}

// cell shows a cell in quotes, so that it differs from NULL and hides no space.
func cell(text *string) string {
	if text == nil {
		return "NULL"
	}
	return strconv.Quote(*text)
}
