// Package quarantine looks into the quarantines of a running server, and edits, replays and discards their records. It speaks the Stream API.
package quarantine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/duration"
	"github.com/forebay/forebay/internal/program/keep"
)

// options are the flags, and what follows them.
type options struct {
	server          api.Flags
	json, all       bool
	filter          filter
	limit, revision int
	body, because   string
	ids             []string
}

// filter has the flags that select records, by the names that the API has for them.
type filter struct {
	reason, column, since, until, text, content string
	version                                     int
}

func (f *filter) parameters() map[string]any {
	given := map[string]any{"version": f.version, "reason": f.reason, "column": f.column, "since": f.since, "until": f.until, "text": f.text, "content": f.content}
	maps.DeleteFunc(given, func(_ string, value any) bool { return value == "" || value == 0 })
	return given
}

const actions = "list, get, edit, test, replay, discard or cancel"

// Run is the program. Its arguments are an action, flags, SOURCE/SINK, and ids of records. It returns [flag.ErrHelp] after -h and an
// [*api.UsageError] for wrong arguments.
func Run(ctx context.Context, args []string, env api.Environment) error {
	action, args := api.Action(args)
	var o options
	flags := flag.NewFlagSet("quarantine", flag.ContinueOnError)
	flags.SetOutput(env.Errors)
	o.server.Register(flags)
	flags.BoolVar(&o.json, "json", false, "write JSON; list writes one record a line")
	flags.StringVar(&o.filter.reason, "reason", "", "records with this reason (default any; e.g. missingValue)")
	flags.StringVar(&o.filter.column, "column", "", "records that this column rejected (default any; e.g. price)")
	flags.IntVar(&o.filter.version, "version", 0, "records that this version of the sink rejected, a number (default any; e.g. 3)")
	flags.StringVar(&o.filter.since, "since", "", "records rejected since a time, or since an age (default any; e.g. 24h)")
	flags.StringVar(&o.filter.until, "until", "", "records rejected before a time, or an age (default any; e.g. 2026-11-23T12:00:00Z)")
	flags.StringVar(&o.filter.text, "text", "", "records whose message contains this text (default any; e.g. price)")
	flags.StringVar(&o.filter.content, "content", "", "records with this text in the body, a header, host, path or query (default any; e.g. a@b.com)")
	flags.BoolVar(&o.all, "all", false, "replay, discard: all records")
	flags.IntVar(&o.limit, "limit", 100, "list: most records, 0 for all (e.g. 1000)")
	flags.StringVar(&o.body, "body", "", "edit: file with the new body, - for standard input (default none; e.g. fixed.json)")
	flags.StringVar(&o.because, "because", "", "discard: the reason, for the task and the log (default none; e.g. 'test data')")
	flags.IntVar(&o.revision, "revision", -1, "edit: number of the revision that you read (default the current one; e.g. 2)")
	if err := api.Parse(flags, args); err != nil {
		return err
	}
	do := map[string]func(context.Context, *client, *options) error{
		"list": list, "get": get, "edit": edit, "test": test, "replay": move, "discard": move, "cancel": cancel,
	}[action]
	if do == nil {
		return api.WrongAction(action, actions)
	}
	source, sink, err := api.SinkOf(flags.Arg(0))
	if err != nil {
		return err
	}
	o.ids = flags.Args()[1:]
	if err := o.check(action); err != nil {
		return err
	}
	server, err := o.server.Client(env)
	if err != nil {
		return err
	}
	c := &client{Client: server, sink: server.Sink(source, sink) + "/quarantine", action: action}
	return do(ctx, c, &o)
}

// check refuses what an action does not take, and makes times of ages.
func (o *options) check(action string) error {
	now := time.Now()
	for _, moment := range []*string{&o.filter.since, &o.filter.until} {
		if age, err := duration.Parse(*moment); err == nil && *moment != "" {
			*moment = now.Add(-age.Abs()).UTC().Format(time.RFC3339)
		}
	}
	if o.because != "" && action != "discard" {
		return api.Wrong("-because is for discard")
	}
	switch action {
	case "list":
		if len(o.ids) > 0 {
			return api.Wrong("unexpected argument %q: list takes SOURCE/SINK alone, and get shows one record", o.ids[0])
		}
		if o.limit < 0 {
			return api.Wrong("-limit is %d, must be 0 for all records, or more", o.limit)
		}
	case "cancel":
		if len(o.ids) > 0 || len(o.filter.parameters()) > 0 || o.all {
			return api.Wrong("cancel takes SOURCE/SINK alone: it ends the replay that runs")
		}
	case "get", "edit", "test":
		if len(o.ids) != 1 {
			return api.Wrong("%s takes the id of one record", action)
		}
		if action == "edit" && o.body == "" {
			return api.Wrong("edit needs the new body: -body FILE, or -body - for standard input")
		}
	default:
		given := 0
		for _, one := range []bool{len(o.ids) > 0, len(o.filter.parameters()) > 0, o.all} {
			if one {
				given++
			}
		}
		if given != 1 {
			return api.Wrong("%s needs one of these: ids of records, filters such as -reason, or -all", action)
		}
	}
	return nil
}

