package console_test

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

// secret is a text that databases put into an error, such as a value of a row.
const secret = `duplicate key value violates "orders_pkey": Key (card)=(4111-1111 <img src=x onerror=alert(1)>) already exists`

// No user reads a driver's message without the right to records, not on the pages, not in the document, not in a task.
func TestErrorsOfDriversNeedRecords(t *testing.T) {
	for _, permanent := range []bool{false, true} {
		memory := buffertest.NewMemory()
		memory.Before = func(_ context.Context, call buffertest.Call) error {
			switch {
			case call.Op != buffertest.OpImport:
				return nil
			case permanent:
				return driver.Permanent(errors.New(secret))
			}
			return errors.New(secret)
		}
		eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: memory, Target: memory, Buffer: buffer.Tuning{MinImportInterval: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close() })
		if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
			ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{mapping.Path("card", "card")}},
			Settings: forebay.Settings{Upload: trigger.Conditions{Interval: time.Second}, Import: trigger.Conditions{Interval: time.Second}},
		}}}); err != nil {
			t.Fatal(err)
		}
		ingest(t, eng, mapping.JSON([]byte(`{"card":"4111-1111"}`)))
		const changer = "changer-changer-changer"
		c, err := console.New(eng, console.Options{Public: console.Numbers, Tokens: append(tokens[:2:2], console.Token{Name: "carl", Secret: changer, Rights: console.Changes})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		words := shows(t, c, ordersPage, "orders_pkey") // operator has the right
		if strings.Contains(words, "<img") {
			t.Errorf("markup is not escaped: %s", words)
		}
		act(t, c, "/sink.flush", `{"Source":"web","Sink":"orders"}`, "Authorization", "Bearer "+changer)
		shows(t, c, "page=overview", "orders_pkey")
		targets := []string{"/snapshot?" + ordersPage, "/snapshot?page=overview", "/snapshot", "/", "/?filter=fails", "/overview.history"}
		for _, token := range []string{"", reader, changer} {
			for _, target := range targets {
				var headers []string
				if token != "" {
					headers = []string{"Authorization", "Bearer " + token}
				}
				w := ask(t, c, "GET", target, headers...)
				body := w.Body.String()
				for _, bad := range []string{"orders_pkey", "4111", "duplicate", "img src=x"} {
					if w.Code != 200 || strings.Contains(body, bad) {
						t.Errorf("permanent %v, token %q, %s: status %d, has %q: %s", permanent, token, target, w.Code, bad, body)
					}
				}
				if strings.Contains(target, "page=") && (!strings.Contains(body, "the target returns an error. The error itself needs the right to records.") || !strings.Contains(body, "Import fails: ") || !strings.Contains(body, "1 row in 1 file waits.")) {
					t.Errorf("permanent %v, token %q, %s does not say that the import fails: %s", permanent, token, target, body)
				}
			}
		}
	}
}
