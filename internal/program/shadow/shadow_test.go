package shadow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/shadow"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/streamapi"
)

const token = "t0ken-canary"

// priced are columns that read the price from a field.
func priced(field string) mapping.Columns {
	return mapping.Columns{mapping.Path("price", field, mapping.DataType(datatype.Int64), mapping.Required())}
}

// shop is a server with one sink.
type shop struct {
	t       *testing.T
	address string
	eng     *forebay.Engine
	mem     *buffertest.Memory
	cat     *catalog.Catalog
}

func newShop(t *testing.T) *shop {
	t.Helper()
	data, mem := t.TempDir(), buffertest.NewMemory()
	eng, err := forebay.Open(filepath.Join(data, "engine"), forebay.Options{Target: mem})
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Open(filepath.Join(data, "catalog"), eng, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cat.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	})
	task, err := cat.CreateSource(catalog.By{Type: "user"}, catalog.SourceSpec{ID: "shop", Name: "shop", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{ID: "orders", Name: "orders", TableID: "in.c-shop.orders", Columns: priced("price")},
	}})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatalf("got %+v, %v, want no error and task.Status == %v", task, err, catalog.Succeeded)
	}
	h, err := streamapi.New(cat, streamapi.Options{Auth: streamapi.StaticToken(token, 1), IngestURL: "http://127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &shop{t, server.URL, eng, mem, cat}
}

func (s *shop) ingest(bodies ...string) {
	s.t.Helper()
	for _, body := range bodies {
		_, _ = s.eng.Ingest(s.t.Context(), "shop", mapping.JSON([]byte(body))) // some are rejected
	}
}

// run calls the program with the address and token of the server. The changed columns of its configuration file read the field cost.
func (s *shop) run(stdin string, args ...string) (out string, err error) {
	s.t.Helper()
	args = append([]string{args[0], "-api", s.address, "-token", token}, args[1:]...)
	var o, e bytes.Buffer
	env := api.Environment{Stdin: strings.NewReader(stdin), Out: &o, Errors: &e, Getenv: func(string) string { return "" }}
	err = shadow.Run(s.t.Context(), args, env, shadow.Options{Columns: func(file, source, sink string) (mapping.Columns, error) {
		if file+source+sink != "file"+"shop"+"orders" {
			return nil, fmt.Errorf("no sink %s of %s in %s", sink, source, file)
		}
		return priced("cost"), nil
	}})
	if text := o.String() + e.String() + fmt.Sprint(err); strings.Contains(text, token) {
		s.t.Errorf("%q shows the token: %s", args, text)
	}
	return o.String(), err
}

// A change is tried, looked at, stopped and switched on. Only then rows change.
func TestShadow(t *testing.T) {
	s := newShop(t)
	if _, err := s.run("", "show", "shop/orders"); err == nil || !strings.Contains(err.Error(), "shadowNotFound") {
		t.Errorf("without a shadow: %v", err)
	}
	type answer struct {
		out string
		err error
	}
	ended := make(chan answer, 1)
	go func() {
		out, err := s.run("", "start", "-wait", "-config", "file", "-for", "1h", "-records", "4", "shop/orders")
		ended <- answer{out, err}
	}()
	out, err := s.run("", "show", "shop/orders")
	for err != nil { // until the start has come to the server
		if !strings.Contains(err.Error(), "shadowNotFound") || t.Context().Err() != nil {
			t.Fatal(err)
		}
		out, err = s.run("", "show", "shop/orders")
	}
	if !strings.HasPrefix(out, "shop/orders: runs since ") || !strings.Contains(out, "\n0 records compared") {
		t.Fatal(out)
	}
	if _, err := s.run("", "start", "-config", "file", "shop/orders"); err == nil || !strings.Contains(err.Error(), "shadowIsRunning") {
		t.Errorf("a second shadow: %v", err)
	}
	s.ingest(`{"price":1,"cost":1}`, `{"price":2,"cost":20}`, `{"price":3,"cost":"\u001b[2J"}`, `{"cost":4}`)
	last := <-ended
	out, err = last.out, last.err
	for _, want := range []string{
		"ended by records", "4 records compared: 1 equal, 1 different, 1 only by the current columns, 1 only by the changed columns, 0 by neither",
		"price   1          \"2\"      \"20\"", "changed      1        malformed", "current      1        missingValue",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s%v", want, out, err)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("a record controls the terminal: %q", out)
	}

	// The report of a shadow that has ended stays. A second one is stopped by hand.
	definition := `{"name":"Orders","table":{"mapping":{"columns":[{"type":"path","name":"price","path":"cost","dataType":"int64","required":true}]}}}`
	if _, err := s.run(definition, "start", "-definition", "-", "-sample", "1", "shop/orders"); err != nil {
		t.Fatal(err)
	}
	s.ingest(`{"price":5,"cost":50}`)
	out, err = s.run("", "stop", "-json", "shop/orders")
	var report struct {
		End       string
		Different int
	}
	if err != nil || json.Unmarshal([]byte(out), &report) != nil || report.End != "closed" || report.Different != 1 {
		t.Errorf("got %s%v, want a closed shadow with one different row, no error", out, err)
	}

	if out, err := s.run("", "switch", "-config", "file", "shop/orders"); err != nil || out != "shop/orders has the changed columns.\n" {
		t.Fatalf("got %s%v, want no error and out == \"shop/orders has the changed columns.\\n\"", out, err)
	}
	s.ingest(`{"price":6,"cost":60}`)
	if err := s.eng.Flush(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if rows := fmt.Sprint(s.mem.Rows("in.c-shop.orders")); rows != "[[1] [2] [3] [5] [60]]" {
		t.Errorf("the table has %s", rows)
	}
	bad := filepath.Join(t.TempDir(), "columns.json")
	if err := os.WriteFile(bad, []byte(`[{"type":"path","name":"price","path":"p","dataType":"float"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-for", "-1s"}, {"-for", "25h"}, {"-records", "-1"}, {"-sample", "1.5"}} {
		if _, err := s.run("", append(append([]string{"start", "-config", "file"}, args...), "shop/orders")...); err == nil || !strings.Contains(err.Error(), "invalidRange") {
			t.Errorf("%q: got %v, want an error and strings.Contains(err.Error(), \"invalidRange\")", args, err)
		}
	}
	for _, action := range []string{"start", "switch"} {
		if _, err := s.run("", action, "-definition", bad, "shop/orders"); err == nil || !strings.Contains(err.Error(), "status 400") {
			t.Errorf("%s with columns that do not compile: %v", action, err)
		}
	}
}

// A call with wrong arguments changes nothing and describes the mistake.
func TestWrongArguments(t *testing.T) {
	s := newShop(t)
	for _, tt := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"begin", "shop/orders"}, "must be start, show, stop or switch"},
		{"", []string{"show", "shop"}, "SOURCE/SINK"},
		{"", []string{"show", "shop/orders", "more"}, "flags stand before"},
		{"", []string{"start", "shop/orders"}, "-config FILE and -definition FILE"},
		{"", []string{"switch", "-config", "file", "-copy", "orders-lake", "shop/orders"}, "-copy excludes -config and -definition"},
		{"", []string{"switch", "-config", "file", "-definition", "-", "shop/orders"}, "-config FILE and -definition FILE"},
		{"", []string{"start", "-config", "file", "shop/none"}, "no sink none"},
		{"columns: []", []string{"start", "-definition", "-", "shop/orders"}, "neither a JSON list of columns"},
		{`{"table":{}}`, []string{"start", "-definition", "-", "shop/orders"}, "has no columns"},
		{`{"table":{"mapping":{"columns":7}}}`, []string{"start", "-definition", "-", "shop/orders"}, "neither a JSON list of columns"},
		{"", []string{"start", "-for", "long", "shop/orders"}, "invalid value"},
	} {
		_, err := s.run(tt.stdin, tt.args...)
		if _, ok := errors.AsType[*api.UsageError](err); !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.args, err, tt.want)
		}
	}
	if _, err := s.run("", "show", "-h"); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	if _, err := s.run("", "show", "shop/orders"); err == nil || !strings.Contains(err.Error(), "shadowNotFound") {
		t.Errorf("a shadow was started: %v", err)
	}
}

// The rows of a table and of its copy are compared, and the sink gets the table of the copy.
func TestShadowOfACopy(t *testing.T) {
	s := newShop(t)
	task, err := s.cat.CreateSink(catalog.By{Type: "user"}, "shop", catalog.SinkSpec{ID: "copy", Name: "copy", TableID: "in.c-shop.copy", Columns: priced("price")})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatalf("got %+v, %v, want no error and task.Status == %v", task, err, catalog.Succeeded)
	}
	if out, err := s.run("", "start", "-copy", "none", "shop/orders"); err == nil || !strings.Contains(err.Error(), "sinkNotFound") {
		t.Errorf("a copy that does not exist: %s %v", out, err)
	}
	if out, err := s.run("", "start", "-copy", "copy", "shop/orders"); err != nil {
		t.Fatalf("got %s %v, want no error", out, err)
	}
	s.ingest(`{"price":1}`)
	if out, err := s.run("", "stop", "shop/orders"); err != nil || !strings.Contains(out, "1 records compared: 1 equal") {
		t.Errorf("the report is %s %v", out, err)
	}
	if out, err := s.run("", "switch", "-copy", "copy", "shop/orders"); err != nil || out != "shop/orders has the table of copy, which is deleted.\n" {
		t.Errorf("the switch says %s %v", out, err)
	}
	if _, sink, err := s.cat.Sink("shop", "orders"); err != nil || sink.TableID != "in.c-shop.copy" {
		t.Errorf("the sink has the table %s: %v", sink.TableID, err)
	}
}
