// Package quarantine looks into the quarantines of a running server, and edits, replays and discards what is in them. It speaks the Stream API.
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
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// Environment is what the program has from its process.
type Environment struct {
	// Stdin is the body of an edit. Out gets what was asked for, and Errors what else a person should know.
	Stdin       io.Reader
	Out, Errors io.Writer
	// Getenv returns a variable; empty if it is not set.
	Getenv func(name string) string
}

// UsageError is a call with wrong arguments.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }

func (e *UsageError) Unwrap() error { return e.err }

func wrong(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// options are the flags, and what follows them.
type options struct {
	api, token, dir, branch            string
	json, all                          bool
	reason, column, since, until, text string
	limit, revision                    int
	body                               string
	source, sink                       string
	ids                                []string
}

const actions = "list, get, edit, test, replay or discard"

// Run is the program: an action, flags, SOURCE/SINK, and ids of records. It returns [flag.ErrHelp] after -h and a [*UsageError] for wrong arguments.
func Run(ctx context.Context, args []string, env Environment) error {
	action := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		action, args = args[0], args[1:]
	}
	var o options
	flags := flag.NewFlagSet("quarantine", flag.ContinueOnError)
	flags.SetOutput(env.Errors)
	flags.StringVar(&o.api, "api", "", "address of the Stream API (default $FOREBAY_API, or http://127.0.0.1:8081)")
	flags.StringVar(&o.token, "token", "", "token of the API (default $FOREBAY_TOKEN, or the file token of -dir)")
	flags.StringVar(&o.dir, "dir", "data", "data directory of the server, if it is on this machine")
	flags.StringVar(&o.branch, "branch", "default", "id of the branch")
	flags.BoolVar(&o.json, "json", false, "write JSON: of a list one record a line")
	flags.StringVar(&o.reason, "reason", "", "records with this reason, such as missingValue")
	flags.StringVar(&o.column, "column", "", "records that this column rejected")
	flags.StringVar(&o.since, "since", "", "records that were rejected since this time, such as 2026-11-23T12:00:00Z or 24h for a day ago")
	flags.StringVar(&o.until, "until", "", "records that were rejected before this time")
	flags.StringVar(&o.text, "text", "", "records whose message has this text")
	flags.BoolVar(&o.all, "all", false, "replay, discard: all records")
	flags.IntVar(&o.limit, "limit", 100, "list: greatest number of records; 0: all")
	flags.StringVar(&o.body, "body", "", "edit: file with the new body, - for standard input")
	flags.IntVar(&o.revision, "revision", -1, "edit: revision of the record that was read (default: the present one)")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return &UsageError{err}
	}
	do := map[string]func(context.Context, *client, *options) error{
		"list": list, "get": get, "edit": edit, "test": test, "replay": move, "discard": move,
	}[action]
	if do == nil {
		return wrong("the action is %q, must be %s", action, actions)
	}
	var ok bool
	if o.source, o.sink, ok = strings.Cut(flags.Arg(0), "/"); !ok || o.source == "" || o.sink == "" || strings.Contains(o.sink, "/") {
		return wrong("name a sink as SOURCE/SINK, behind the flags")
	}
	o.ids = flags.Args()[1:]
	if err := o.check(action); err != nil {
		return err
	}
	c, err := o.client(env)
	if err != nil {
		return err
	}
	c.action = action
	return do(ctx, c, &o)
}

func (o *options) filtered() bool { return o.reason+o.column+o.since+o.until+o.text != "" }

// check refuses what an action does not take, and makes times of ages.
func (o *options) check(action string) error {
	now := time.Now()
	for _, moment := range []*string{&o.since, &o.until} {
		if age, err := time.ParseDuration(*moment); err == nil && *moment != "" {
			*moment = now.Add(-age.Abs()).UTC().Format(time.RFC3339)
		}
	}
	switch action {
	case "list":
		if len(o.ids) > 0 || o.limit < 0 {
			return wrong("list takes no ids, and a -limit of 0 or more")
		}
	case "get", "edit", "test":
		if len(o.ids) != 1 {
			return wrong("%s takes the id of one record", action)
		}
		if action == "edit" && o.body == "" {
			return wrong("edit needs the new body: -body FILE, or -body - for standard input")
		}
	default:
		given := 0
		for _, one := range []bool{len(o.ids) > 0, o.filtered(), o.all} {
			if one {
				given++
			}
		}
		if given != 1 {
			return wrong("%s needs one of these: ids of records, filters such as -reason, or -all", action)
		}
	}
	return nil
}