// client speaks with the API about one quarantine.
type client struct {
	*api.Client
	sink, action string
}

func (c *client) record(id string) string { return c.sink + "/" + url.PathEscape(id) }

type record struct {
	RecordID, At, Reason, Column, Message string
	Failed, Revision, Version             int
	Edited                                bool
	EditedAt, EditedBy                    string
	Size                                  int64
}

// version is a dash for a record of a definition without a number.
func (r *record) version() string {
	if r.Version == 0 {
		return "-"
	}
	return strconv.Itoa(r.Version)
}

func list(ctx context.Context, c *client, o *options) error {
	w := tabwriter.NewWriter(c.Env.Out, 0, 0, 2, ' ', 0)
	if !o.json {
		fmt.Fprint(w, "ID\tREJECTED\tREASON\tCOLUMN\tVERSION\tFAILED\tEDITED\tBYTES\tMESSAGE\n")
	}
	after, shown := "", 0
	for {
		most := 100
		if o.limit > 0 {
			most = min(most, o.limit-shown)
		}
		q := url.Values{"limit": {strconv.Itoa(most)}, "afterId": {after}}
		for name, value := range o.filter.parameters() {
			q.Set(name, fmt.Sprint(value))
		}
		var page struct {
			Records []json.RawMessage
			Page    struct {
				TotalCount int64
				NextID     string
			}
			Missing []struct{ Node, Reason string }
		}
		if err := c.Call(ctx, http.MethodGet, c.sink+"?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		for _, text := range page.Records {
			var r record
			if err := json.Unmarshal(text, &r); err != nil {
				return err
			}
			if o.json {
				var b bytes.Buffer
				if err := json.Compact(&b, text); err != nil {
					return err
				}
				fmt.Fprintf(c.Env.Out, "%s\n", &b)
				continue
			}
			edited := "-"
			if r.Edited {
				edited = cmp.Or(r.EditedBy, "yes")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\n", api.Line(r.RecordID), api.Line(r.At), api.Line(r.Reason), api.Line(cmp.Or(r.Column, "-")), r.version(), r.Failed, api.Line(edited), r.Size, api.Line(r.Message))
		}
		shown += len(page.Records)
		after = page.Page.NextID
		if after != "" && (o.limit == 0 || shown < o.limit) {
			continue
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if after != "" {
			fmt.Fprintf(c.Env.Errors, "there are more: %d in the quarantine; -limit 0 lists all\n", page.Page.TotalCount)
		}
		for _, m := range page.Missing {
			fmt.Fprintf(c.Env.Errors, "the records of node %s are not listed: %s\n", api.Line(m.Node), api.Line(m.Reason))
		}
		if len(page.Missing) > 0 {
			return errors.New("the list is not complete")
		}
		return nil
	}
}

func get(ctx context.Context, c *client, o *options) error {
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodGet, c.record(o.ids[0]), nil, &answer); err != nil {
		return err
	}
	return c.show(answer, o.json)
}

// show writes a record with its content.
func (c *client) show(answer json.RawMessage, asJSON bool) error {
	if asJSON {
		return c.Write(answer)
	}
	var r struct {
		Record  record
		Request struct {
			ReceivedAt, Method, Path, Query, Host, ClientIP string
			Headers                                         map[string][]string
			RemovedHeaders                                  []string
		}
		Body, Original             *string
		BodyBase64, OriginalBase64 []byte
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.Env.Out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, api.Line(value))
		}
	}
	row("id", r.Record.RecordID)
	row("rejected", r.Record.At)
	row("reason", r.Record.Reason)
	row("column", r.Record.Column)
	row("message", r.Record.Message)
	row("revision", strconv.Itoa(r.Record.Revision))
	row("failed replays", strconv.Itoa(r.Record.Failed))
	row("edited", r.Record.EditedAt)
	row("edited by", r.Record.EditedBy)
	row("received", r.Request.ReceivedAt)
	row("sender", r.Request.ClientIP)
	request := strings.TrimSpace(r.Request.Method + " " + r.Request.Path)
	if r.Request.Query != "" {
		request += "?" + r.Request.Query
	}
	row("request", request)
	row("host", r.Request.Host)
	names := make([]string, 0, len(r.Request.Headers))
	for name := range r.Request.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		row("header "+api.Line(name), strings.Join(r.Request.Headers[name], ", "))
	}
	row("not kept", strings.Join(r.Request.RemovedHeaders, ", "))
	if err := w.Flush(); err != nil {
		return err
	}
	part := func(title string, text *string, raw []byte) {
		switch {
		case text != nil:
			fmt.Fprintf(c.Env.Out, "\n%s:\n%s\n", title, api.Plain(*text))
		case len(raw) > 0:
			fmt.Fprintf(c.Env.Out, "\n%s, %d bytes that are not UTF-8:\n%q\n", title, len(raw), raw)
		}
	}
	part("body", r.Body, r.BodyBase64)
	part("original body", r.Original, r.OriginalBase64)
	return nil
}

