package forebay_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// A key leads to what its calls have stored, at each sink, and the time of that to the file and the slice.
func TestReceiptsLeadToRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openMemory(t)
		def := numbered()
		def.Sinks[1].OnReject = forebay.Quarantine
		mustDefine(t, e, def)
		began := time.Now()
		recs := []*mapping.Record{number(`{"n":1,"m":1}`), number(`{"n":2}`), number(`{"n":3,"m":1}`)}
		for range 2 { // the repetition stores nothing
			if _, err := e.IngestOnce(t.Context(), "web", forebay.Once{Key: "k"}, recs); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		got, err := e.Receipts(t.Context(), "web", "k")
		want := []forebay.Receipt{{Sink: "a", At: began, Rows: 3}, {Sink: "b", At: began, Rows: 2, Quarantined: 1}}
		if err != nil || !sameReceipts(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		for _, key := range []string{"other", ""} {
			if got, err := e.Receipts(t.Context(), "web", key); err != nil || len(got) > 0 {
				t.Errorf("of the key %q: %+v, %v", key, got, err)
			}
		}
		if got, err := e.Receipts(t.Context(), "other", "k"); err != nil || len(got) > 0 {
			t.Errorf("of another source: %+v, %v", got, err)
		}

		list := e.Sink("web", "a").Slices()
		if len(list) != 1 || list[0].State != buffer.SliceWriting || !list[0].Level.FirstAt.Equal(began) {
			t.Fatalf("slices %+v", list)
		}
		var cells []string
		if err := e.Buffer().ReadSlice(t.Context(), list[0].ID, func(row [][]byte) error {
			cells = append(cells, string(row[0]))
			return nil
		}); err != nil || fmt.Sprint(cells) != "[1 2 3]" {
			t.Errorf("rows %q, %v", cells, err)
		}
		file := list[0].FileID
		must(t, e.Remove(t.Context(), "web"))
		must(t, e.FlushAll(t.Context()))
		// The source is removed and its rows are in their tables. Key and file are still known.
		if got, err := e.Receipts(t.Context(), "web", "k"); err != nil || !sameReceipts(got, want) {
			t.Errorf("of a source that was removed: %+v, %v", got, err)
		}
		f := e.Stats().Sinks[0].Files[0]
		if f.ID != file || f.State != buffer.FileImported || f.Level.FirstAt.After(began) || f.Level.LastAt.Before(began) {
			t.Errorf("file %+v", f)
		}

		time.Sleep(e.Stats().KeyRetention)
		if got, err := e.Receipts(t.Context(), "web", "k"); err != nil || len(got) > 0 {
			t.Errorf("after the retention: %+v, %v", got, err)
		}
		must(t, e.Close())
		if _, err := e.Receipts(t.Context(), "web", "k"); !errors.Is(err, forebay.ErrClosed) {
			t.Errorf("of a closed engine: %v", err)
		}
	})
}

func sameReceipts(a, b []forebay.Receipt) bool {
	for i := range a {
		if i >= len(b) || a[i].Sink != b[i].Sink || !a[i].At.Equal(b[i].At) || a[i].Rows != b[i].Rows || a[i].Quarantined != b[i].Quarantined {
			return false
		}
	}
	return len(a) == len(b)
}