// client speaks with the API about one quarantine.
type client struct {
	env              Environment
	http             http.Client
	api, sink, token string
	action           string
}

func (o *options) client(env Environment) (*client, error) {
	api := strings.TrimRight(cmp.Or(o.api, env.Getenv("FOREBAY_API"), "http://127.0.0.1:8081"), "/")
	if u, err := url.Parse(api); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, wrong("-api is %q, must be an address such as http://127.0.0.1:8081", api)
	}
	token := cmp.Or(o.token, env.Getenv("FOREBAY_TOKEN"))
	if token == "" {
		text, err := os.ReadFile(filepath.Join(o.dir, "token"))
		if err != nil {
			return nil, fmt.Errorf("there is no token: give -token, set FOREBAY_TOKEN, or name the data directory with -dir: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	c := &client{env: env, api: api, token: token}
	c.sink = api + "/v1/branches/" + url.PathEscape(o.branch) + "/sources/" + url.PathEscape(o.source) + "/sinks/" + url.PathEscape(o.sink) + "/quarantine"
	// A redirection would take the token to another server.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// call sends a request and decodes the answer, if there is one.
func (c *client) call(ctx context.Context, method, address string, body []byte, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-StorageApi-Token", c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		var refused struct{ Error, Message string }
		if json.Unmarshal(text, &refused) != nil || refused.Message == "" {
			refused.Message = strings.TrimSpace(string(text[:min(len(text), 200)]))
		}
		return fmt.Errorf("status %d %s: %s", resp.StatusCode, plain(refused.Error), plain(refused.Message))
	}
	if answer == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer is no JSON of the Stream API: %w", err)
	}
	return nil
}

func (c *client) record(id string) string { return c.sink + "/" + url.PathEscape(id) }

// write writes an answer as JSON.
func (c *client) write(answer json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, answer, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.env.Out, "%s\n", &b)
	return err
}

// plain takes characters out of a text that would control a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// line is plain for a cell of a table.
func line(text string) string { return strings.Join(strings.Fields(plain(text)), " ") }

type record struct {
	RecordID, At, Reason, Column, Message string
	Failed, Revision                      int
	Edited                                bool
	Size                                  int64
}

func list(ctx context.Context, c *client, o *options) error {
	w := tabwriter.NewWriter(c.env.Out, 0, 0, 2, ' ', 0)
	if !o.json {
		fmt.Fprint(w, "ID\tREJECTED\tREASON\tCOLUMN\tFAILED\tEDITED\tBYTES\tMESSAGE\n")
	}
	after, shown := "", 0
	for {
		most := 100
		if o.limit > 0 {
			most = min(most, o.limit-shown)
		}
		q := url.Values{"limit": {strconv.Itoa(most)}, "afterId": {after}}
		for name, value := range map[string]string{"reason": o.reason, "column": o.column, "since": o.since, "until": o.until, "text": o.text} {
			if value != "" {
				q.Set(name, value)
			}
		}
		var page struct {
			Records []json.RawMessage
			Page    struct {
				TotalCount int64
				NextID     string
			}
			Missing []struct{ Node, Reason string }
		}
		if err := c.call(ctx, http.MethodGet, c.sink+"?"+q.Encode(), nil, &page); err != nil {
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
				fmt.Fprintf(c.env.Out, "%s\n", &b)
				continue
			}
			edited := "-"
			if r.Edited {
				edited = "yes"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\n", line(r.RecordID), line(r.At), line(r.Reason), line(cmp.Or(r.Column, "-")), r.Failed, edited, r.Size, line(r.Message))
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
			fmt.Fprintf(c.env.Errors, "there are more: %d in the quarantine; -limit 0 lists all\n", page.Page.TotalCount)
		}
		for _, m := range page.Missing {
			fmt.Fprintf(c.env.Errors, "the records of node %s are not listed: %s\n", line(m.Node), line(m.Reason))
		}
		if len(page.Missing) > 0 {
			return errors.New("the list is not complete")
		}
		return nil
	}
}

func get(ctx context.Context, c *client, o *options) error {
	var answer json.RawMessage
	if err := c.call(ctx, http.MethodGet, c.record(o.ids[0]), nil, &answer); err != nil {
		return err
	}
	return c.show(answer, o.json)
}

