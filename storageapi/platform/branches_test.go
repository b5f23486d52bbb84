package platform_test

import (
	"testing"

	"github.com/forebay/forebay/storageapi"
)

// A branch has its own tables and files, which are deleted with it, even from the disk.
func TestBranchGoesWithEverything(t *testing.T) {
	t.Parallel()
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

// Branches hold their own configurations.
func TestBranches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	main := must(w.DefaultBranch(ctx))(t)
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "Main", Configuration: raw(`{"v":1}`)}))(t)
	for _, prefix := range []string{"default", main.ID.String()} {
		if c := must(w.Branch(prefix).Configuration(ctx, component, "c"))(t); c.Name != "Main" {
			t.Errorf("branch %s: %+v", prefix, c)
		}
	}
	b := must(w.CreateDevBranch(ctx, "dev", "for tests"))(t)
	if b.IsDefault || b.Name != "dev" {
		t.Errorf("branch %+v", b)
	}
	_, err := w.CreateDevBranch(ctx, "dev", "")
	var job *storageapi.JobError
	if !asJobError(err, &job) || job.Code() != "storage.devBranch.alreadyExists" {
		t.Errorf("second branch of the name: %v", err)
	}
	dev := w.Branch(b.ID.String())
	must(dev.UpdateConfiguration(ctx, component, "c", storageapi.ConfigurationUpdate{Configuration: raw(`{"v":2}`)}))(t)
	expectJSON(t, "content of the default branch", must(w.Configuration(ctx, component, "c"))(t).Configuration, `{"v":1}`)
	check(t, dev.ResetConfiguration(ctx, component, "c"))
	expectJSON(t, "content after the reset", must(dev.Configuration(ctx, component, "c"))(t).Configuration, `{"v":1}`)
	check(t, w.DeleteDevBranch(ctx, b.ID))
	_, err = dev.Configuration(ctx, component, "c")
	expectError(t, err, 404, "storage.devBranch.notFound")
	expectError(t, w.DeleteDevBranch(ctx, main.ID), 400, "storage.devBranch.validation")
}
