package browsertest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
)

// Verify runs from the page, which shows its outcome with room, memory and the nodes of a cluster, of which one is away and one has a
// damaged instance. Names of strangers are text.
func TestHealthPage(t *testing.T) {
	eng := newEngine(t, 2, 2)
	ingest(t, eng, "web0", 3)
	nodes := func(context.Context) ([]catalog.Node, error) {
		return []catalog.Node{
			{Name: "a", Instance: "a-0_x", Epoch: 3, Ready: true, LogBytes: 1 << 20, LogMaxBytes: 64 << 20, Adopted: []string{"c-0_old"}},
			{Name: "b", Instance: "b-0_x", Epoch: 1, Missing: "it does not respond", Damaged: []string{"b-0_lost"}},
			{Name: "<img src=x onerror=owned=1>", Missing: "<b>bold</b>"},
		}, nil
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Version: "v1.2.3", Nodes: nodes}))
	b := newTab(t)
	b.live(url)
	b.press("gh")
	b.until(`document.documentElement.dataset.page === "health"`)
	b.text("Ready: records are taken.")
	b.text("No verification has run since the console was started.")
	b.text("No stored row was ever found damaged")
	b.until(`[...document.querySelectorAll("section[data-page=health] dt")].map((n) => n.textContent + "=" + n.nextSibling.textContent).some((s) => /^Free on the volume=[0-9.]+ [KMGT]iB$/.test(s))`)
	b.text("64.0 MiB")
	b.text("v1.2.3")
	b.text("2 of 3 nodes are not ready.")
	b.text("not ready: it does not respond")
	b.text("damaged: b-0_lost")
	b.text("adopted c-0_old")
	b.text("1.00 MiB of 64.0 MiB, 1.56 %")
	b.text("<img src=x onerror=owned=1>")
	b.text("not ready: <b>bold</b>")
	if eval[bool](b, `window.owned !== undefined || document.querySelector("section[data-page=health] img, section[data-page=health] b") !== null`) {
		t.Error("the name of a node became markup")
	}
	b.button("Verify")
	b.text("6 rows of 4 sinks recounted: no difference.")
	b.text("Verify: 6 rows recounted, no difference, done")

	b.wide(360)
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
}

// Who sees numbers alone has no button, and no word of an error.
func TestHealthOfReaders(t *testing.T) {
	folder := t.TempDir()
	eng, err := forebay.Open(folder, forebay.Options{Target: dir.Tables(filepath.Join(folder, "tables"))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	nodes := func(context.Context) ([]catalog.Node, error) {
		return []catalog.Node{{Name: "a", Missing: "words"}}, errors.New("words")
	}
	url := serve(t, newConsole(t, eng, console.Options{Public: console.Numbers, Nodes: nodes}))
	b := newTab(t)
	b.live(url + "#/health")
	b.text("the servers of the cluster return an error.")
	b.text("The missing parts need the right to records.")
	if eval[bool](b, `document.querySelector("section[data-page=health] button").offsetParent !== null || document.querySelector("section[data-page=health]").textContent.includes("words")`) {
		t.Error("a reader has a button, or sees words of an error")
	}
}
