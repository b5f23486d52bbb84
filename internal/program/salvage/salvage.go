// Package salvage brings rows that were acknowledged on the disk of a node of a cluster alone to their tables, through that node.
package salvage

import (
	"context"
	"flag"
	"fmt"
	"net/http"

	"github.com/forebay/forebay/internal/program/api"
)

// found is the response of a node.
type found struct {
	Folder, Instance string
	LogEnd, Last     uint64
	Into             string
	Done             bool
	Sinks            []struct {
		Source, Sink string
		Rows         int64
		LeftOut      string
	}
}

// Run is the program. It takes flags and a folder. It returns [flag.ErrHelp] after -h and an [*api.UsageError] for wrong arguments.
func Run(ctx context.Context, args []string, env api.Environment) error {
	var server api.Flags
	flags := flag.NewFlagSet("salvage", flag.ContinueOnError)
	flags.SetOutput(env.Errors)
	server.Register(flags)
	yes := flags.Bool("yes", false, "store the rows; without it nothing is changed")
	if err := api.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 || flags.Arg(0) == "" {
		return api.Wrong("name one folder fenced-INSTANCE-EPOCH of the node, after the flags")
	}
	c, err := server.Client(env)
	if err != nil {
		return err
	}
	at := c.Folder(flags.Arg(0))
	var f found
	if *yes {
		err = c.Call(ctx, http.MethodPost, at+"/salvage", []byte("{}"), &f)
	} else {
		err = c.Call(ctx, http.MethodGet, at, nil, &f)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(env.Out, f.text())
	return err
}

// text describes the result, for people.
func (f *found) text() string {
	s := fmt.Sprintf("folder    %s of instance %s\nlog       has batches 1 to %d, the folder 1 to %d\n", api.Line(f.Folder), api.Line(f.Instance), f.LogEnd, f.Last)
	rows, left := int64(0), int64(0)
	for _, to := range f.Sinks {
		what := "only the folder has them"
		switch {
		case to.LeftOut != "":
			what = "left out: " + api.Line(to.LeftOut)
			left += to.Rows
		default:
			rows += to.Rows
			if f.Done {
				what = "stored through instance " + api.Line(f.Into)
			}
		}
		s += fmt.Sprintf("sink      %s/%s: %d rows, %s\n", api.Line(to.Source), api.Line(to.Sink), to.Rows, what)
	}
	switch {
	case f.Done:
		s += fmt.Sprintf("Done: %d rows are stored, %d are left out.\n", rows, left)
	case rows == 0:
		s += fmt.Sprintf("There is nothing to store: %d rows are left out.\n", left)
	default:
		s += fmt.Sprintf("Nothing was changed. To store %d rows, repeat the command with -yes.\n", rows)
	}
	return s
}
