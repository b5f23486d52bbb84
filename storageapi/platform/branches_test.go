package platform_test

import (
	"testing"

	"github.com/forebay/forebay/storageapi"
)

// A branch has tables and files of its own, which go with it, also from the disk.
func TestBranchGoesWithEverything(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-b.t", nil, "a")
	check(t, importCSV(w, ctx, "in.c-b.t", storageapi.Import{}, "f", "a\nmain\n"))
	tables, files := filesBelow(t, w.dir+"/tables"), filesBelow(t, w.dir+"/files")

	b := must(w.CreateDevBranch(ctx, "dev", ""))(t)
	dev := w.Branch(b.ID.String())
	must(dev.CreateBucket(ctx, storageapi.BucketCreate{Name: "b"}))(t)
	must(dev.CreateTable(ctx, "in.c-b", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("a")}))(t)
	f := must(dev.Upload(ctx, storageapi.FilePrepare{Name: "f", IsPermanent: true, Tags: []string{"x"}}, storageapi.BytesSource([]byte("a\ndev\n"))))(t)
	must(dev.ImportFile(ctx, "in.c-b.t", storageapi.Import{FileID: f.ID}))(t)
	must(dev.SetBucketMetadata(ctx, "in.c-b", "me", storageapi.KeyValue{Key: "k", Value: "v"}))(t)
	if got := must(dev.PreviewJSON(ctx, "in.c-b.t", storageapi.RowQuery{}))(t); len(got.Rows) != 1 || *got.Rows[0][0].Value != "dev" {
		t.Errorf("rows of the branch %+v", got)
	}
	_, err := w.File(ctx, f.ID)
	expectError(t, err, 404, "storage.files.notFound")
	_, err = w.StartImport(ctx, "in.c-b.t", storageapi.Import{FileID: f.ID})
	expectError(t, err, 404, "storage.files.notFound")

	check(t, w.DeleteDevBranch(ctx, b.ID))
	_, err = dev.Bucket(ctx, "in.c-b")
	expectError(t, err, 404, "storage.devBranch.notFound")
	if got := w.preview("in.c-b.t", storageapi.RowQuery{}); got != "\"a\"\n\"main\"\n" {
		t.Errorf("rows of the default branch %q", got)
	}
	_, err = w.CreateDevBranch(ctx, "dev", "")
	check(t, err)              // the name is free again
	check(t, w.server.Close()) // the data goes after the job has ended, which is waited for
	if now := filesBelow(t, w.dir+"/tables"); len(now) != len(tables) {
		t.Errorf("tables on disk %q, before %q", now, tables)
	}
	if now := filesBelow(t, w.dir+"/files"); len(now) != len(files) {
		t.Errorf("files on disk %q, before %q", now, files)
	}
}
