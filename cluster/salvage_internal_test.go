package cluster

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/salvage"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/streamapi"
)

// The command lists the rows of a folder, stores them with -yes only, and explains why if it cannot.
func TestSalvageCommand(t *testing.T) {
	const folder = "fenced-a-1-4"
	found := Salvage{Folder: folder, Instance: "a-1", LogEnd: 14, Last: 52, Sinks: []SalvagedSink{
		{Source: "web", Sink: "events", Rows: 38}, {Source: "web", Sink: "old", Rows: 2, LeftOut: "the sink is not defined"},
	}}
	stored := found
	stored.Into = "a-2"
	left := found
	left.Sinks = found.Sinks[1:]
	for what, c := range map[string]struct {
		node  decider
		token string
		args  []string
		want  string // of the output, or of the error
		calls string
	}{
		"look":          {decider{salvage: found}, "good", []string{folder}, "To store 38 rows, repeat", "[salvage fenced-a-1-4: false]"},
		"nothing":       {decider{salvage: left}, "good", []string{folder}, "nothing to store: 2 rows are left out", "[salvage fenced-a-1-4: false]"},
		"store":         {decider{salvage: stored}, "good", []string{"-yes", folder}, "38 rows, stored through instance a-2\nsink      web/old: 2 rows, left out: the sink is not defined\nDone: 38 rows are stored, 2 are left out.", "[salvage fenced-a-1-4: true]"},
		"refused":       {decider{err: ErrCannotSalvage}, "good", []string{"-yes", folder}, "status 409 cannotSalvage", "[salvage fenced-a-1-4: true]"},
		"no folder":     {decider{err: changelog.ErrNothingToDecide}, "good", []string{folder}, "status 409 nothingToDecide", "[salvage fenced-a-1-4: false]"},
		"another token": {decider{salvage: found}, "reader", []string{"-yes", folder}, "status 403 forbidden", "[]"},
		"no name":       {decider{salvage: found}, "good", nil, "name one folder", "[]"},
	} {
		server := httptest.NewServer(operations(&c.node, streamapi.Options{
			Auth:   keys{"good": {ProjectID: 7, Master: true, Admin: true}, "reader": {ProjectID: 7, Master: true}},
			Ingest: stream.Options{ProjectID: 7},
		}))
		var out bytes.Buffer
		err := salvage.Run(t.Context(), append([]string{"-api", server.URL, "-token", c.token}, c.args...), api.Environment{
			Out: &out, Errors: &out, Getenv: func(string) string { return "" },
		})
		if err != nil {
			fmt.Fprint(&out, err)
		}
		if !strings.Contains(out.String(), c.want) || fmt.Sprint(c.node.calls) != c.calls {
			t.Errorf("%s: got %q, calls %s, want %q, calls %s", what, &out, c.node.calls, c.want, c.calls)
		}
		server.Close()
	}
}
