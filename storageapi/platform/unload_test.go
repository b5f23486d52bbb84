package platform

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/storageapi"
)

// An export is cut into slices of about a size. Together they are the rows, in their order, even if each is compressed.
func TestExportInSlices(t *testing.T) {
	s, c := openForTest(t)
	s.sliceSize = 100
	ctx := t.Context()
	if _, err := c.CreateBucket(ctx, storageapi.BucketCreate{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTable(ctx, "in.c-x", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("n", `q`)}); err != nil {
		t.Fatal(err)
	}
	var in, want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&in, "%d,\"a \"\"%d\"\"\"\n", i, i)
		fmt.Fprintf(&want, "\"%d\",\"a \"\"%d\"\"\"\n", i, i)
	}
	f, err := c.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource([]byte(in.String())))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ImportFile(ctx, "in.c-x.t", storageapi.Import{FileID: f.ID, WithoutHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for _, zipped := range []bool{false, true} {
		id, err := c.ExportTable(ctx, "in.c-x.t", storageapi.Export{Gzip: zipped})
		if err != nil {
			t.Fatal(err)
		}
		file, err := c.Download(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		names, err := file.Slices(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) < want.Len()/200 || len(names) > want.Len()/100+1 {
			t.Errorf("got %d slices of %d bytes, want %d to %d", len(names), want.Len(), want.Len()/200, want.Len()/100+1)
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".csv.gz") != zipped || !strings.Contains(name, ".csv") {
				t.Errorf("slice %q", name)
			}
		}
		rc, err := file.OpenSlices(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = rc
		if zipped {
			if r, err = gzip.NewReader(rc); err != nil {
				t.Fatal(err)
			}
		}
		data, err := io.ReadAll(r)
		if err := rc.Close(); err != nil {
			t.Error(err)
		}
		if err != nil || string(data) != want.String() {
			t.Errorf("compressed %v: %q, %v", zipped, data, err)
		}
		if file.File().SizeBytes == 0 || !file.File().IsSliced {
			t.Errorf("file %+v", file.File())
		}
	}
}

// openForTest opens a server of a new directory, and a client of it.
func openForTest(t *testing.T) (*Server, *storageapi.Client) {
	t.Helper()
	s, err := Open(t.TempDir(), Options{Token: "secret-of-the-test", AnyComponent: true})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	c, err := storageapi.New(storageapi.Options{URL: web.URL, Token: "secret-of-the-test", HTTP: web.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// A row of JSON is one line that encoding/json reads. Cells of types that have literals are literals, empty ones null.
func TestRowsAsJSON(t *testing.T) {
	typed := table{Typed: true, Columns: []column{
		{Name: "i", BaseType: "INTEGER"}, {Name: "b", BaseType: "BOOLEAN"}, {Name: "f", BaseType: "FLOAT"}, {Name: "d", BaseType: "DATE"}, {Name: "s-\u2028", BaseType: "STRING"},
	}}
	if line := newRowFormat("", typed, typed.names()).appendRow(nil, asCells([]string{"1"})); string(line) != "\"1\"\n" {
		t.Errorf("a job without a format writes %q", line)
	}
	f := newRowFormat(formatJSON, typed, typed.names())
	for _, c := range []struct {
		cells []string
		want  string
	}{
		{[]string{"12", "true", "1.5", "2026-11-22", "a\n\"b\"\x01\xff"}, `{"b":true,"d":"2026-11-22","f":1.5,"i":12,"s-` + "\u2028" + `":"a\n\"b\"\u0001` + "\ufffd" + `"}`},
		{[]string{"x", "1", "-Infinity", "0", ""}, `{"b":1,"d":"0","f":"-Infinity","i":"x","s-` + "\u2028" + `":""}`},
		{[]string{"", "", "", "", ""}, `{"b":null,"d":null,"f":null,"i":null,"s-` + "\u2028" + `":""}`},
	} {
		line := f.appendRow(nil, asCells(c.cells))
		if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
			t.Errorf("%q is not one line", line)
		}
		var got map[string]any
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%q: got %v, want no error", line, err)
		}
		if again, err := jsontext.Marshal(got); err != nil || string(again) != strings.ReplaceAll(c.want, "\u2028", `\u2028`) {
			t.Errorf("got %s, want %s (%v)", again, c.want, err)
		}
	}
}
