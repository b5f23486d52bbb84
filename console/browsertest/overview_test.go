package browsertest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay/console"
)

// The plots draw the server's history, and have the values as text for users who cannot see them.
func TestPlots(t *testing.T) {
	eng := newEngine(t, 1, 2)
	ingest(t, eng, "web0", 40)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	b.until(`document.querySelectorAll("#plots canvas").length === 6`)
	b.until(`/^Oldest waiting row of the last hour, now: local \d.* (s|min), staging 0 s$/.test(document.querySelectorAll("#plots [role=img]")[1].getAttribute("aria-label"))`)
	b.choose("Show the values")
	b.until(`document.querySelectorAll("#plots tbody tr").length >= 1`)
	b.text("records rejected")
	if label := eval[string](b, `document.querySelectorAll("#plots [role=img]")[4].getAttribute("aria-label")`); label != "Imports of the last hour, last: median –, p99 –" {
		t.Errorf("without an import: %s", label)
	}
	// The next point has the measurements since the first one.
	ingest(t, eng, "web0", 3)
	if err := eng.Flush(t.Context(), "web0"); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"Commits", "Uploads", "Imports"} {
		b.until(fmt.Sprintf(`/^%s of the last hour, last: median [\d.]+ (ms|s), p99 [\d.]+ (ms|s)$/.test(document.querySelectorAll("#plots [role=img]")[%d].getAttribute("aria-label"))`, name, i+2))
		b.until(fmt.Sprintf(`/^[\d.]+ (ms|s)$/.test(document.querySelector('#plots tbody tr td[data-label="%s median"]').textContent)`, name))
	}
	eval[bool](b, `document.getElementById("theme").click(), true`) // draws them again
	for _, of := range []struct{ text, last string }{{"7 d", "7 days"}, {"24 h", "24 hours"}, {"6 h", "6 hours"}, {"1 h", "hour"}} {
		b.choose(of.text)
		b.until(fmt.Sprintf(`document.querySelectorAll("#plots canvas").length === 6 && document.querySelectorAll("#plots [role=img]")[1].getAttribute("aria-label").startsWith("Oldest waiting row of the last %s, now: local ")`, of.last))
	}
}

// 1,000 sinks are a page of 50, whose updates take little.
func TestManySinks(t *testing.T) {
	eng := newEngine(t, 10, 100)
	for _, source := range []string{"web0", "web3", "web9"} {
		ingest(t, eng, source, 3)
	}
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	b.text("All 1,000 sinks flow")
	b.text("1–50 of 1,000")
	if n := eval[int](b, `document.querySelectorAll("#sinks tbody tr").length`); n != 50 {
		t.Errorf("got %d rows, want 50", n)
	}
	size := eval[int](b, `performance.getEntriesByType("navigation")[0].decodedBodySize`)
	if size > 60<<10 {
		t.Errorf("the document has %d bytes", size)
	}
	eval[bool](b, `window.longest = 0, new PerformanceObserver((l) => { for (const e of l.getEntries()) window.longest = Math.max(window.longest, e.duration) }).observe({ type: "longtask" }), true`)
	seq := eval[int](b, `Number(document.documentElement.dataset.seq)`)
	ingest(t, eng, "web0", 50)
	b.until(`Number(document.documentElement.dataset.seq) > ` + itoa(seq+3))
	b.text("53 rows wait")
	t.Logf("the document has %d bytes, the longest task took %v ms", size, eval[float64](b, `window.longest`))
	b.click("#filter")
	b.press("web3/sink07")
	b.text("1–1 of 1")
	b.until(`document.querySelector("#sinks tbody th").textContent === "web3/sink07" && location.hash.includes("filter=web3")`)
	b.click("#sinks tbody th a")
	b.text("3 accepted = 0 in table + 3 waiting")

	// From a sink to its source. The picture has the sums of all its sinks.
	b.click("section[data-page=sink] a[href*=filter]")
	b.text("Levels of source web3, 100 sinks")
	b.text("1–50 of 100")
	b.until(`document.querySelector("#picture .level p span").textContent === "300"`)
	b.click("#filter")
	eval[bool](b, `document.getElementById("filter").select(), true`)
	b.press("web3/sink07")
	b.text(`Levels of 1 sink with "web3/sink07"`)
}

// Every control has a name, no style attribute is written by us, and a phone needs no sideways scroll.
func TestNamesAndWidths(t *testing.T) {
	eng, target := newShop(t)
	target.on.Store(true)
	ingest(t, eng, "web", 3)
	c := newConsole(t, eng, console.Options{})
	url := serve(t, c)
	b := newTab(t)
	b.signIn(c, url)
	b.text(`columns differ`)
	for _, hash := range []string{"#/overview", "#/sink/web/orders"} {
		eval[bool](b, `location.hash = `+quoted(hash)+`, true`)
		b.until(`document.documentElement.dataset.page === ` + quoted(map[string]string{"#/overview": "overview"}[hash]) + ` || document.querySelector("section[data-page=sink] .files tbody tr")`)
		const nameless = `[...document.querySelectorAll("a[href], button, input, select, textarea, [role=meter], [role=img]")].filter((n) => n.offsetParent &&
			!(n.getAttribute("aria-label") || n.textContent.trim() || n.labels && n.labels.length)).map((n) => n.outerHTML.slice(0, 80))`
		if bad := eval[[]string](b, nameless); len(bad) > 0 {
			t.Errorf("%s: without a name: %q", hash, bad)
		}
		if n := eval[int](b, `document.querySelectorAll("h1").length`); n != 1 {
			t.Errorf("%s: got %d headings of the first level, want 1", hash, n)
		}
		if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(360, 740)); err != nil {
			t.Fatal(err)
		}
		b.until(`innerWidth === 360`)
		if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 360 {
			t.Errorf("%s: the page is %d wide on a phone, want at most 360", hash, wide)
		}
		if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 800)); err != nil {
			t.Fatal(err)
		}
		b.until(`innerWidth === 1280`)
	}
}

// With a source for each of 10,000 tenants the page has 50 sinks, and the filter finds the sink of a tenant. The gate plays 1,000.
func TestManySources(t *testing.T) {
	sources := 1_000
	if os.Getenv("FOREBAY_NIGHTLY") == "1" {
		sources = 10_000
	}
	eng := newEngine(t, sources, 1)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	began := time.Now()
	b.live(url)
	b.until(`document.querySelectorAll("#sinks tbody tr").length === 50`)
	opened := time.Since(began)
	size := eval[int](b, `document.documentElement.outerHTML.length`)
	t.Logf("%d sources: opened in %v, %d bytes", sources, opened, size)
	if size > 200<<10 {
		t.Errorf("the page has %d bytes, want at most %d", size, 200<<10)
	}
	last := fmt.Sprintf("web%d", sources-1)
	ingest(t, eng, last, 1)
	b.click("#filter")
	b.press(last + "/")
	b.until(`[...document.querySelectorAll("#sinks tbody th")].map((th) => th.textContent.trim()).join() === ` + quoted(last+"/sink00"))
	eval[bool](b, `document.querySelector("#sinks tbody th a").click(), true`)
	b.text(last + "/sink00")
	b.until(`document.querySelector("section[data-page=sink] .ledger").textContent.startsWith("1 accepted")`)
}
