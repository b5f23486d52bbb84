// Package replay replays archived records into a sink of a running server, through the Stream API.
package replay

import (
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

// Selection has the flags that select the records of a replay.
type Selection struct {
	run, archived, from, to string
	rate                    float64
}

// Register makes the flags.
func (s *Selection) Register(flags *flag.FlagSet) {
	flags.StringVar(&s.run, "run", "", "start: name of the run, a-z, 0-9, - and _; an interrupted run continues with the same name (default none; e.g. fix-1)")
	flags.StringVar(&s.archived, "archived", "", "start: source whose archive is read (default the source of the sink; e.g. shop)")
	flags.StringVar(&s.from, "from", "", "start: earliest time of arrival (default the oldest record; e.g. 2026-11-23T12:00:00Z)")
	flags.StringVar(&s.to, "to", "", "start: time before which the records arrived (default the start of the run; e.g. 2026-11-24T00:00:00Z)")
	flags.Float64Var(&s.rate, "rows-per-second", 0, "start: most rows per second, on average (default no limit; e.g. 5000)")
}

// Options returns the options that the flags give. The error is an [*api.UsageError].
func (s *Selection) Options() (o forebay.ReplayOptions, err error) {
	if s.run == "" {
		return o, api.Wrong("start needs a name for the run: -run NAME")
	}
	o = forebay.ReplayOptions{Run: s.run, Archived: s.archived, RowsPerSecond: s.rate}
	for _, m := range []struct {
		flag, text string
		to         *time.Time
	}{{"from", s.from, &o.From}, {"to", s.to, &o.To}} {
		if m.text == "" {
			continue
		}
		if *m.to, err = time.Parse(time.RFC3339, m.text); err != nil {
			return o, api.Wrong("-%s is %q, must be a time such as 2026-11-23T12:00:00Z", m.flag, m.text)
		}
	}
	if err := o.Validate(); err != nil {
		return o, api.Wrong("%s", strings.ReplaceAll(err.Error(), "ReplayOptions.", ""))
	}
	return o, nil
}

// Run is the program. Its arguments are an action, flags and SOURCE/SINK. It returns [flag.ErrHelp] after -h and an [*api.UsageError] for wrong
// arguments.
func Run(ctx context.Context, args []string, env api.Environment) error {
	action, args := api.Action(args)
	var (
		server api.Flags
		what   Selection
		asJSON bool
	)
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(env.Errors)
	server.Register(flags)
	what.Register(flags)
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	if err := api.Parse(flags, args); err != nil {
		return err
	}
	do := map[string]func(*client, context.Context) error{"start": (*client).start, "list": (*client).list, "cancel": (*client).cancel}[action]
	if do == nil {
		return api.WrongAction(action, "start, list or cancel")
	}
	source, sink, err := api.OnlySink(flags)
	if err != nil {
		return err
	}
	c := &client{json: asJSON}
	if action == "start" {
		if c.options, err = what.Options(); err != nil {
			return err
		}
	}
	if c.Client, err = server.Client(env); err != nil {
		return err
	}
	c.archive = c.Sink(source, sink) + "/archive"
	return do(c, ctx)
}

// client speaks with the API about the replays of one sink.
type client struct {
	*api.Client
	archive string
	options forebay.ReplayOptions
	json    bool
}

// state is a run in the API.
type state struct {
	Run, SourceID, From, To, BeganAt, EndedAt             string
	Records, Stored, Rejected, Quarantined, Skipped, Gone int64
}

// start starts a run and follows it to its end.
func (c *client) start(ctx context.Context) error {
	o := c.options
	request := map[string]any{"run": o.Run}
	if o.Archived != "" {
		request["sourceId"] = o.Archived
	}
	if !o.From.IsZero() {
		request["from"] = o.From.Format(time.RFC3339Nano)
	}
	if !o.To.IsZero() {
		request["to"] = o.To.Format(time.RFC3339Nano)
	}
	if o.RowsPerSecond > 0 {
		request["rowsPerSecond"] = o.RowsPerSecond
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodPost, c.archive+"/replay", body, &answer); err != nil {
		return err
	}
	shown := Progress{Out: c.Env.Errors}
	answer, task, err := c.Await(ctx, answer, func(answer json.RawMessage) error {
		var task struct{ Replay state }
		err := json.Unmarshal(answer, &task)
		shown.Show(task.Replay.Records, task.Replay.Stored)
		return err
	})
	if err != nil {
		return err
	}
	if c.json {
		if err := c.Write(answer); err != nil {
			return err
		}
	} else if task.Result != "" {
		fmt.Fprintln(c.Env.Out, api.Plain(task.Result))
	}
	if task.Status != "success" {
		return errors.New(api.Plain(task.Error))
	}
	return nil
}

func (c *client) list(ctx context.Context) error {
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodGet, c.archive+"/runs", nil, &answer); err != nil {
		return err
	}
	if c.json {
		return c.Write(answer)
	}
	var list struct{ Runs []state }
	if err := json.Unmarshal(answer, &list); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.Env.Out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "RUN\tARCHIVE OF\tBEGAN\tENDED\tRECORDS\tSTORED\tREJECTED\tQUARANTINED\tSKIPPED\tGONE\n")
	for _, r := range list.Runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", api.Line(r.Run), api.Line(r.SourceID), api.Line(r.BeganAt), api.Line(cmp.Or(r.EndedAt, "-")),
			r.Records, r.Stored, r.Rejected, r.Quarantined, r.Skipped, r.Gone)
	}
	return w.Flush()
}

func (c *client) cancel(ctx context.Context) error {
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodDelete, c.archive+"/replay", nil, &answer); err != nil {
		return err
	}
	answer, task, err := c.Await(ctx, answer, nil)
	if err != nil {
		return err
	}
	if c.json {
		return c.Write(answer)
	}
	fmt.Fprintln(c.Env.Out, api.Plain(cmp.Or(task.Error, task.Result)))
	return nil
}

// Progress shows a person how far a run is, at most once a second.
type Progress struct {
	// Out gets the lines.
	Out  io.Writer
	last time.Time
	n    int64
}

// Show writes a line if there is something new.
func (p *Progress) Show(records, stored int64) {
	if records == p.n || time.Since(p.last) < time.Second {
		return
	}
	p.last, p.n = time.Now(), records
	fmt.Fprintf(p.Out, "%d records read, %d stored\n", records, stored)
}
