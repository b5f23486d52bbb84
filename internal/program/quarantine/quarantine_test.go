package quarantine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/quarantine"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/streamapi"
)

const token = "t0ken-canary"

// shop is a server with a sink that rejects orders without a number as their price, and keeps them.
type shop struct {
	t         *testing.T
	api, data string
	events    string
	mem       *buffertest.Memory
	eng       *forebay.Engine
	cat       *catalog.Catalog
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, data: t.TempDir(), mem: buffertest.NewMemory()}
	eng, err := forebay.Open(filepath.Join(s.data, "engine"), forebay.Options{Target: s.mem})
	if err != nil {
		t.Fatal(err)
	}
	s.eng = eng
	cat, err := catalog.Open(filepath.Join(s.data, "catalog"), eng, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cat.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	})
	s.cat = cat
	task, err := cat.CreateSource(catalog.By{Type: "user"}, catalog.SourceSpec{ID: "shop", Name: "shop", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{
		ID: "orders", Name: "orders", TableID: "in.c-shop.orders", OnReject: forebay.Quarantine,
		Columns: mapping.Columns{mapping.Path("price", "price", mapping.DataType(datatype.Int64), mapping.Required())},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if task, err = task.Wait(t.Context()); err != nil || task.Status != catalog.Succeeded {
		t.Fatalf("got %+v, %v, want no error and task.Status == %v", task, err, catalog.Succeeded)
	}
	events := httptest.NewServer(stream.Ingest(eng, stream.Options{}))
	t.Cleanup(events.Close)
	h, err := streamapi.New(cat, streamapi.Options{Auth: streamapi.StaticToken(token, 1), IngestURL: events.URL})
	if err != nil {
		t.Fatal(err)
	}
	managed := httptest.NewServer(h)
	t.Cleanup(managed.Close)
	source, err := cat.Source("shop")
	if err != nil {
		t.Fatal(err)
	}
	s.api, s.events = managed.URL, events.URL+"/stream/1/shop/"+source.Secret
	if err := os.WriteFile(filepath.Join(s.data, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) send(body string) {
	s.t.Helper()
	resp, err := http.Post(s.events, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("status %d", resp.StatusCode)
	}
}

// run calls the program with the address and token of the server.
func (s *shop) run(stdin string, args ...string) (out, errs string, err error) {
	s.t.Helper()
	args = append([]string{args[0], "-api", s.api, "-dir", s.data}, args[1:]...)
	var o, e bytes.Buffer
	err = quarantine.Run(s.t.Context(), args, api.Environment{
		Stdin: strings.NewReader(stdin), Out: &o, Errors: &e, Getenv: func(string) string { return "" },
	})
	if text := o.String() + e.String() + fmt.Sprint(err); strings.Contains(text, token) {
		s.t.Errorf("%q shows the token: %s", args, text)
	}
	return o.String(), e.String(), err
}

// ids lists the quarantine as JSON.
func (s *shop) ids(args ...string) (ids []string) {
	s.t.Helper()
	out, _, err := s.run("", append(append([]string{"list", "-json"}, args...), "shop/orders")...)
	if err != nil {
		s.t.Fatal(err)
	}
	for text := range strings.Lines(out) {
		var r struct{ RecordID string }
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.RecordID == "" {
			s.t.Fatalf("%s: got %v, want the id of a record", text, err)
		}
		ids = append(ids, r.RecordID)
	}
	return ids
}

// cancel ends a replay, or shows how the last one has ended. What it leaves is replayed by the next one.
func TestCancel(t *testing.T) {
	s := newShop(t)
	if _, _, err := s.run("", "cancel", "shop/orders"); err == nil || !strings.Contains(err.Error(), "being replayed") {
		t.Errorf("without a replay: %v", err)
	}
	s.send(`{"price":"x"}`)
	id := s.ids()[0]
	if _, _, err := s.run(`{"price":5}`, "edit", "-body", "-", "shop/orders", id); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.run("", "replay", "-all", "shop/orders"); err != nil {
		t.Fatal(err)
	}
	if out, _, err := s.run("", "cancel", "shop/orders"); err != nil || out != "1 rejected records have become rows.\n" {
		t.Errorf("got %q, %v, want no error and out == \"1 rejected records have become rows.\\n\"", out, err)
	}
	var wrong *api.UsageError
	if _, _, err := s.run("", "cancel", "-all", "shop/orders"); !errors.As(err, &wrong) {
		t.Errorf("cancel -all: %v", err)
	}
}

// An edit shows its author, and a discard accepts a reason.
func TestWhoAndWhy(t *testing.T) {
	s := newShop(t)
	s.send(`{"price":"x"}`)
	id := s.ids()[0]
	if out, errs, err := s.run(`{"price":"y"}`, "edit", "-body", "-", "shop/orders", id); err != nil || !strings.Contains(out, "edited by               static token") {
		t.Errorf("got %s%s%v, want no error and strings.Contains(out, \"edited by               static token\")", out, errs, err)
	}
	if out, _, err := s.run("", "list", "shop/orders"); err != nil || !strings.Contains(out, "  static token  ") {
		t.Errorf("got %s%v, want no error and strings.Contains(out, \"  static token  \")", out, err)
	}
	var wrong *api.UsageError
	if _, _, err := s.run("", "replay", "-because", "x", "shop/orders", id); !errors.As(err, &wrong) {
		t.Errorf("a reason of a replay: %v", err)
	}
	out, _, err := s.run("", "discard", "-json", "-because", "test data", "shop/orders", id)
	var task struct{ Discard struct{ By, Reason string } }
	if err == nil {
		err = json.Unmarshal([]byte(out), &task)
	}
	if err != nil || task.Discard.By != "static token" || task.Discard.Reason != "test data" {
		t.Errorf("got %s%v, want no error and task.Discard.By == \"static token\" and task.Discard.Reason == \"test data\"", out, err)
	}
}

// A record goes through the command. It is listed, read, tested, edited, replayed. Nothing that a sender sends controls the terminal.
func TestCommands(t *testing.T) {
	s := newShop(t)
	for i := range 230 { // three pages
		s.send(fmt.Sprintf(`{"price":"x%d"}`, i))
	}
	s.send("{\"price\":\"\x1b[2J\u202eevil\"}")
	all := s.ids("-limit", "0")
	if len(all) != 231 || len(s.ids("-limit", "150")) != 150 || len(s.ids("-text", "x229")) != 1 ||
		len(s.ids("-content", `"price":"X22`)) != 11 || len(s.ids("-content", "content-type: application/json", "-limit", "0")) != 231 || len(s.ids("-since", "24h", "-limit", "0")) != 231 ||
		len(s.ids("-until", "24h")) != 0 || len(s.ids("-reason", "missingValue")) != 0 {
		t.Errorf("got %d records, want those that each flag selects", len(all))
	}
	out, errs, err := s.run("", "list", "-limit", "2", "shop/orders")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], "ID ") || !strings.Contains(lines[1], all[0]) ||
		!strings.Contains(lines[1], "malformed") || !strings.Contains(errs, "231 in the quarantine") {
		t.Errorf("got %s%s%v, want malformed records of 231, no error", out, errs, err)
	}
	last := all[len(all)-1]
	for _, args := range [][]string{{"list", "-limit", "0", "shop/orders"}, {"get", "shop/orders", last}, {"test", "shop/orders", last}} {
		if out, _, _ := s.run("", args...); strings.ContainsAny(out, "\x1b\u202e") || len(out) < 20 {
			t.Errorf("%q: got %q, want !strings.ContainsAny(out, \"\\x1b\\u202e\") and len(out) >= 20", args, out)
		}
	}
	if out, _, err := s.run("", "test", "shop/orders", last); err == nil || !strings.Contains(out, "price") {
		t.Errorf("a test that fails: %s, %v", out, err)
	}
	if out, _, err := s.run("", "replay", "shop/orders", last); err == nil || !strings.Contains(out, "1 were rejected again") {
		t.Errorf("a replay that fails: %s, %v", out, err)
	}
	if _, _, err := s.run(`{"price":1}`, "edit", "-body", "-", "-revision", "0", "shop/orders", last); err == nil || !strings.Contains(err.Error(), "recordChanged") {
		t.Errorf("an edit of an earlier revision: %v", err)
	}
	if out, _, err := s.run(`{"price":1}`, "edit", "-body", "-", "shop/orders", last); err != nil || !strings.Contains(out, "body:\n{\"price\":1}") || !strings.Contains(out, "original body:") {
		t.Errorf("the edit: %s, %v", out, err)
	}
	if out, _, err := s.run("", "test", "shop/orders", last); err != nil || !strings.Contains(out, `"1"`) {
		t.Errorf("the test: %s, %v", out, err)
	}
	if out, _, err := s.run("", "get", "-json", "shop/orders", last); err != nil || !json.Valid([]byte(out)) || !strings.Contains(out, `"path": "/stream/1/shop/"`) {
		t.Errorf("the record: %s, %v", out, err)
	}
	if out, _, err := s.run("", "replay", "shop/orders", last, all[0]); err == nil || !strings.Contains(out, "1 rejected records have become rows. 1 were rejected again") {
		t.Errorf("the replay: %s, %v", out, err)
	}
	for _, action := range []string{"replay", "discard"} { // last was replayed
		for _, ids := range [][]string{{last}, {"unknown"}, {last, "unknown"}} {
			out, _, err := s.run("", append([]string{action, "-json", "shop/orders"}, ids...)...)
			gone := fmt.Sprintf(`"gone": %d`, len(ids))
			if err == nil || !strings.Contains(err.Error(), "name no record") || !strings.Contains(out, gone) {
				t.Errorf("%s of %v, which are not in the quarantine: %s, %v, want an error and %s", action, ids, out, err, gone)
			}
		}
	}
	if out, _, err := s.run("", "discard", "-text", "x22", "shop/orders"); err != nil || !strings.HasPrefix(out, "11 rejected records were discarded") {
		t.Errorf("the discard: %s, %v", out, err)
	}
	if out, _, err := s.run("", "discard", "-content", "EVIL", "shop/orders"); err != nil || !strings.HasPrefix(out, "0 ") {
		t.Errorf("the discard of a record that is gone: %s, %v", out, err)
	}
	if out, _, err := s.run("", "discard", "-content", "x19", "shop/orders"); err != nil || !strings.HasPrefix(out, "11 ") {
		t.Errorf("the discard: %s, %v", out, err)
	}
	if out, _, err := s.run("", "discard", "-all", "shop/orders"); err != nil || !strings.HasPrefix(out, "208 ") {
		t.Errorf("the discard: %s, %v", out, err)
	}
	if err := s.eng.Flush(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if rows := s.mem.Rows("in.c-shop.orders"); len(rows) != 1 || rows[0][0] != "1" {
		t.Errorf("the table has %v", rows)
	}
	if _, _, err := s.run("", "list", "shop/none"); err == nil || !strings.Contains(err.Error(), "sinkNotFound") {
		t.Errorf("an unknown sink: %v", err)
	}
}

// The flag -version selects what one version of the sink has rejected, for a list, a replay and a discard. The table shows the version.
func TestCommandsByVersion(t *testing.T) {
	s := newShop(t)
	s.send(`{"price":"of the first"}`)
	s.send(`{"price":"of the first too"}`)
	text := "another description"
	task, err := s.cat.UpdateSink(catalog.By{Type: "user"}, "shop", "orders", catalog.SinkPatch{Description: &text})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatalf("got %+v, %v, want no error and task.Status == %v", task, err, catalog.Succeeded)
	}
	s.send(`{"price":"of the second"}`)
	all, first, second := s.ids(), s.ids("-version", "1"), s.ids("-version", "2")
	if !slices.Equal(first, all[:2]) || !slices.Equal(second, all[2:]) || len(s.ids("-version", "3")) != 0 {
		t.Fatalf("the versions 1 and 2 have %v and %v, all are %v", first, second, all)
	}
	if out, _, err := s.run("", "list", "-version", "2", "shop/orders"); err != nil || !regexp.MustCompile(`VERSION .*\n.* malformed +price +2 `).MatchString(out) {
		t.Errorf("got %s%v, want version 2 with 2 malformed prices, no error", out, err)
	}
	if out, _, err := s.run("", "replay", "-version", "2", "shop/orders"); err == nil || !strings.Contains(out, " 1 were rejected again") {
		t.Errorf("the replay: %s, %v", out, err)
	}
	if out, _, err := s.run("", "discard", "-version", "1", "shop/orders"); err != nil || !strings.HasPrefix(out, "2 rejected records were discarded") {
		t.Errorf("the discard: %s, %v", out, err)
	}
	if left := s.ids(); !slices.Equal(left, second) {
		t.Errorf("%v are left, want %v", left, second)
	}
	if _, _, err := s.run("", "list", "-version", "two", "shop/orders"); err == nil {
		t.Error("a version that is no number is taken")
	}
}

// A call with wrong arguments changes nothing and describes the mistake.
func TestWrongArguments(t *testing.T) {
	s := newShop(t)
	s.send(`{}`)
	id := s.ids()[0]
	for _, args := range [][]string{
		{"show", "shop/orders"},
		{"list"},
		{"list", "shop"},
		{"list", "/orders"},
		{"list", "a/b/c"},
		{"list", "shop/orders", id},
		{"list", "-limit", "-1", "shop/orders"},
		{"list", "-no", "shop/orders"},
		{"get", "shop/orders"},
		{"get", "shop/orders", id, id},
		{"edit", "shop/orders", id},
		{"replay", "shop/orders"},
		{"replay", "-all", "shop/orders", id},
		{"discard", "shop/orders"},
		{"discard", "-all", "-reason", "x", "shop/orders"},
		{"list", "-api", "ftp://x", "shop/orders"},
	} {
		_, _, err := s.run("", args...)
		if _, usage := errors.AsType[*api.UsageError](err); !usage {
			t.Errorf("%q: got %v, want usage", args, err)
		}
	}
	if _, _, err := s.run("", "list", "-h"); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	if _, _, err := s.run("", "list", "-dir", t.TempDir(), "shop/orders"); err == nil || !strings.Contains(err.Error(), "there is no token") {
		t.Errorf("no token: %v", err)
	}
	if _, _, err := s.run("", "list", "-token", "other", "shop/orders"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong token: %v", err)
	}
	if got := s.ids(); len(got) != 1 {
		t.Errorf("%d records are left, want 1", len(got))
	}
	// The token does not follow a redirection.
	leaked := make(chan string, 1)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked <- r.Header.Get("X-StorageApi-Token") }))
	defer thief.Close()
	front := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer front.Close()
	if _, _, err := s.run("", "list", "-api", front.URL, "shop/orders"); err == nil || len(leaked) > 0 {
		t.Errorf("after a redirection: %v, %d requests", err, len(leaked))
	}
}
