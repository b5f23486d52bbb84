package console_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// The picture has the sums of the filtered sinks, of one source, and of no source whose name only begins or ends like it.
func TestPictureOfASource(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	for source, sinks := range map[string][]string{"web": {"clicks", "views"}, "webshop": {"orders"}, "old-web": {"views"}} {
		def := forebay.Source{ID: source}
		for _, id := range sinks {
			def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: source + "." + id, Columns: mapping.Columns{mapping.Body("body")}}})
		}
		if err := eng.Define(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	for source, n := range map[string]int{"web": 3, "webshop": 10, "old-web": 100} {
		for range n {
			if _, err := eng.Ingest(t.Context(), source, mapping.JSON([]byte(`{}`))); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := console.New(eng, console.Options{Public: console.Numbers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for filter, want := range map[string]struct{ of, local string }{
		"":           {"all sinks", "116"},
		"web/":       {"source web, 2 sinks", "6"},
		"webshop/":   {"source webshop, 1 sink", "10"},
		"web":        {`4 sinks with "web"`, "116"},
		"/views":     {`2 sinks with "/views"`, "103"},
		"web/clicks": {`1 sink with "web/clicks"`, "3"},
		"none/":      {"source none, 0 sinks", "0"},
	} {
		w := ask(t, c, "GET", "/snapshot?page=overview&filter="+url.QueryEscape(filter))
		var got struct {
			Full struct {
				Head struct {
					Picture struct {
						Of     string
						Levels []struct{ Rows any }
					}
				}
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Full.Head.Picture.Levels) != 2 {
			t.Fatalf("filter %q: %v: %s", filter, err, w.Body)
		}
		if p := got.Full.Head.Picture; p.Of != want.of || p.Levels[0].Rows != want.local {
			t.Errorf("filter %q: levels of %s with %v rows, want of %s with %s", filter, p.Of, p.Levels[0].Rows, want.of, want.local)
		}
	}
}
