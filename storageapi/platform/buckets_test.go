package platform_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func TestBuckets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	b := must(w.CreateBucket(ctx, storageapi.BucketCreate{Name: "main", Description: "d"}))(t)
	if b.ID != "in.c-main" || b.Name != "c-main" || b.DisplayName != "main" || b.Stage != "in" || b.Created.IsZero() {
		t.Errorf("bucket %+v", b)
	}
	_, err := w.CreateBucket(ctx, storageapi.BucketCreate{Name: "main"})
	expectError(t, err, 400, "storage.buckets.alreadyExists")
	if !storageapi.IsAlreadyExists(err) {
		t.Error("not IsAlreadyExists")
	}
	_, err = w.CreateBucket(ctx, storageapi.BucketCreate{Name: "bad name"})
	expectError(t, err, 400, "storage.buckets.validation")
	_, err = w.CreateBucket(ctx, storageapi.BucketCreate{Name: "x", Stage: "sys"})
	expectError(t, err, 400, "storage.buckets.validation")
	_, err = w.Bucket(ctx, "in.c-none")
	expectError(t, err, 404, "storage.buckets.notFound")
	if !strings.Contains(err.Error(), `The bucket "in.c-none" was not found in the project "1"`) {
		t.Errorf("text %q", err)
	}
	if b = must(w.UpdateBucket(ctx, b.ID, "shown"))(t); b.DisplayName != "shown" {
		t.Errorf("updated %+v", b)
	}
	_, err = w.CreateBucket(ctx, storageapi.BucketCreate{Name: "other", DisplayName: "shown"})
	expectError(t, err, 400, "storage.buckets.alreadyExists")

	w.table(ctx, "in.c-main.t", nil, "a")
	if b = must(w.Bucket(ctx, b.ID))(t); len(b.Tables) != 1 || b.Tables[0].ID != "in.c-main.t" {
		t.Errorf("detail %+v", b)
	}
	if list := must(storageapi.Collect(w.Buckets(ctx)))(t); len(list) != 1 {
		t.Errorf("list %+v", list)
	}
	if list := must(storageapi.Collect(w.BucketTables(ctx, b.ID)))(t); len(list) != 1 || !slices.Equal(list[0].Columns, []string{"a"}) {
		t.Errorf("tables %+v", list)
	}
	must(w.SetBucketMetadata(ctx, b.ID, "me", storageapi.KeyValue{Key: "k", Value: "v"}))(t)
	if list := must(storageapi.Collect(w.BucketMetadata(ctx, b.ID)))(t); len(list) != 1 || list[0].Provider != "me" {
		t.Errorf("metadata %+v", list)
	}
	err = w.DeleteBucket(ctx, b.ID, false)
	var job *storageapi.JobError
	if !errors.As(err, &job) || job.Code() != "buckets.deleteNotEmpty" {
		t.Errorf("deletion of a bucket with a table: %v", err)
	}
	check(t, w.DeleteBucket(ctx, b.ID, true))
	_, err = w.Table(ctx, "in.c-main.t")
	expectError(t, err, 404, "storage.tables.notFound")
}

// A change of a table that is in progress when its bucket is deleted does not bring the table back.
func TestBucketIsDeletedDuringChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	for range 10 {
		w.table(ctx, "in.c-d.t", nil, "a")
		file := w.upload("f", "a\n1\n")
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for i := range 4 {
			wg.Go(func() {
				<-begin
				_, _ = w.UpdateTable(ctx, "in.c-d.t", fmt.Sprintf("shown%d", i)) // it may come too late
			})
			wg.Go(func() {
				<-begin
				_, _ = w.UpdateBucket(ctx, "in.c-d", fmt.Sprintf("shown%d", i))
			})
		}
		wg.Go(func() {
			<-begin
			_, _ = w.ImportFile(ctx, "in.c-d.t", storageapi.Import{FileID: file})
		})
		var deleted response
		wg.Go(func() {
			<-begin
			deleted = w.raw("DELETE", "/v2/storage/buckets/in.c-d?force=true", "", "")
		})
		close(begin)
		wg.Wait()
		if deleted.status != 204 {
			t.Fatalf("delete: %d %s", deleted.status, deleted.body)
		}
		if list := must(storageapi.Collect(w.Tables(ctx)))(t); len(list) > 0 {
			t.Fatalf("tables of a bucket that is gone: %+v", list)
		}
		if list := must(storageapi.Collect(w.Buckets(ctx)))(t); len(list) > 0 {
			t.Fatalf("a bucket that is gone: %+v", list)
		}
	}
}

// Of two tables that are to be shown under one name at the same time, one is refused.
func TestDisplayNamesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	tables := []string{"in.c-n.a", "in.c-n.b", "in.c-n.c", "in.c-n.d", "in.c-n.e", "in.c-n.f"}
	for _, id := range tables {
		w.table(ctx, id, nil, "x")
	}
	for i := range 40 {
		shown := fmt.Sprintf("shown%d", i)
		var wg sync.WaitGroup
		var taken atomic.Int64
		begin := make(chan struct{})
		for _, id := range tables {
			wg.Go(func() {
				<-begin
				if _, err := w.UpdateTable(ctx, id, shown); err == nil {
					taken.Add(1)
				}
			})
		}
		close(begin)
		wg.Wait()
		if taken.Load() != 1 {
			t.Fatalf("%d tables are shown as %s, want 1", taken.Load(), shown)
		}
	}
}

// The response has each requested part, even if it is empty, and no other part.
func TestIncludes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table(t.Context(), "in.c-i.t", nil, "a")
	const base = "/v2/storage"
	for path, want := range map[string]string{
		"/buckets?include=metadata":                                      `"metadata":[]`,
		"/buckets/in.c-i":                                                `"metadata":[]`,
		"/buckets/in.c-i?include=metadata,columnMetadata":                `"metadata":[],"columnMetadata":[]`,
		"/tables/in.c-i.t":                                               `"metadata":[],"columnMetadata":[]`,
		"/tables?include=metadata":                                       `"metadata":[]`,
		"/tables?include=columnMetadata":                                 `"columnMetadata":[]`,
		"/tables?include=buckets":                                        `"bucket":{"uri"`,
		"/branch/default/buckets/in.c-i/tables?include=columns,metadata": `"columns":["a"]`,
		"/tables?include=columns,buckets,metadata,columnMetadata":        `"columns":["a"]`,
	} {
		if a := w.raw("GET", base+path, "", ""); a.status != 200 || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: got %d %s, want %s in it", path, a.status, a.body, want)
		}
	}
	for path, absent := range map[string]string{"/tables": `"columns"`, "/buckets": `"metadata"`, "/tables?include=columns": `etadata"`, "/tables?include=metadata": `"bucket"`} {
		if a := w.raw("GET", base+path, "", ""); a.status != 200 || strings.Contains(string(a.body), absent) {
			t.Errorf("%s: got %d %s, want no %s", path, a.status, a.body, absent)
		}
	}
}
