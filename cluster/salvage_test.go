package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/salvage"
)

// salvage runs the command forebay until a node has responded.
func (c *nodes) salvage(server *httptest.Server, args ...string) (out string) {
	c.t.Helper()
	if err := clustertest.Eventually(func() error {
		var printed bytes.Buffer
		err := salvage.Run(c.t.Context(), append([]string{"-api", server.URL, "-token", "token"}, args...), api.Environment{
			Out: &printed, Errors: &printed, Getenv: func(string) string { return "" },
		})
		out = printed.String()
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Log(out)
	return out
}

// A node is cut off, acknowledges rows of a sink that does not wait for the log, and loses its instance. An operator brings these rows to their
// table with the command. The rows before come from the node that has taken over, and none comes twice.
func TestSalvage(t *testing.T) {
	t.Parallel()
	c := startWith(t, true)
	task, err := c.list[0].Catalog().CreateSource(catalog.By{Type: "system"}, catalog.SourceSpec{
		ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{Name: "events", TableID: tableID, Columns: columns, AckLocal: true}},
	})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(err, task.Failure)
	}
	for _, n := range c.list {
		c.awaitSource(n)
	}
	s := &sender{nodes: c}
	s.send(0, 20)
	instance := get[readiness](t, c.list[0], "/readiness-check").Instance
	for other := 1; other < clustertest.Size; other++ {
		if err := errors.Join(c.links.Cut(0, other), c.links.Cut(other, 0)); err != nil {
			t.Fatal(err)
		}
	}
	s.send(0, 30)
	if err := clustertest.Eventually(func() error {
		if !slices.Contains(get[readiness](t, c.list[1], "/readiness-check").Adopted, instance) && !slices.Contains(get[readiness](t, c.list[2], "/readiness-check").Adopted, instance) {
			return errors.New("no node has taken over")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.links.Heal(); err != nil {
		t.Fatal(err)
	}
	<-c.list[0].Done()
	if err := c.list[0].Close(); err != nil {
		t.Error(err)
	}
	if err := c.open(0); err != nil {
		t.Fatal(err)
	}
	c.awaitSource(c.list[0])
	found, err := filepath.Glob(filepath.Join(c.dir, c.options(0).Node, "fenced-"+instance+"-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %q, %v, want no error and len(found) == 1", found, err)
	}
	folder := filepath.Base(found[0])

	server := httptest.NewServer(c.list[0].Handler())
	defer server.Close()
	before := c.ids()
	if len(before) == len(s.want) || !slices.Equal(before, s.want[:len(before)]) {
		t.Fatalf("the table has %q", before)
	}
	void := fmt.Sprintf("sink      web/events: %d rows, ", len(s.want)-len(before))
	if out := c.salvage(server, folder); !strings.Contains(out, void+"only the folder has them") || !strings.Contains(out, "Nothing was changed") {
		t.Errorf("the command says %q", out)
	}
	for range 2 {
		if out := c.salvage(server, "-yes", folder); !strings.Contains(out, void+"stored through instance ") {
			t.Errorf("the command says %q", out)
		}
	}
	s.expect()
	if _, err := os.Stat(found[0]); err != nil {
		t.Error(err)
	}
	r, err := http.Get(server.URL + "/v1/cluster/folders/" + folder)
	if err != nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("without a token: %v, %v", r, err)
	}
	if err == nil {
		_ = r.Body.Close()
	}
}
