package platform

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// settled returns when everything that waits under the key of a table has ended.
func settled(t *testing.T, s *Server, table string) {
	t.Helper()
	id, err := s.store.ids.take()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	s.jobs.add(keyedJob{id, tableLock(s.defaultBranch.key(), table), func(context.Context) { close(done) }})
	<-done
}

func partsOf(t *testing.T, s *Server, id string) (list []part) {
	t.Helper()
	err := s.store.view(func(tx *txn) error {
		list = all[part](tx, key("part", s.defaultBranch.key(), id, ""))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func previewOf(t *testing.T, c *storageapi.Client, table string, q storageapi.RowQuery) string {
	t.Helper()
	q.Limit = 1000
	rc, err := c.Preview(t.Context(), table, q)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Parts are merged in the background. Rows, their order, the sizes and the times of the imports stay, no file is left, and an
// export after a merge is the same file.
func TestPartsAreMerged(t *testing.T) {
	s, c := openForTest(t)
	ctx := t.Context()
	if _, err := c.CreateBucket(ctx, storageapi.BucketCreate{Name: "m"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTable(ctx, "in.c-m", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("n", "gone")}); err != nil {
		t.Fatal(err)
	}
	want := "\"n\"\n"
	const imports = 5*mergeCount + 3
	for i := range imports {
		if i == 15 { // parts of different columns are merged as well
			if err := c.DeleteColumn(ctx, "in.c-m.t", "gone"); err != nil {
				t.Fatal(err)
			}
		}
		data := fmt.Sprintf("%d\n%d-b\n", i, i)
		if i < 15 {
			data = fmt.Sprintf("%d,x\n%d-b,y\n", i, i)
		}
		f, err := c.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource([]byte(data)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ImportFile(ctx, "in.c-m.t", storageapi.Import{FileID: f.ID, WithoutHeaders: true, Incremental: true}); err != nil {
			t.Fatal(err)
		}
		settled(t, s, "in.c-m.t")
		want += fmt.Sprintf("\"%d\"\n\"%d-b\"\n", i, i)
	}
	list := partsOf(t, s, "in.c-m.t")
	if len(list) >= 2*mergeCount {
		t.Errorf("got %d parts after %d imports, want less than %v", len(list), imports, 2*mergeCount)
	}
	if got := previewOf(t, c, "in.c-m.t", storageapi.RowQuery{}); got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	table, err := c.Table(ctx, "in.c-m.t")
	if err != nil {
		t.Fatal(err)
	}
	var rows, size int64
	for _, pt := range list {
		rows, size = rows+pt.Rows, size+pt.Bytes
	}
	if table.RowsCount != 2*imports || rows != table.RowsCount || size != table.DataSizeBytes {
		t.Errorf("%d rows and %d bytes in the parts, the table says %d and %d", rows, size, table.RowsCount, table.DataSizeBytes)
	}
	entries, err := os.ReadDir(s.parts.folder(tableOf(t, s, "in.c-m.t").Incarnation))
	if err != nil || len(entries) != len(list) {
		t.Errorf("got %d files, %v, want one of each of %d parts", len(entries), err, len(list))
	}
}

func tableOf(t *testing.T, s *Server, id string) (out table) {
	t.Helper()
	err := s.store.view(func(tx *txn) (err error) {
		out, err = getTable(tx, s.defaultBranch.key(), id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A merged part knows when each of its rows was imported. Selections by time and deletions see the same rows as before.
func TestMergedPartsKeepTimes(t *testing.T) {
	s, c := openForTest(t)
	ctx := t.Context()
	if _, err := c.CreateBucket(ctx, storageapi.BucketCreate{Name: "m"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTable(ctx, "in.c-m", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("n")}); err != nil {
		t.Fatal(err)
	}
	tab := tableOf(t, s, "in.c-m.t")
	// One part a day, written here, because imports have the time of today.
	day := func(n int) storageapi.Time {
		return storageapi.Time{Time: time.Date(2020, 1, n, 0, 0, 0, 0, time.UTC)}
	}
	for n := 1; n <= mergeCount; n++ {
		id, err := s.store.ids.take()
		if err != nil {
			t.Fatal(err)
		}
		pt, err := s.parts.write(tab.Incarnation, id, tab.ids(), func(w *partWriter) error {
			return w.rowOf(day(n), [][]byte{fmt.Append(nil, n)})
		})
		if err != nil {
			t.Fatal(err)
		}
		err = s.store.update("", func(tx *txn) error {
			tab, err = getTable(tx, tab.Branch, tab.ID)
			if err != nil {
				return err
			}
			replaceParts(tx, &tab, []part{pt}, nil)
			putTable(tx, tab)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	selected := func() (texts []string) {
		for _, q := range []storageapi.RowQuery{{}, {ChangedSince: "2020-01-04"}, {ChangedUntil: "2020-01-04"}, {ChangedSince: "2020-01-03", ChangedUntil: "2020-01-05"}, {ChangedSince: "2020-02-01"}} {
			texts = append(texts, strings.ReplaceAll(previewOf(t, c, "in.c-m.t", q), "\n", " "))
		}
		return texts
	}
	before := selected()
	if want := `"n" "3" "4" `; before[3] != want {
		t.Fatalf("got %q, want %q", before[3], want)
	}
	s.mergeLater(tab.Branch, tab.ID)
	settled(t, s, tab.ID)
	if list := partsOf(t, s, tab.ID); len(list) != 1 || len(list[0].Spans) != mergeCount {
		t.Fatalf("parts %+v", list)
	}
	if after := selected(); !slices.Equal(after, before) {
		t.Errorf("after the merge %q, before %q", after, before)
	}
	// Some rows of a merged part are deleted, by their time.
	w := httptest.NewRecorder()
	r := httptest.NewRequest("DELETE", "/v2/storage/tables/"+tab.ID+"/rows?changedSince=2020-01-03&changedUntil=2020-01-05", nil)
	r.Header.Set(storageapi.TokenHeader, "secret-of-the-test")
	s.ServeHTTP(w, r)
	if w.Code != 202 {
		t.Fatalf("delete: %d %s", w.Code, w.Body)
	}
	settled(t, s, tab.ID)
	if got, want := previewOf(t, c, tab.ID, storageapi.RowQuery{}), "\"n\"\n\"1\"\n\"2\"\n\"5\"\n\"6\"\n\"7\"\n\"8\"\n\"9\"\n\"10\"\n"; got != want {
		t.Errorf("after the deletion %q, want %q", got, want)
	}
	if got, want := previewOf(t, c, tab.ID, storageapi.RowQuery{ChangedUntil: "2020-01-06"}), "\"n\"\n\"1\"\n\"2\"\n\"5\"\n"; got != want {
		t.Errorf("after the deletion %q until the 6th, want %q", got, want)
	}
}

// The number of parts grows with the logarithm of the imports, and a row is written again as often as the sizes grow.
func TestPlansOfMerges(t *testing.T) {
	var list []part
	var written, taken int64
	const imports, each = 20_000, 20 << 10
	for i := range imports {
		list = append(list, part{ID: int64(i + 1), Rows: 1, Bytes: each, At: storageapi.Time{Time: time.Unix(int64(i/100), 0)}})
		taken += each
		for old := planMerge(list); old != nil; old = planMerge(list) {
			at := slices.IndexFunc(list, func(p part) bool { return p.ID == old[0].ID })
			merged := part{ID: old[0].ID, Place: old[0].place()}
			for _, p := range old {
				merged.Rows, merged.Bytes = merged.Rows+p.Rows, merged.Bytes+p.Bytes
			}
			merged.Spans = make([]span, min(merged.Rows, merged.Rows/100+1))
			written += merged.Bytes
			if merged.Bytes > maxMerged {
				t.Fatalf("a merge of %d bytes", merged.Bytes)
			}
			list = slices.Replace(list, at, at+len(old), merged)
		}
	}
	if limit := int(taken/maxMerged)*3 + 4*mergeCount; len(list) > limit {
		t.Errorf("got %d parts of %d imports, want at most %d", len(list), imports, limit)
	}
	if written > 8*taken {
		t.Errorf("%d bytes were written again for %d that were imported, want at most %v", written, taken, 8*taken)
	}
	t.Logf("%d imports: %d parts, each byte was written again %.1f times", imports, len(list), float64(written)/float64(taken))
}
