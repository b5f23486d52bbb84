package dir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
)

// One small row of each of hundreds of sinks, or of a thousand, in one commit, is compressed at once and arrives in its table unchanged. Every
// reader can read its slices.
func TestManySmallRowsReachTheirTables(t *testing.T) {
	sinks := casetest.Of(1000, 320, 320) // 128 KB of small rows are compressed at once
	root := t.TempDir()
	target := &keepingTarget{TableDir: dir.TablesWith(filepath.Join(root, "tables"), dir.TablesOptions{Gzip: true})}
	b, err := buffer.Open(filepath.Join(root, "local"), buffer.Options{
		Staging: dir.Staging(filepath.Join(root, "staging")), Target: target,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	id := func(i int) string { return fmt.Sprintf("s%03d", i) }
	table := func(i int) string { return "in.c-test." + id(i) }
	text := func(i int) string {
		return strings.Repeat(fmt.Sprintf("the gate of basin %d \"opens\"\nwhen the basin is full, ", i), 8)
	}
	all := make([]buffer.Rows, sinks)
	var raw, stored int64
	var defining sync.WaitGroup
	for i := range all {
		defining.Go(func() {
			sink, err := b.Define(t.Context(), buffer.SinkConfig{
				ID: id(i), Table: driver.Table{ID: table(i), Columns: datatype.UntypedColumns("id", "text")}, Encoding: driver.Gzip,
			})
			if err != nil {
				t.Error(err)
			}
			data := fmt.Appendf(nil, "\"%d\",\"%s\"\n", i, strings.ReplaceAll(text(i), `"`, `""`))
			all[i] = buffer.Rows{Sink: sink, Data: data, Count: 1}
		})
	}
	defining.Wait()
	if t.Failed() {
		return
	}
	ticket, err := b.Append(t.Context(), time.Now(), all...)
	if err == nil {
		err = ticket.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		st, _ := b.Sink(r.Sink.ID()).Stats()
		raw, stored = raw+int64(len(r.Data)), stored+st.Local.StoredBytes
	}
	if stored > raw/2 {
		t.Fatalf("%d of %d bytes are stored: they were not compressed with the commit", stored, raw)
	}
	var flushing sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a member that the target cannot read is retried forever
	defer cancel()
	for i := range all {
		flushing.Go(func() {
			if err := b.Sink(id(i)).Flush(ctx); err != nil {
				t.Errorf("%s: got %v, want no error", id(i), err)
			}
		})
	}
	flushing.Wait()
	for i := range all {
		if got := rows(t, filepath.Join(root, "tables"), table(i)); len(got) != 1 || !slices.Equal(got[0], []string{fmt.Sprint(i), text(i)}) {
			t.Fatalf("table %s has %q", table(i), got)
		}
	}
	if report, err := b.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("got %+v, %v, want no error and report.OK()", report, err)
	}

	if len(target.slices) != sinks {
		t.Fatalf("%d slices were imported, want %d", len(target.slices), sinks)
	}
	slices.SortFunc(target.slices, func(a, b keptSlice) int { return strings.Compare(a.sink, b.sink) })
	var members, want []byte // concatenated members are a file too
	for i, s := range target.slices {
		members = append(members, s.data...)
		want = append(want, all[i].Data...)
	}
	path := filepath.Join(root, "all.gz")
	if err := os.WriteFile(path, members, 0o600); err != nil {
		t.Fatal(err)
	}
	readByAll(t, gzipReaders, path, want)
}
