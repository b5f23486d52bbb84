package clienttest

import (
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/storageapi/drivers"
)

// Slices are in staging on the platform when rows of them are erased. The table gets the other rows, and staging keeps nothing.
func TestEraseRows(t *testing.T) {
	w := newWorld(t)
	staging := newStaging(t, w, nil)
	b, err := buffer.Open(t.TempDir(), buffer.Options{
		Staging: staging, Target: newTarget(t, w, drivers.TargetOptions{Staging: staging, TempDir: t.TempDir()}), Tuning: buffer.Tuning{MemTableBytes: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := buffer.SinkConfig{ID: "web/people", Table: driver.Table{ID: "in.c-web.people", Columns: datatype.UntypedColumns("n", "email")}, Encoding: driver.Gzip}
	c.Upload.Count = 3 // several slices in one file
	sink, err := b.Define(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 12
	for i := range rows {
		data := fmt.Appendf(nil, "\"%d\",\"%s\"\n", i, []string{"ada", "bob", "eve"}[i%3])
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: sink, Data: data, Count: 1})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	res, err := b.Sink(c.ID).EraseRows(t.Context(), time.Now().Add(time.Minute), func(_ driver.Table, cells [][]byte) bool { return string(cells[1]) == "ada" })
	if err != nil || res.Erased != rows/3 || res.Why != nil {
		t.Errorf("got %+v, %v, want %d erased", res, err, rows/3)
	}
	if err := b.Sink(c.ID).Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if report, err := b.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("verify: %+v, %v", report, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	got := w.rows(t, c.Table.ID)
	if len(got) != rows*2/3 {
		t.Errorf("the table has %q", got)
	}
	for _, row := range got {
		if row[1] == "ada" {
			t.Errorf("the table has the row %q", row)
		}
	}
}
