package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// The pictures of README and docs are made here, light and dark, with two sinks that flow and one whose target refuses, and the same after it has
// recovered. FOREBAY_SHOTS names the folder, for the committed ones ../../docs/img. Without it they are made too, so that none of their content can
// disappear unnoticed.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("FOREBAY_SHOTS")
	if folder == "" {
		folder = t.TempDir()
	}
	target := &broken{Memory: buffertest.NewMemory(), table: "shop.orders"}
	home := t.TempDir()
	eng, err := forebay.Open(home, forebay.Options{Staging: target.Memory, Target: target, Buffer: buffer.Tuning{MinImportInterval: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	cat, err := catalog.Open(filepath.Join(home, "catalog"), eng, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cat.Close() })
	sources := [][2]string{{"web", "events"}, {"shop", "orders"}, {"crm", "signups"}}
	for _, ids := range sources {
		err := eng.Define(t.Context(), forebay.Source{ID: ids[0], Sinks: []forebay.Sink{{
			ID: ids[1], Table: forebay.Table{ID: ids[0] + "." + ids[1], Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")}},
			Settings: forebay.Settings{Upload: trigger.Conditions{Interval: 3 * time.Second}, Import: trigger.Conditions{Interval: 5 * time.Second}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	c := newConsole(t, eng, console.Options{Name: "node-a", Catalog: cat})
	url := serve(t, c)
	b := newTab(t)
	b.signIn(c, url)

	done := make(chan struct{})
	var feeder sync.WaitGroup
	feeder.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			for n, ids := range sources {
				for range []int{90, 23 + i%5, 4}[n] {
					if _, err := eng.Ingest(t.Context(), ids[0], mapping.JSON([]byte(`{"kind":"click"}`))); err != nil {
						t.Error(err)
						return
					}
				}
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	defer feeder.Wait()
	defer close(done)

	const inTable = `Number(document.querySelector(".level.table .rows span").textContent.replace(/,/g, ""))`
	b.until(inTable + ` > 10000`)
	target.on.Store(true)
	b.until(`Number(document.querySelectorAll(".tank")[1].getAttribute("aria-valuenow")) > 2.6 && Number(document.querySelectorAll(".tank")[0].getAttribute("aria-valuenow")) > 0.5`)
	b.text("columns differ")
	size := func(height int64) {
		if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1120, height, chromedp.EmulateScale(1.5))); err != nil {
			t.Fatal(err)
		}
	}
	size(800)
	b.until(`innerWidth === 1120`)
	height := eval[float64](b, `document.getElementById("plots").getBoundingClientRect().top + document.querySelector("footer").offsetHeight`)
	size(int64(height))
	b.until(fmt.Sprintf("innerHeight === %d", int64(height)))
	shoot := func(name string) {
		t.Helper()
		for _, theme := range []string{"light", "dark"} {
			eval[bool](b, `(() => { const t = document.getElementById("theme"); while (document.documentElement.dataset.theme !== `+quoted(theme)+`) t.click(); return true })()`)
			png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, name+"-"+theme+".png"), png, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	shoot("console")

	// The sink recovers.
	target.on.Store(false)
	if err := eng.Sink("shop", "orders").Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(`document.getElementById("verdict").dataset.state === "ok" && document.querySelector('.marks [data-kind="well"]')`)
	size(1000)
	b.until(`innerHeight === 1000`)
	height = eval[float64](b, `document.querySelector("#plots").getBoundingClientRect().bottom + document.querySelector("footer").offsetHeight + 12`)
	size(int64(height))
	b.until(fmt.Sprintf("innerHeight === %d", int64(height)))
	shoot("console-recovered")
}
