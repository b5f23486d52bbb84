package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/metertest"
)

// refusing are tables that refuse rows while refuses is set.
type refusing struct {
	*dir.TableDir
	refuses *atomic.Bool
}

func (r refusing) Import(ctx context.Context, f *driver.File) error {
	if r.refuses.Load() {
		return errors.New("the table is closed")
	}
	return r.TableDir.Import(ctx, f)
}

// clusterMetrics returns the cluster metrics in the meter of a node.
func clusterMetrics(m *metertest.Meter) map[string]float64 {
	got := m.Collect()
	maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.HasPrefix(name, "forebay.cluster.") })
	return got
}

// A node measures its log, its lease and its instance, and the instances that it drains for lost nodes. docs/metrics.md lists all metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	meters := map[string]*metertest.Meter{"a": metertest.New(), "b": metertest.New(), "c": metertest.New()}
	c := startNodes(t, false, func(c *nodes) {
		c.target = func(string) driver.Target { return refusing{dir.Tables(c.tables()), &refuses} }
		c.meters = meters
	})
	c.define()
	refuses.Store(true)
	open := []int{0, 1, 2}
	// eventually waits until check returns nil. Meanwhile it opens nodes again that have lost their instance.
	eventually := func(what string, check func() error) {
		t.Helper()
		if err := clustertest.Eventually(func() error {
			for _, i := range open {
				if err := c.reopen(i); err != nil {
					return err
				}
			}
			return check()
		}); err != nil {
			t.Fatalf("%s: got %v, want no error", what, err)
		}
	}
	lost := "" // the instance that has the rows
	eventually("one instance takes all rows", func() error {
		before := get[readiness](t, c.list[0], "/readiness-check").Instance
		for i := range 5 {
			if status := c.post(0, fmt.Sprint(i)); status != http.StatusOK {
				return fmt.Errorf("status %d of row %d, want 200", status, i)
			}
		}
		lost = before
		return nil
	})
	measures := func(node string, ok func(map[string]float64) bool) func() error {
		return func() error {
			if got := clusterMetrics(meters[node]); !ok(got) {
				return fmt.Errorf("node %s measures %v", node, got)
			}
			return nil
		}
	}
	eventually("all is well", measures("a", func(got map[string]float64) bool {
		left := got["forebay.cluster.lease.left{}"]
		return got["forebay.cluster.epoch{}"] >= 1 && left > 0 && left <= testLease.Seconds() &&
			got["forebay.cluster.log.size{}"] > 0 && got["forebay.cluster.log.limit{}"] == 28<<20 && got["forebay.cluster.log.waiting{}"] == 0 &&
			got["forebay.cluster.log.failing{}"] == 0 && got["forebay.cluster.log.behind{}"] == 0 && got["forebay.cluster.instances{state=owned}"] == 3 &&
			got["forebay.cluster.server.reserved{}"] >= 3*32<<20 && got["forebay.cluster.server.limit{}"] == 4<<30
	}))
	if _, made := clusterMetrics(meters["a"])["forebay.cluster.checkpoint.age{}"]; made {
		t.Error("a checkpoint is measured that nobody has made")
	}
	documentedMetrics(t, meters["a"].Units())

	open = []int{1, 2}
	c.close(0)
	if n := meters["a"].Callbacks(); n > 0 {
		t.Errorf("a closed node measures: %d callbacks", n)
	}
	defer func() {
		if err := c.open(0); err != nil { // which the end of the test closes
			t.Error(err)
		}
	}()
	eventually("a copy is away", measures("b", func(got map[string]float64) bool { return got["forebay.cluster.log.behind{}"] == 1 }))
	of := "{adopted=" + lost + "}"
	eventually("one node measures the rows of "+lost, func() error {
		b, c := clusterMetrics(meters["b"]), clusterMetrics(meters["c"])
		for _, got := range []map[string]float64{b, c} {
			if got["forebay.cluster.adopted.rows"+of] >= 5 && got["forebay.cluster.adopted.age"+of] > 0 &&
				got["forebay.cluster.adopted.size"+of] > 0 && got["forebay.cluster.adopted.duration"+of] > 0 {
				return nil
			}
		}
		return fmt.Errorf("nodes b and c measure %v, %v", b, c)
	})
	refuses.Store(false)
	eventually("all rows are moved", func() error {
		for _, node := range []string{"b", "c"} {
			if _, waits := clusterMetrics(meters[node])["forebay.cluster.adopted.duration"+of]; waits {
				return fmt.Errorf("node %s drains %s", node, lost)
			}
		}
		got := slices.Compact(c.ids())
		if len(got) != 5 {
			return fmt.Errorf("the table has %v, want 5 ids", got)
		}
		return nil
	})
}

// documentedMetrics compares docs/metrics.md with the units of all instruments.
func documentedMetrics(t *testing.T, units map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(forebay\\.cluster\\.[a-z.]+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = row[2]
	}
	maps.DeleteFunc(units, func(name, _ string) bool { return !strings.HasPrefix(name, "forebay.cluster.") })
	if !maps.Equal(documented, units) {
		t.Errorf("documented are %v, measured %v", slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(units)))
	}
}
