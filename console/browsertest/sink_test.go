package browsertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// broken is a target that refuses files of table, or all files without one, while it is on.
type broken struct {
	*buffertest.Memory
	table string
	on    atomic.Bool
}

func (b *broken) Import(ctx context.Context, f *driver.File) error {
	if b.on.Load() && (b.table == "" || f.Table.ID == b.table) {
		return errors.New(`columns differ: "price" is missing`)
	}
	return b.Memory.Import(ctx, f)
}

// newShop has the sinks web/orders, whose files are imported a second after their first row, and web/slow, whose files wait.
func newShop(t *testing.T) (*forebay.Engine, *broken) {
	t.Helper()
	target := &broken{Memory: buffertest.NewMemory()}
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: target.Memory, Target: target, Buffer: buffer.Tuning{MinImportInterval: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	def := forebay.Source{ID: "web"}
	for id, interval := range map[string]time.Duration{"orders": time.Second, "slow": 20 * time.Minute} {
		def.Sinks = append(def.Sinks, forebay.Sink{
			ID: id, Table: forebay.Table{ID: "web." + id, Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")}},
			Settings: forebay.Settings{Upload: trigger.Conditions{Interval: interval}, Import: trigger.Conditions{Interval: interval}},
		})
	}
	if err := eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	return eng, target
}

// signIn opens a page as a user with all rights.
func (b *tab) signIn(c *console.Console, url string) {
	b.t.Helper()
	b.open(url)
	b.until(`document.activeElement && document.activeElement.name === "token"`)
	b.press(c.Token() + "\r")
	b.until(`document.documentElement.dataset.seq > 0`)
}

// button is an expression for the visible button with a text.
func button(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("button")].find((b) => b.offsetParent && b.textContent === %q)`, text)
}

// choose presses the button with a text.
func (b *tab) choose(text string) {
	b.t.Helper()
	b.until(button(text))
	eval[bool](b, button(text)+`.click(), true`)
}

// Retry, Flush and Discard work, next to the problem that the page shows.
func TestActs(t *testing.T) {
	eng, target := newShop(t)
	target.on.Store(true)
	c := newConsole(t, eng, console.Options{})
	url := serve(t, c)
	b := newTab(t)
	b.signIn(c, url)
	ingest(t, eng, "web", 7)
	b.text(`Import fails: columns differ: "price" is missing. Since `)
	b.until(`document.querySelector('tr[data-key="web/orders"] td.state').dataset.state === "fails"`)
	b.click(`tr[data-key="web/orders"] th a`)
	b.until(`location.hash === "#/sink/web/orders"`)
	b.text(`7 rows in 1 file wait.`)
	b.text("7 accepted = 0 in table + 7 waiting")
	b.until(`document.querySelector("section[data-page=sink] .tank[aria-label=Staging]").getAttribute("aria-valuetext").startsWith("Staging: 7 rows, oldest")`)

	target.on.Store(false)
	b.choose("Retry now")
	b.text("7 accepted = 7 in table + 0 waiting")
	if n := eng.Stats().Sinks[0].Target.Rows; n != 7 {
		t.Fatalf("%d rows are in the table, want 7", n)
	}

	eval[bool](b, `location.hash = "#/sink/web/slow", true`)
	b.text("7 accepted = 0 in table + 7 waiting")
	if eval[bool](b, `Boolean(`+button("Retry now")+`)`) {
		t.Error("a sink that works offers Retry")
	}
	b.choose("Flush")
	b.text("Flush web/slow: all rows are in the table, done")
	b.text("7 accepted = 7 in table + 0 waiting")

	ingest(t, eng, "web", 3)
	b.text("10 accepted = 7 in table + 3 waiting")
	b.choose("Discard…")
	b.text("Discard 3 rows?")
	if focus := eval[string](b, `document.activeElement.textContent`); focus != "Cancel" {
		t.Errorf("the focus is on %q", focus)
	}
	b.choose("Cancel")
	b.until(`!document.querySelector("dialog")`)
	if s := eng.Stats().Sinks[1]; s.Discarded.Rows != 0 {
		t.Errorf("%d rows were discarded by Cancel, want 0", s.Discarded.Rows)
	}
	b.choose("Discard…")
	b.choose("Discard")
	b.text("+ 3 discarded +")
	if s := eng.Stats().Sinks[1]; s.Discarded.Rows != 3 {
		t.Errorf("%d rows are discarded, want 3", s.Discarded.Rows)
	}
}

// A file whose rows the target all refuses offers the possible decisions, and a working file does not.
func TestHeldFile(t *testing.T) {
	mem := buffertest.NewMemory()
	mem.Refuse = func(_ string, row []string) driver.RowError {
		if row[0] != "bad" {
			return driver.RowError{}
		}
		return driver.RowError{Column: "kind", Reason: "23514", Message: "violates the check"}
	}
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: mem, Target: mem})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "orders", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{mapping.Path("kind", "kind", mapping.RawString())}},
	}}}); err != nil {
		t.Fatal(err)
	}
	hold := func() {
		t.Helper()
		for range 16 {
			if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"kind":"bad"}`))); err != nil {
				t.Fatal(err)
			}
		}
		if err := eng.Flush(t.Context(), "web"); err == nil {
			t.Fatal("the file is not held")
		}
	}
	c := newConsole(t, eng, console.Options{})
	url := serve(t, c)
	b := newTab(t)
	b.signIn(c, url)
	hold()
	eval[bool](b, `location.hash = "#/sink/web/orders", true`)
	b.text("so the cause is probably not in the rows")
	b.choose("Split…")
	b.text("Split the file?")
	b.choose("Cancel")
	b.until(`!document.querySelector("dialog")`)
	b.choose("Split…")
	b.choose("Split")
	b.text("+ 16 refused by the target")
	b.until("!" + button("Split…") + " && !" + button("To quarantine…"))

	hold()
	b.choose("To quarantine…")
	b.text("Move the file to the quarantine?")
	b.choose("To quarantine")
	b.text("+ 32 refused by the target")
	if s := eng.Stats().Sinks[0]; s.Quarantine.Records != 32 || s.Target.Rows != 0 {
		t.Errorf("got %d records in the quarantine, %d rows in the table, want 32, 0", s.Quarantine.Records, s.Target.Rows)
	}
}

