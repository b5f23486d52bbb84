package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
)

// logs returns the streams of instances, and the bytes that they reserve on each server.
func (c *nodes) logs(through int) (names []string, reserved int64, err error) {
	js, err := jetstream.New(c.list[through].Conn())
	if err != nil {
		return nil, 0, err
	}
	list := js.ListStreams(c.t.Context())
	for s := range list.Info() {
		if strings.Contains(s.Config.Name, "_L_") {
			names = append(names, s.Config.Name)
			reserved += s.Config.MaxBytes
		}
	}
	return names, reserved, list.Err()
}

// lose replaces a node by one with an empty folder. The server of the node keeps its data.
func (c *nodes) lose(i int) {
	c.t.Helper()
	c.close(i)
	dir := filepath.Join(c.dir, c.options(i).Node)
	entries, err := os.ReadDir(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); path != c.server(i) {
			if err := os.RemoveAll(path); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if err := c.open(i); err != nil {
		c.t.Fatalf("a new node after the loss: %v", err)
	}
}

// Nodes are lost one after the other, each with a rejected record, and new ones come. Each record is in one quarantine at the end. Only three
// streams remain. They reserve no more than the streams of three new nodes.
func TestLossesFillNothing(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.defineQuarantine()
	var want []string
	losses := casetest.Of(200, 4, 2)
	for n := range losses {
		i := n % clustertest.Size
		c.awaitSource(c.list[i])
		id := fmt.Sprintf("lost %03d", n)
		if status := c.post(i, id); status != http.StatusOK {
			t.Fatalf("record %q: status %d", id, status)
		}
		want = append(want, `{"id":"`+id+`"}`)
		c.lose(i)
		if err := clustertest.Eventually(func() error {
			names, reserved, err := c.logs(i)
			if err == nil && (len(names) > clustertest.Size || reserved > clustertest.Size*32<<20) {
				err = fmt.Errorf("after %d losses there are the streams %q, which reserve %d bytes", n+1, names, reserved)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := clustertest.Eventually(func() error {
		var got []string
		for f := (forebay.RejectedFilter{}); ; {
			page, err := c.list[0].Catalog().Rejected(t.Context(), "web", "events", f, 50)
			if err != nil || len(page.Missing) > 0 {
				return fmt.Errorf("the list lacks %v: %w", page.Missing, err)
			}
			for _, r := range page.Records {
				content, err := c.list[0].Catalog().RejectedRecord(t.Context(), "web", "events", r.ID)
				if err != nil {
					return err
				}
				got = append(got, string(content.Came))
			}
			if f.After = page.Next; f.After == "" {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the quarantines have %q, want %q", got, want)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// The table refuses the rows of a lost node. Its stream was large. The adopter keeps the file that waits, and the servers get back what the rest of the
// stream had reserved. The rows are in the table once when it takes rows again.
func TestHeldFileReservesLittle(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	c := startNodes(t, false, func(c *nodes) {
		c.target = func(string) driver.Target { return blocked{dir.Tables(c.tables()), &refuses} }
	})
	c.define()
	refuses.Store(true)
	const least = 96 << 20
	var want []string
	noise := rand.NewChaCha8([32]byte{})
	large := func() int64 {
		_, reserved, err := c.logs(1)
		if err != nil {
			t.Fatal(err)
		}
		return reserved
	}
	for n := 0; large() < clustertest.Size*32<<20+least; n++ {
		var random [256 << 10]byte
		_, _ = noise.Read(random[:]) // it cannot fail
		id := fmt.Sprintf("lost %03d %x", n, random)
		if status := c.post(0, id); status != http.StatusOK {
			t.Fatalf("row %d: status %d", n, status)
		}
		want = append(want, id)
	}
	c.lose(0)
	if err := clustertest.Eventually(func() error {
		names, reserved, err := c.logs(1)
		if most := int64(clustertest.Size+1) * 32 << 20; err == nil && (len(names) != clustertest.Size+1 || reserved > most) {
			err = fmt.Errorf("there are the streams %q, which reserve %d bytes, want the streams of %d nodes and of the lost one, and at most %d bytes",
				names, reserved, clustertest.Size, most)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	refuses.Store(false)
	slices.Sort(want)
	if err := clustertest.Eventually(func() error {
		if got := c.ids(); !slices.Equal(got, want) {
			return fmt.Errorf("the table has %d rows, want %d, each once", len(got), len(want))
		}
		names, _, err := c.logs(1)
		if err == nil && len(names) > clustertest.Size {
			err = fmt.Errorf("there are the streams %q", names)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// blocked are tables that refuse rows until an operator changes them.
type blocked struct {
	*dir.TableDir
	refuses *atomic.Bool
}

func (b blocked) Import(ctx context.Context, f *driver.File) error {
	if b.refuses.Load() {
		return driver.Permanent(errors.New("a column is missing"))
	}
	return b.TableDir.Import(ctx, f)
}