func edit(ctx context.Context, c *client, o *options) error {
	var body []byte
	var err error
	if o.body == "-" {
		body, err = io.ReadAll(c.Env.Stdin)
	} else {
		body, err = keep.Read("body", o.body)
	}
	if err != nil {
		return err
	}
	if o.revision < 0 {
		var now struct{ Record record }
		if err := c.Call(ctx, http.MethodGet, c.record(o.ids[0]), nil, &now); err != nil {
			return err
		}
		o.revision = now.Record.Revision
	}
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodPut, c.record(o.ids[0])+"/body?revision="+strconv.Itoa(o.revision), body, &answer); err != nil {
		return err
	}
	return c.show(answer, o.json)
}

func test(ctx context.Context, c *client, o *options) error {
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodPost, c.record(o.ids[0])+"/test", nil, &answer); err != nil {
		return err
	}
	var r struct {
		Passes  bool
		Columns []struct {
			Name, DataType, Error string
			Value                 *string
		}
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	if o.json {
		if err := c.Write(answer); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(c.Env.Out, 0, 0, 2, ' ', 0)
		fmt.Fprint(w, "COLUMN\tTYPE\tVALUE\n")
		for _, column := range r.Columns {
			value := "NULL"
			if column.Value != nil {
				value = strconv.Quote(*column.Value)
			}
			if column.Error != "" {
				value = "! " + column.Error
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", api.Line(column.Name), api.Line(cmp.Or(column.DataType, "-")), api.Line(value))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if !r.Passes {
		return errors.New("a replay would reject the record again")
	}
	return nil
}

// cancel ends the replay that runs, or shows how the last one has ended.
func cancel(ctx context.Context, c *client, o *options) error {
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodDelete, c.sink+"/replay", nil, &answer); err != nil {
		return err
	}
	answer, task, err := c.Await(ctx, answer, nil)
	if err != nil {
		return err
	}
	if o.json {
		return c.Write(answer)
	}
	var moved struct{ Rejects *struct{ Replayed int } }
	if err := json.Unmarshal(answer, &moved); err != nil {
		return err
	}
	text := api.Plain(cmp.Or(task.Error, task.Result))
	if task.Error != "" && moved.Rejects != nil {
		text += fmt.Sprintf(" Replayed before: %d", moved.Rejects.Replayed)
	}
	fmt.Fprintln(c.Env.Out, text)
	return nil
}

// move replays or discards, one record at once, others as a task whose end it waits for.
func move(ctx context.Context, c *client, o *options) error {
	filter := o.filter.parameters()
	selection := map[string]any{"all": true}
	switch {
	case len(o.ids) > 0:
		selection = map[string]any{"recordIds": o.ids}
	case len(filter) > 0:
		selection = map[string]any{"filter": filter}
	}
	if o.because != "" {
		selection["reason"] = o.because
	}
	body, err := json.Marshal(selection)
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := c.Call(ctx, http.MethodPost, c.sink+"/"+c.action, body, &answer); err != nil {
		return err
	}
	answer, task, err := c.Await(ctx, answer, nil)
	if err != nil {
		return err
	}
	var moved struct {
		Rejects *struct{ Replayed, Rejected, Gone, Discarded int }
	}
	if err := json.Unmarshal(answer, &moved); err != nil {
		return err
	}
	if o.json {
		if err := c.Write(answer); err != nil {
			return err
		}
	} else if task.Result != "" {
		fmt.Fprintln(c.Env.Out, api.Plain(task.Result))
	}
	switch {
	case task.Status != "success" && moved.Rejects != nil:
		return fmt.Errorf("%s Done before: %d replayed, %d discarded", api.Plain(task.Error), moved.Rejects.Replayed, moved.Rejects.Discarded)
	case task.Status != "success":
		return errors.New(api.Plain(task.Error))
	case moved.Rejects != nil && moved.Rejects.Rejected > 0:
		return fmt.Errorf("%d records were rejected again", moved.Rejects.Rejected)
	case moved.Rejects != nil && moved.Rejects.Gone > 0 && len(o.ids) > 0:
		return fmt.Errorf("%d of the given ids name no record in the quarantine: the record was replayed or discarded, has expired, or never was. List the quarantine to see the ids", moved.Rejects.Gone)
	}
	return nil
}
