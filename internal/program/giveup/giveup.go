// Package giveup gives up the batches of a cluster's instance that no node can read any longer, through any node, and first shows the loss.
package giveup

import (
	"context"
	"flag"
	"fmt"
	"net/http"

	"github.com/forebay/forebay/internal/program/api"
)

// loss is the response of a node.
type loss struct {
	Instance, Node, State                                string
	CanGiveUp                                            bool
	Acknowledged, Checkpoint, Readable, Lost, LostBefore uint64
	CheckpointProblem, LogProblem                        string
}

// Run is the program. It takes flags and an instance. It returns [flag.ErrHelp] after -h and an [*api.UsageError] for wrong arguments.
func Run(ctx context.Context, args []string, env api.Environment) error {
	var server api.Flags
	flags := flag.NewFlagSet("giveup", flag.ContinueOnError)
	flags.SetOutput(env.Errors)
	server.Register(flags)
	yes := flags.Bool("yes", false, "give the instance up; without it nothing is changed")
	if err := api.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 || flags.Arg(0) == "" {
		return api.Wrong("name one instance, after the flags: the log lines of the nodes name it")
	}
	c, err := server.Client(env)
	if err != nil {
		return err
	}
	at := c.Instance(flags.Arg(0))
	var l loss
	if err := c.Call(ctx, http.MethodGet, at, nil, &l); err != nil {
		return fmt.Errorf("%w; nothing was changed, because it is unknown what would be lost", err)
	}
	if !l.CanGiveUp {
		return fmt.Errorf("instance %s of node %s is %s: there is nothing to give up", api.Line(l.Instance), api.Line(l.Node), api.Line(l.State))
	}
	if _, err := fmt.Fprint(env.Out, l.text(*yes)); err != nil || !*yes {
		return err
	}
	if err := c.Call(ctx, http.MethodPost, at+"/give-up", []byte("{}"), nil); err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Out, "The instance is given up. A node takes it over after a lease, and logs the losses.")
	return err
}

// text describes the loss, for people.
func (l *loss) text(yes bool) string {
	s := fmt.Sprintf("instance      %s of node %s, %s\nacknowledged  batches 1 to %d, or more than its record knows\nreadable      ",
		api.Line(l.Instance), api.Line(l.Node), api.Line(l.State), l.Acknowledged)
	switch {
	case l.Readable == 0:
		s += "nothing\n"
	case l.Checkpoint == 0:
		s += fmt.Sprintf("batches 1 to %d, from the log\n", l.Readable)
	default:
		s += fmt.Sprintf("batches 1 to %d, of them 1 to %d from the checkpoint\n", l.Readable, l.Checkpoint)
	}
	for _, problem := range []struct{ name, text string }{{"checkpoint   ", l.CheckpointProblem}, {"log          ", l.LogProblem}} {
		if problem.text != "" {
			s += fmt.Sprintf("%s %s\n", problem.name, api.Line(problem.text))
		}
	}
	will := map[bool]string{false: "would be", true: "are"}[yes]
	switch {
	case l.Lost > 0:
		s += fmt.Sprintf("lost          batches %d to %d %s lost, at least %d: all of their rows that are not in a table yet. The number of these rows is unknown\n",
			l.Readable+1, l.Acknowledged, will, l.Lost)
	case l.CheckpointProblem != "" || l.LogProblem != "":
		s += fmt.Sprintf("lost          all batches after %d %s lost, except rows that are in their tables: the record does not know how many there were\n", l.Readable, will)
	default:
		s += "lost          nothing: everything can be read\n"
	}
	if l.LostBefore > 0 {
		s += fmt.Sprintf("lost before   %d batches, when the instance was given up earlier\n", l.LostBefore)
	}
	if !yes {
		s += "Nothing was changed. To give up the unreadable part, repeat the command with -yes.\n"
	}
	return s
}
