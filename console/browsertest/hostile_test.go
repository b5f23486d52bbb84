package browsertest

import (
	"context"
	"errors"
	"strings"
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

// hostile is a text that a database or a stranger may put into an error: markup, code of template engines, characters that turn the text around.
const hostile = `<img src=x onerror="window.owned=1">"><svg onload=window.owned=1> javascript:alert(1) {{7*7}} ${window.owned=1} ` +
	"\u202Egnp.exe\u202C \x00 \xff\xfe __proto__ ../../etc =cmd() 9007199254740993"

// A text of a stranger is shown as text, with marks for invisible characters.
func TestHostileErrors(t *testing.T) {
	memory := buffertest.NewMemory()
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: memory, Target: refusing{memory}, Buffer: buffer.Tuning{MinImportInterval: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	err = eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{mapping.UUID("id")}},
		Settings: forebay.Settings{Upload: trigger.Conditions{Interval: time.Second}, Import: trigger.Conditions{Interval: time.Second}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ingest(t, eng, "web", 3)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Name: hostile[:60]}))
	b := newTab(t)
	b.live(url)
	b.text("An operator must fix the cause")
	b.text(`<img src=x onerror="window.owned=1">"><svg onload=window.owned=1> javascript:alert(1) {{7*7}} ${window.owned=1} ‹U+202E›gnp.exe‹U+202C›`)
	if eval[bool](b, `window.owned !== undefined || document.querySelector("img") !== null ||
		[...document.querySelectorAll("*")].some((n) => n.getAttributeNames().some((name) => name.startsWith("on")))`) {
		t.Error("a text became markup")
	}
	if state := eval[string](b, `document.querySelector("td.state").textContent`); state != "blocked" {
		t.Errorf("the sink is %q", state)
	}
	if title := eval[string](b, `document.title`); !strings.HasPrefix(title, "1 of 1 sinks is held up.") {
		t.Errorf("title %q", title)
	}
}

// refusing is a target whose imports fail permanently, with a text that a stranger has chosen.
type refusing struct{ *buffertest.Memory }

func (refusing) Import(ctx context.Context, _ *driver.File) error {
	return driver.Permanent(errors.New(hostile))
}
