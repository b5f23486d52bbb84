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
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/giveup"
)

// copyOf returns the first file of the copy that the server of a node has of the log of an instance.
func (c *nodes) copyOf(i int, instance string) string {
	c.t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.dir, c.options(i).Node, "nats", "jetstream", "*", "streams", "*_"+instance, "msgs", "*.blk"))
	if err != nil || len(paths) == 0 {
		c.t.Fatalf("the copy of node %d: %q, %v", i, paths, err)
	}
	return paths[0]
}

// giveUp gives an instance up with the command forebay, and returns which of its rows arrived in the table.
func (c *nodes) giveUp(instance string, acknowledged []string) (rows []string) {
	c.t.Helper()
	server := httptest.NewServer(c.list[2].Handler())
	defer server.Close()
	run := func(args ...string) (out string) {
		if err := clustertest.Eventually(func() error { // a lost response is an error
			var printed bytes.Buffer
			err := giveup.Run(c.t.Context(), append([]string{"-api", server.URL, "-token", "token"}, append(args, instance)...), api.Environment{
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
	if out := run(); !strings.Contains(out, "Nothing was changed") || !strings.Contains(out, "\nlog ") || !strings.Contains(out, " would be lost") {
		c.t.Errorf("the command says %q", out)
	}
	run("-yes")
	if err := clustertest.Eventually(func() error {
		for _, n := range c.list {
			if slices.Contains(get[readiness](c.t, n, "/readiness-check").Adopted, instance) {
				return nil
			}
		}
		return errors.New("the instance that is given up is not retired")
	}); err != nil {
		c.t.Fatal(err)
	}
	rows = c.ids()
	if len(rows) >= len(acknowledged) || !slices.Equal(rows, acknowledged[:len(rows)]) {
		c.t.Errorf("the table has %q, want the first of %q", rows, acknowledged)
	}
	return rows
}

// Two faults: the machine of an owner is gone with its disk, and copies of its log are damaged. What another copy has comes to the table.
// What no copy has that can be read is reported, and everything that is left stays. Rows are never missing without a word.
func TestOwnerIsLostWithCopiesOfItsLog(t *testing.T) {
	t.Parallel()
	flip := func(content []byte) []byte {
		content[len(content)/2] ^= 1
		return content
	}
	cut := func(content []byte) []byte { return content[:len(content)/2] }
	const (
		hole   = "has a hole on each replica that responds" // the copy of the lost machine may be whole, for all that others know
		damage = "has lost data"
	)
	for what, test := range map[string]struct {
		copies []int
		damage func([]byte) []byte
		said   []string // messages that the adopter may log in place of moving the rows
		may    bool     // move the rows nevertheless
	}{
		"a bit of one copy":    {[]int{1}, flip, nil, true},
		"a bit of both copies": {[]int{1, 2}, flip, []string{hole, damage}, false},
		"one copy is cut":      {[]int{1}, cut, []string{damage}, true},
		"both copies are cut":  {[]int{1, 2}, cut, []string{hole, damage}, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			reported := make(chan struct{})
			report := sync.OnceFunc(func() { close(reported) })
			c := start(t)
			c.define()
			instance := get[readiness](t, c.list[0], "/readiness-check").Instance
			c.heard = func(line string) {
				for _, said := range test.said {
					if strings.Contains(line, said) && strings.Contains(line, instance) {
						report()
					}
				}
			}
			var want []string
			for i := range 50 {
				id := fmt.Sprintf("%04d", i)
				if status := c.post(0, id); status != http.StatusOK {
					t.Fatalf("event %s: status %d", id, status)
				}
				want = append(want, id)
			}
			for i := range c.list { // one alone adopts nothing
				c.close(i)
			}
			if err := os.RemoveAll(filepath.Join(c.dir, c.options(0).Node)); err != nil {
				t.Fatal(err)
			}
			for _, i := range test.copies {
				path := c.copyOf(i, instance)
				content, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, test.damage(content), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			c.timeout = 10 * time.Second // for a copy whose server is away
			var errs [clustertest.Size]error
			var opening sync.WaitGroup
			for _, i := range []int{1, 2} {
				opening.Go(func() { errs[i] = c.open(i) })
			}
			opening.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}

			lost := false
			if err := clustertest.Eventually(func() error {
				select {
				case <-reported:
					lost = true
					return nil
				default:
				}
				for _, i := range []int{1, 2} {
					if slices.Contains(get[readiness](t, c.list[i], "/readiness-check").Adopted, instance) {
						return nil
					}
				}
				return errors.New("the rows are neither moved nor reported as lost")
			}); err != nil {
				t.Fatal(err)
			}
			if !lost && !test.may {
				t.Error("the rows were moved, and no copy has all of them")
			}
			if got := c.ids(); !lost && !slices.Equal(got, want) {
				t.Errorf("the table has %q, want %q", got, want)
			}
			if lost {
				for _, i := range test.copies { // the remaining copies stay
					c.copyOf(i, instance)
				}
			}
			// The node whose machine was lost comes back, and all nodes accept events.
			if err := c.open(0); err != nil {
				t.Fatal(err)
			}
			if lost { // and an operator gives up the missing rows
				want = c.giveUp(instance, want)
			}
			for i := range c.list {
				c.awaitSource(c.list[i])
				id := fmt.Sprintf("after-%d", i)
				if status := c.post(i, id); status != http.StatusOK {
					t.Errorf("event %s: status %d", id, status)
				}
				want = append(want, id)
				if err := c.list[i].Engine().FlushAll(t.Context()); err != nil {
					t.Error(err)
				}
			}
			slices.Sort(want)
			if err := clustertest.Eventually(func() error {
				if got := c.ids(); !slices.Equal(got, want) {
					return fmt.Errorf("the table has %q, want %q", got, want)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
}
