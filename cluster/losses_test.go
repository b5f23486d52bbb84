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
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
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

// Nodes are lost one after the other, each with a rejected record and a row that the table refuses, and new ones come. After each loss only three streams
// remain. They reserve no more than the streams of three new nodes. At the end, each record is in one quarantine, the counters of all nodes hold, and
// the table that was repaired has each row once.
//
// 200 losses: FOREBAY_CASES=all go test . -run '^TestLossesFillNothing$' -timeout 3h -v
func TestLossesFillNothing(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	refuses.Store(true)
	c := startNodes(t, false, func(c *nodes) {
		c.target = func(string) driver.Target { return blocked{dir.Tables(c.tables()), &refuses} }
	})
	c.defineQuarantine()
	var want, rows []string
	began := time.Now()
	names, reserved, err := c.logs(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("before the first loss there are %d streams, which reserve %d MiB", len(names), reserved>>20)
	losses := casetest.Of(200, 4, 2)
	for n := range losses {
		i := n % clustertest.Size
		c.awaitSource(c.list[i])
		id := fmt.Sprintf("lost %03d", n)
		if status := c.post(i, id); status != http.StatusOK {
			t.Fatalf("record %q: status %d", id, status)
		}
		want = append(want, `{"id":"`+id+`"}`)
		row := fmt.Sprint(1000 + n)
		if status := c.post(i, row); status != http.StatusOK {
			t.Fatalf("row %q: status %d", row, status)
		}
		rows = append(rows, row)
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
		if n%10 == 9 || n == losses-1 {
			names, reserved, err := c.logs(i)
			t.Logf("after %d losses in %s there are %d streams, which reserve %d MiB, %v", n+1, time.Since(began).Round(time.Second), len(names), reserved>>20, err)
		}
	}
	c.awaitCounts(losses, losses, 0)
	refuses.Store(false)
	if err := c.list[0].Catalog().Retry(t.Context(), catalog.Ref{Source: "web"}); err != nil {
		t.Error(err)
	}
	if err := clustertest.Eventually(func() error {
		if got := c.ids(); !slices.Equal(got, rows) {
			return fmt.Errorf("the table has the rows %q, want %q", got, rows)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	c.awaitCounts(losses, 0, losses)
	if err := clustertest.Eventually(func() error {
		var got []string
		for f := (forebay.RejectedFilter{}); ; {
			page, err := c.list[0].Catalog().Handle("web", "events").Rejected(t.Context(), f, 50)
			if err != nil || len(page.Missing) > 0 {
				return fmt.Errorf("the list lacks %v: %w", page.Missing, err)
			}
			for _, r := range page.Records {
				content, err := c.list[0].Catalog().Handle("web", "events").RejectedRecord(t.Context(), r.ID)
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

// awaitCounts waits until the counters of all nodes together have so many rejected records, rows in staging and rows in the table.
func (c *nodes) awaitCounts(records, staged, imported int) {
	c.t.Helper()
	if err := clustertest.Eventually(func() error {
		st, err := c.list[0].Catalog().Handle("web", "events").Statistics(c.t.Context())
		if err != nil || len(st.Missing) > 0 {
			return fmt.Errorf("the counters lack %v: %w", st.Missing, err)
		}
		got := [4]int64{st.Quarantine.Records, st.Total.Rows, st.Staging.Rows, st.Target.Rows}
		if want := [4]int64{int64(records), int64(staged + imported), int64(staged), int64(imported)}; got != want {
			return fmt.Errorf("the counters of records in quarantine, all rows, rows in staging and in the table are %v, want %v", got, want)
		}
		return nil
	}); err != nil {
		c.t.Error(err)
	}
}

// The table refuses the rows of a lost node. Its stream was large. The waiting file moves to the adopter, and the servers get back the space that the stream
// had reserved. The rows are in the table once when it accepts rows again.
func TestHeldFileReservesNothing(t *testing.T) {
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
		if most := int64(clustertest.Size) * 32 << 20; err == nil && (len(names) != clustertest.Size || reserved > most) {
			err = fmt.Errorf("there are the streams %q, which reserve %d bytes, want the streams of %d nodes, and at most %d bytes",
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