// Who may only look is offered nothing else.
func TestNoActsWithoutTheRight(t *testing.T) {
	eng, _ := newShop(t)
	ingest(t, eng, "web", 2)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url + "#/sink/web/slow")
	b.text("2 accepted = 0 in table + 2 waiting")
	if shown := eval[[]string](b, `[...document.querySelectorAll("section[data-page=sink] button")].filter((b) => b.offsetParent).map((b) => b.textContent)`); len(shown) > 0 {
		t.Errorf("buttons %q", shown)
	}
	eval[bool](b, `location.hash = "#/sink/web/"+encodeURIComponent("<img src=x>"), true`)
	b.text("There is no such sink.")
	if title := eval[string](b, `document.querySelector("section[data-page=sink] h2").textContent`); !strings.Contains(title, "web/<img src=x>") {
		t.Errorf("title %q", title)
	}
}

// The page of a sink has the query of its table to copy, and none of the sink before.
func TestQueryOfASink(t *testing.T) {
	folder := t.TempDir()
	eng, err := forebay.Open(folder, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	def := forebay.Source{ID: "web"}
	for _, id := range []string{"orders", "events"} {
		def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: "web." + id, Columns: mapping.Columns{mapping.Path("kind", "kind")}}})
	}
	if err := eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	b.live(url + "#/sink/web/orders")
	b.until(`document.getElementById("sink-query").offsetParent && document.getElementById("sink-query").value.includes("/web.orders/")`)
	b.text("Query for DuckDB")
	eval[bool](b, `location.hash = "#/sink/web/events", true`)
	b.until(`document.getElementById("sink-query").value.includes("/web.events/")`)
	b.choose("Copy")
	b.until(`document.getElementById("announce").textContent !== ""`)
	eval[bool](b, `location.hash = "#/sink/web/other", true`)
	b.text("There is no such sink.")
	b.until(`!document.getElementById("sink-query").offsetParent`)
}

// A sink that has no room says since when it refuses, on both pages.
func TestRefusingSince(t *testing.T) {
	target := &broken{Memory: buffertest.NewMemory()}
	target.on.Store(true)
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: target.Memory, Target: target, Buffer: buffer.Tuning{MaxSinkBytes: 256 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")}},
	}}}); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 128<<10)
	_, _ = rand.Read(noise)
	body := []byte(`{"kind":"` + hex.EncodeToString(noise) + `"}`)
	for over := (*buffer.OverloadError)(nil); over == nil; {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON(body)); err != nil && !errors.As(err, &over) {
			t.Fatal(err)
		}
	}
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url + "#/sink/web/orders")
	b.until(`/^Refusing new records since \d\d:\d\d: .* of this sink's disk limit is used/.test(document.querySelector("section[data-page=sink] > p.why").textContent)`)
	eval[bool](b, `location.hash = "#/overview", true`)
	b.text("Refusing new records since ")
}