// show writes a record with its content.
func (c *client) show(answer json.RawMessage, asJSON bool) error {
	if asJSON {
		return c.write(answer)
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
	w := tabwriter.NewWriter(c.env.Out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, line(value))
		}
	}
	row("id", r.Record.RecordID)
	row("rejected", r.Record.At)
	row("reason", r.Record.Reason)
	row("column", r.Record.Column)
	row("message", r.Record.Message)
	row("revision", strconv.Itoa(r.Record.Revision))
	row("failed replays", strconv.Itoa(r.Record.Failed))
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
		row("header "+line(name), strings.Join(r.Request.Headers[name], ", "))
	}
	row("not kept", strings.Join(r.Request.RemovedHeaders, ", "))
	if err := w.Flush(); err != nil {
		return err
	}
	part := func(title string, text *string, raw []byte) {
		switch {
		case text != nil:
			fmt.Fprintf(c.env.Out, "\n%s:\n%s\n", title, plain(*text))
		case len(raw) > 0:
			fmt.Fprintf(c.env.Out, "\n%s, %d bytes that are not UTF-8:\n%q\n", title, len(raw), raw)
		}
	}
	part("body", r.Body, r.BodyBase64)
	part("body as it came", r.Original, r.OriginalBase64)
	return nil
}

func edit(ctx context.Context, c *client, o *options) error {
	var body []byte
	var err error
	if o.body == "-" {
		body, err = io.ReadAll(c.env.Stdin)
	} else {
		body, err = os.ReadFile(o.body)
	}
	if err != nil {
		return fmt.Errorf("-body: %w", err)
	}
	if o.revision < 0 {
		var now struct{ Record record }
		if err := c.call(ctx, http.MethodGet, c.record(o.ids[0]), nil, &now); err != nil {
			return err
		}
		o.revision = now.Record.Revision
	}
	var answer json.RawMessage
	if err := c.call(ctx, http.MethodPut, c.record(o.ids[0])+"/body?revision="+strconv.Itoa(o.revision), body, &answer); err != nil {
		return err
	}
	return c.show(answer, o.json)
}

func test(ctx context.Context, c *client, o *options) error {
	var answer json.RawMessage
	if err := c.call(ctx, http.MethodPost, c.record(o.ids[0])+"/test", nil, &answer); err != nil {
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
		if err := c.write(answer); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(c.env.Out, 0, 0, 2, ' ', 0)
		fmt.Fprint(w, "COLUMN\tTYPE\tVALUE\n")
		for _, column := range r.Columns {
			value := "NULL"
			if column.Value != nil {
				value = strconv.Quote(*column.Value)
			}
			if column.Error != "" {
				value = "! " + column.Error
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", line(column.Name), line(cmp.Or(column.DataType, "-")), line(value))
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

// move replays or discards: one record at once, others as a task whose end it waits for.
func move(ctx context.Context, c *client, o *options) error {
	filter := map[string]string{}
	for name, value := range map[string]string{"reason": o.reason, "column": o.column, "since": o.since, "until": o.until, "text": o.text} {
		if value != "" {
			filter[name] = value
		}
	}
	selection := map[string]any{"all": true}
	switch {
	case len(o.ids) > 0:
		selection = map[string]any{"recordIds": o.ids}
	case len(filter) > 0:
		selection = map[string]any{"filter": filter}
	}
	body, err := json.Marshal(selection)
	if err != nil {
		return err
	}
	var task struct {
		TaskID, Status, Result, Error string
		IsFinished                    bool
		Rejects                       *struct{ Replayed, Rejected, Gone, Discarded int }
	}
	var answer json.RawMessage
	if err := c.call(ctx, http.MethodPost, c.sink+"/"+c.action, body, &answer); err != nil {
		return err
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if err := json.Unmarshal(answer, &task); err != nil {
			return err
		}
		if task.IsFinished {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("the server goes on with task %s: %w", line(task.TaskID), context.Cause(ctx))
		}
		if err := c.call(ctx, http.MethodGet, c.api+"/v1/tasks/"+task.TaskID, nil, &answer); err != nil {
			return err
		}
	}
	if o.json {
		if err := c.write(answer); err != nil {
			return err
		}
	} else if task.Result != "" {
		fmt.Fprintln(c.env.Out, plain(task.Result))
	}
	switch {
	case task.Status != "success" && task.Rejects != nil:
		return fmt.Errorf("%s Done before: %d replayed, %d discarded", plain(task.Error), task.Rejects.Replayed, task.Rejects.Discarded)
	case task.Status != "success":
		return errors.New(plain(task.Error))
	case task.Rejects != nil && task.Rejects.Rejected > 0:
		return fmt.Errorf("%d records were rejected again", task.Rejects.Rejected)
	}
	return nil
}
