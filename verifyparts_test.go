package forebay_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
)

// A loader that deletes the parts that it has loaded leaves a ledger that holds. A part that is cut short does not.
func TestPartsThatWereTakenAwayAreNoDifference(t *testing.T) {
	dir := t.TempDir()
	e, err := forebay.Open(dir, forebay.Options{})
	must(t, err)
	defer e.Close()
	mustDefine(t, e, events())
	for i := range 3 {
		mustIngest(t, e, "web", padded(i))
		must(t, e.Flush(t.Context(), "web"))
	}
	parts, err := filepath.Glob(filepath.Join(dir, "tables", "in.c-web.raw", "*.csv"))
	if err != nil || len(parts) != 3 {
		t.Fatalf("got %q, %v, want no error and len(parts) == 3", parts, err)
	}
	must(t, os.Remove(parts[0]))
	report, err := e.Verify(t.Context())
	if err != nil || !report.OK() || report.Sinks[0].TakenAway != 1 || report.Sinks[0].Imported != 3 || report.Sinks[1].TakenAway != 0 {
		t.Errorf("a part is gone: %+v, %v", report, err)
	}
	must(t, os.WriteFile(parts[1], nil, 0o600))
	if report, err = e.Verify(t.Context()); err != nil || report.OK() {
		t.Errorf("a part is empty: %+v, %v", report, err)
	}
}

// A target that cannot say that parts were taken away has lost them.
func TestPartsThatAreLostAreADifference(t *testing.T) {
	type mute struct {
		driver.Target
		driver.Counter
	}
	mem := buffertest.NewMemory()
	for _, target := range []driver.Target{mem, mute{mem, mem}} {
		e, err := forebay.Open(t.TempDir(), forebay.Options{Staging: mem, Target: target})
		must(t, err)
		defer e.Close()
		mustDefine(t, e, events())
		mustIngest(t, e, "web", padded(1))
		must(t, e.Flush(t.Context(), "web"))
		for _, s := range e.Stats().Sinks {
			mem.TakeAway("in.c-web."+s.Sink, s.Files[0].ID)
		}
		_, says := target.(driver.Taker)
		if report, err := e.Verify(t.Context()); err != nil || report.OK() != says {
			t.Errorf("got %T: %+v, %v, want no error and report.OK() == %v", target, report, err, says)
		}
	}
}
