// Package damage shows the rows that the disk of a running server has lost, and removes the records that an operator has read. It speaks the Stream
// API.
package damage

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/forebay/forebay/internal/program/api"
)

// Run is the program. Its arguments are an action, flags, and for forget the ids of records. It returns [flag.ErrHelp] after -h and an
// [*api.UsageError] for wrong arguments.
func Run(ctx context.Context, args []string, env api.Environment) error {
	name, args := api.Action(args)
	var server api.Flags
	flags := flag.NewFlagSet("damage", flag.ContinueOnError)
	flags.SetOutput(env.Errors)
	server.Register(flags)
	asJSON := flags.Bool("json", false, "list: write JSON")
	if err := api.Parse(flags, args); err != nil {
		return err
	}
	switch {
	case name != "list" && name != "forget":
		return api.WrongAction(name, "list or forget")
	case name == "list" && flags.NArg() > 0:
		return api.Wrong("unexpected argument %q: list has flags only", flags.Arg(0))
	case name == "forget" && flags.NArg() == 0:
		return api.Wrong("forget requires the ids of records, after the flags: list shows the ids")
	case name == "forget" && *asJSON:
		return api.Wrong("-json is a flag of list")
	}
	c, err := server.Client(env)
	if err != nil {
		return err
	}
	if name == "list" {
		return list(ctx, c, *asJSON)
	}
	for _, id := range flags.Args() {
		if err := c.Call(ctx, http.MethodDelete, c.Damage()+"/"+url.PathEscape(id), nil, nil); err != nil {
			return err
		}
		fmt.Fprintf(env.Out, "%s is removed.\n", api.Line(id))
	}
	return nil
}

// list writes the records of damage.
func list(ctx context.Context, c *api.Client, asJSON bool) error {
	var text json.RawMessage
	if err := c.Call(ctx, http.MethodGet, c.Damage(), nil, &text); err != nil {
		return err
	}
	if asJSON {
		return c.Write(text)
	}
	var answer struct {
		Damage []struct {
			DamageID, SourceID, SinkID, FileID, FoundAt, Reason, Store string

			Rows      int64
			Uncounted bool
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.Env.Out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "RECORD\tFOUND\tSINK\tFILE\tROWS\tREASON\n")
	for _, d := range answer.Damage {
		sink, file, rows, reason := d.SourceID+"/"+d.SinkID, d.FileID, fmt.Sprint(d.Rows), d.Reason
		if d.Store != "" {
			sink, file, reason = "-", "-", reason+", set aside in "+d.Store
		}
		if d.Uncounted {
			rows = "at least " + rows
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", api.Line(d.DamageID), api.Line(d.FoundAt), api.Line(sink), api.Line(file), rows, api.Line(reason))
	}
	return w.Flush()
}
