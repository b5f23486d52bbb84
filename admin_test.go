package forebay_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/metertest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// docs/metrics.md lists every metric of an engine with its unit, and no other. A test of the module cluster checks the metrics of a cluster.
func TestMetricsAreDocumented(t *testing.T) {
	meter := metertest.New()
	openMemory(t, func(o *forebay.Options) { o.Meter = meter })
	text, err := os.ReadFile("docs/metrics.md")
	must(t, err)
	documented := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) > 4 && strings.HasPrefix(strings.TrimSpace(cells[1]), "`forebay.") && !strings.Contains(cells[1], "forebay.cluster.") {
			documented[strings.Trim(cells[1], " `")] = strings.Trim(cells[2], " `")
		}
	}
	units := meter.Units()
	for name, unit := range units {
		if documented[name] != unit {
			t.Errorf("%s has the unit %q, documented is %q, want %v", name, unit, documented[name], unit)
		}
	}
	for name := range documented {
		if _, ok := units[name]; !ok {
			t.Errorf("%s is documented and does not exist", name)
		}
	}
}

func TestRejectionsAreMeasuredBySourceAndSink(t *testing.T) {
	meter := metertest.New()
	e, _ := openMemory(t, func(o *forebay.Options) { o.Meter = meter })
	mustDefine(t, e, events())
	if _, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"id":1}`))); err == nil {
		t.Fatal("a record without a name was taken")
	}
	values := meter.Collect()
	if n := values["forebay.rows.accepted{sink=raw,source=web}"]; n != 1 {
		t.Errorf("%v rows of web/raw are accepted: %v, want 1", n, values)
	}
	found := false
	for name, n := range values {
		if strings.HasPrefix(name, "forebay.records.rejected{reason=") && strings.HasSuffix(name, ",sink=users,source=web}") {
			found = found || n == 1
		}
	}
	if !found {
		t.Errorf("the rejection is not measured: %v", values)
	}
}

func TestRetryAndDiscardNameTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t)
		mustDefine(t, e, events())
		for what, err := range map[string]error{
			"retry":      e.Sink("web", "none").Retry(t.Context()),
			"retry file": e.Sink("web", "none").RetryFile(t.Context(), "x-f1"),
			"split":      e.Sink("web", "none").SplitFile(t.Context(), "x-f1"),
			"quarantine": e.Sink("web", "none").QuarantineFile(t.Context(), "x-f1"),
			"discard":    e.Sink("none", "users").Discard(t.Context(), "x-f1"),
		} {
			if !errors.Is(err, forebay.ErrUnknownSink) {
				t.Errorf("%s: got %v, want errors.Is(err, forebay.ErrUnknownSink)", what, err)
			}
		}
		mustIngest(t, e, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"a"}}`)))
		mem.Alter("in.c-web.users", datatype.UntypedColumns("other")...)
		if err := e.Flush(t.Context(), "web"); err == nil {
			t.Fatal("a table with other columns took rows")
		}
		imports := func() (n int) {
			for _, c := range mem.Calls() {
				if c.Op == buffertest.OpImport {
					n++
				}
			}
			return n
		}
		synctest.Wait() // Flush ends with the first failure
		before := imports()
		must(t, e.Sink("web", "users").Retry(t.Context()))
		synctest.Wait()
		if imports() == before {
			t.Error("Retry made no attempt")
		}
		for _, s := range e.Stats().Sinks {
			if s.Sink != "users" {
				continue
			}
			must(t, e.Sink("web", "users").Discard(t.Context(), s.Files[0].ID))
		}
		must(t, e.Flush(t.Context(), "web"))
	})
}
