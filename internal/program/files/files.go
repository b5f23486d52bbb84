// Package files shows the waiting files of a sink of a running server, and decides the fate of held files. It speaks the Stream API.
package files

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
	"strings"
	"text/tabwriter"

	"github.com/forebay/forebay/internal/program/api"
)

// action is the action requested for a file.
type action struct{ method, path, done string }

var actions = map[string]action{
	"retry":      {http.MethodPost, "/retry", "A new attempt has started."},
	"split":      {http.MethodPost, "/split", "It is imported without the rows that the target refuses."},
	"quarantine": {http.MethodPost, "/quarantine", "What is not in the table of it goes to the quarantine."},
	"discard":    {http.MethodDelete, "", "Its rows are discarded."},
}

// Run is the program. Its arguments are an action, flags, SOURCE/SINK, and the id of a file. A list needs no sink. Run returns [flag.ErrHelp] after
// -h and an [*api.UsageError] for wrong arguments.
func Run(ctx context.Context, args []string, env api.Environment) error {
	name, args := api.Action(args)
	var server api.Flags
	flags := flag.NewFlagSet("files", flag.ContinueOnError)
	flags.SetOutput(env.Errors)
	server.Register(flags)
	asJSON := flags.Bool("json", false, "list: write JSON, one file a line")
	all := flags.Bool("all", false, "list: include files that have not failed, and the last that ended")
	if err := api.Parse(flags, args); err != nil {
		return err
	}
	do, known := actions[name]
	if !known && name != "list" {
		return api.WrongAction(name, "list, retry, split, quarantine or discard")
	}
	source, sink := flags.Arg(0), ""
	var err error
	failing := !known && !*all && !strings.Contains(source, "/") // of all sources or of one
	if !failing {
		source, sink, err = api.SinkOf(flags.Arg(0))
	}
	switch {
	case err != nil:
		return err
	case known && flags.NArg() != 2:
		return api.Wrong("%s takes the id of one file, after SOURCE/SINK: list shows the ids", name)
	case !known && flags.NArg() > 1:
		return api.Wrong("unexpected argument %q: flags stand before SOURCE/SINK", flags.Arg(1))
	}
	c, err := server.Client(env)
	if err != nil {
		return err
	}
	switch {
	case failing:
		return list(ctx, c, func(after string) string { return c.FailedFiles(source, after) }, true, *asJSON)
	case !known:
		address := fmt.Sprintf("%s/statistics/files?failedFiles=%t", c.Sink(source, sink), !*all)
		return list(ctx, c, func(string) string { return address }, false, *asJSON)
	}
	if err := c.Call(ctx, do.method, c.Sink(source, sink)+"/files/"+url.PathEscape(flags.Arg(1))+do.path, nil, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Out, do.done)
	return err
}

// list writes the files that the API lists, of one sink or of all. address returns the address of the page after a place.
func list(ctx context.Context, c *api.Client, address func(after string) string, ofAll, asJSON bool) error {
	w := tabwriter.NewWriter(c.Env.Out, 0, 0, 2, ' ', 0)
	if !asJSON {
		if ofAll {
			fmt.Fprint(w, "SINK\t")
		}
		fmt.Fprint(w, "FILE\tSTATE\tROWS\tOPENED\tFAILED\tNEXT ATTEMPT\tREFUSED\tREASON\n")
	}
	after := ""
	for {
		var page struct {
			Files   []json.RawMessage
			NextID  string
			Missing []struct{ Node, Reason string }
		}
		if err := c.Call(ctx, http.MethodGet, address(after), nil, &page); err != nil {
			return err
		}
		for _, text := range page.Files {
			if err := writeFile(c, w, text, ofAll, asJSON); err != nil {
				return err
			}
		}
		if after = page.NextID; after != "" {
			continue
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, m := range page.Missing {
			fmt.Fprintf(c.Env.Errors, "the files of node %s are not listed: %s\n", api.Line(m.Node), api.Line(m.Reason))
		}
		if len(page.Missing) > 0 {
			return errors.New("the list is not complete")
		}
		return nil
	}
}

// writeFile writes a file of a list.
func writeFile(c *api.Client, w io.Writer, text json.RawMessage, ofAll, asJSON bool) error {
	var f struct {
		SourceID, SinkID, FileID, State, OpenedAt, RetryReason, RetryAfter string

		RetryAttempt int
		Refused      *struct{ Reason string }
		Statistics   struct{ Total struct{ RecordsCount int64 } }
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	if asJSON {
		var line bytes.Buffer
		if err := json.Compact(&line, text); err != nil {
			return err
		}
		fmt.Fprintf(c.Env.Out, "%s\n", &line)
		return nil
	}
	refused := "-"
	if f.Refused != nil {
		refused = f.Refused.Reason
	}
	if ofAll {
		fmt.Fprintf(w, "%s\t", api.Line(f.SourceID+"/"+f.SinkID))
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", api.Line(f.FileID), api.Line(f.State), f.Statistics.Total.RecordsCount, api.Line(f.OpenedAt), f.RetryAttempt,
		api.Line(cmp.Or(f.RetryAfter, "-")), api.Line(refused), api.Line(f.RetryReason))
	return nil
}
