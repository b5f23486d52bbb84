package browsertest

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// outageFiles is the number of files that fail in TestOutage. The figures of docs/console.md are of 20,000.
var outageFiles = flag.Int("files", 1000, "how many files fail in TestOutage")

// While thousands of files fail, the page of their sink names the cause once, is small, and costs next to nothing while it counts down.
func TestOutage(t *testing.T) {
	target := &broken{Memory: buffertest.NewMemory()}
	target.on.Store(true)
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: target.Memory, Target: target, Buffer: buffer.Tuning{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	one := trigger.Conditions{Count: 1}
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")}},
		Settings: forebay.Settings{Upload: one, Import: one},
	}}}); err != nil {
		t.Fatal(err)
	}
	c := newConsole(t, eng, console.Options{Authorize: everything})
	url := serve(t, c)
	b := newTab(t)
	failing := func() (n int) {
		for _, f := range eng.Stats().Sinks[0].Files {
			if f.Attempt > 0 {
				n++
			}
		}
		return n
	}
	ingest(t, eng, "web", *outageFiles)
	within := time.After(stepWithin + time.Duration(*outageFiles)*10*time.Millisecond)
	for tick := time.Tick(200 * time.Millisecond); failing() < *outageFiles; { // a look takes long with many files
		select {
		case <-tick:
		case <-within:
			t.Fatalf("%d of %d files fail", failing(), *outageFiles)
		}
	}
	b.open("about:blank")
	began := time.Now()
	b.live(url + "#/sink/web/orders")
	b.text(`Import fails: columns differ: "price" is missing.`)
	opened := time.Since(began)
	page := eval[int](b, `document.documentElement.outerHTML.length`)
	high := eval[int](b, `document.documentElement.scrollHeight`)
	lines := eval[int](b, `document.querySelectorAll("section[data-page=sink] tr").length`)
	const watch = 5 * time.Second
	server, task := cputime.Process(), b.taskTime()
	<-time.After(watch)
	busy := (b.taskTime() - task) / watch.Seconds() * 100
	served := float64(cputime.Process()-server) / float64(watch) * 100
	t.Logf("%d files: opened in %v, %d bytes, %d lines, %d px; then %.1f %% of a core in the page, %.1f %% in the engine with the retries of the files", failing(), opened, page, lines, high, busy, served)
	if page > 200<<10 || high > 6000 {
		t.Errorf("the page has %d bytes and is %d px high, want at most 204800 and 6000", page, high)
	}
	if busy > 6 { // 1.3. A water that moved between two samples took 10
		t.Errorf("the page takes %.1f %% of a core", busy)
	}
	if n := eval[int](b, `document.querySelectorAll("table.causes tbody tr").length`); n != 1 {
		t.Errorf("%d causes, want 1", n)
	}
	b.choose("Next")
	b.until(`location.hash.includes("from=50")`)
	b.text(fmt.Sprintf("51–100 of %s", eval[string](b, fmt.Sprintf("(%d).toLocaleString('en')", *outageFiles))))
	target.on.Store(false)
	b.choose("Retry now")
	b.until(fmt.Sprintf(`document.querySelector("section[data-page=sink] .ledger").textContent.replace(/,/g, "").startsWith("%[1]d accepted = %[1]d in table")`, *outageFiles))
	b.until(`document.querySelector("table.causes").hidden`)
}
