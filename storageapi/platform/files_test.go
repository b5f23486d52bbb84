package platform_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	data := strings.Repeat("some bytes\n", 10_000)
	var steps []int64
	f := must(w.Upload(ctx, storageapi.FilePrepare{Name: "a.txt", Tags: []string{"x", "y", "x"}}, storageapi.Source{
		Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil },
		Progress: func(sent, size int64) { steps = append(steps, sent) },
	}))(t)
	if !slices.Equal(f.Tags, []string{"x", "y"}) || f.SizeBytes != int64(len(data)) || f.MaxAgeDays == nil || *f.MaxAgeDays != 15 {
		t.Errorf("file %+v", f)
	}
	if len(steps) == 0 || !slices.IsSorted(steps) || steps[len(steps)-1] != int64(len(data)) {
		t.Errorf("progress %v", steps)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", f, f, f), "sig=") {
		t.Error("a printed file shows the signature")
	}
	stored := must(w.Download(ctx, f.ID))(t)
	if got := w.read(must(stored.Open(ctx))(t)); got != data {
		t.Errorf("read %d bytes, want %d", len(got), len(data))
	}
	if got := w.read(must(w.FileContent(ctx, f.ID))(t)); got != data {
		t.Errorf("content has %d bytes, want %d", len(got), len(data))
	}
	u := must(url.Parse(string(f.URL)))(t)
	if a := w.raw("GET", u.RequestURI(), "", ""); a.status != 200 || string(a.body) != data {
		t.Errorf("the address of the file answers %d", a.status)
	}
	if a := w.raw("GET", strings.ReplaceAll(u.RequestURI(), "sig=", "sig=x"), "", ""); a.status != 403 {
		t.Errorf("a wrong signature answers %d", a.status)
	}
	if a := w.raw("PUT", u.RequestURI(), "", "other"); a.status != 403 {
		t.Errorf("writing with the right to read answers %d", a.status)
	}

	find := func(q storageapi.FileQuery) (ids []storageapi.IntID) {
		for f, err := range w.Files(ctx, q) {
			check(t, err)
			ids = append(ids, f.ID)
		}
		return ids
	}
	second := w.upload("b.csv", "a\n")
	for q, want := range map[string]struct {
		query storageapi.FileQuery
		ids   []storageapi.IntID
	}{
		"all":    {storageapi.FileQuery{}, []storageapi.IntID{second, f.ID}},
		"tag":    {storageapi.FileQuery{Tags: []string{"y", "z"}}, []storageapi.IntID{f.ID}},
		"name":   {storageapi.FileQuery{Search: "b.c"}, []storageapi.IntID{second}},
		"since":  {storageapi.FileQuery{SinceID: f.ID}, []storageapi.IntID{second}},
		"no tag": {storageapi.FileQuery{Tags: []string{"none"}}, nil},
	} {
		if got := find(want.query); !slices.Equal(got, want.ids) {
			t.Errorf("%s: files %v, want %v", q, got, want.ids)
		}
	}
	check(t, w.AddFileTag(ctx, second, "later"))
	check(t, w.AddFileTag(ctx, second, "later"))
	check(t, w.RemoveFileTag(ctx, f.ID, "x"))
	if got := find(storageapi.FileQuery{Tags: []string{"later", "x"}}); !slices.Equal(got, []storageapi.IntID{second}) {
		t.Errorf("after changes of the tags: %v", got)
	}
	if a := w.raw("GET", "/v2/storage/files?tags=x", "", ""); a.status != 400 {
		t.Errorf("tags that are no list: %d", a.status)
	}

	other := must(w.CreateToken(ctx, storageapi.TokenCreate{Description: "sees its own files"}))(t)
	_, err := w.client(other.Token).File(ctx, f.ID)
	expectError(t, err, 403, "accessDenied")

	// A record without bytes.
	empty := must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: "never"}))(t)
	_, err = must(w.Download(ctx, empty.ID))(t).Open(ctx)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bytes that were never uploaded: %v", err)
	}
	check(t, w.DeleteFile(ctx, f.ID))
	check(t, w.DeleteFile(ctx, f.ID))
	_, err = w.File(ctx, f.ID)
	expectError(t, err, 404, "storage.files.notFound")
}

func TestUploadInBlocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := must(w.PrepareFile(t.Context(), storageapi.FilePrepare{Name: "blocks"}))(t)
	_, rest, _ := strings.Cut(string(f.AzureUpload.Credentials.SASConnectionString), "BlobEndpoint=")
	endpoint, query, _ := strings.Cut(rest, ";SharedAccessSignature=")
	path := strings.TrimPrefix(endpoint, w.http.URL) + "/" + f.AzureUpload.Container + "/" + f.AzureUpload.BlobName + "?" + query
	for _, block := range []string{"QQ==", "Qg=="} {
		if a := w.raw("PUT", path+"&comp=block&blockid="+url.QueryEscape(block), "", "part "+block); a.status != 201 {
			t.Fatalf("block: %d %s", a.status, a.body)
		}
	}
	if a := w.raw("GET", path, "", ""); a.status != 404 || a.header.Get("x-ms-error-code") != "BlobNotFound" {
		t.Errorf("before the list: %d %s", a.status, a.body)
	}
	list := `<?xml version="1.0" encoding="utf-8"?><BlockList><Latest>QQ==</Latest><Uncommitted>Qg==</Uncommitted></BlockList>`
	if a := w.raw("PUT", path+"&comp=blocklist", "application/xml", list); a.status != 201 {
		t.Fatalf("list: %d %s", a.status, a.body)
	}
	if a := w.raw("GET", path, "", "", "x-ms-range", "bytes=5-13"); a.status != 206 || string(a.body) != "QQ==part " {
		t.Errorf("range: %d %q", a.status, a.body)
	}
	if a := w.raw("PUT", path+"&comp=blocklist", "application/xml", strings.ReplaceAll(list, "Qg", "Zg")); a.status != 400 {
		t.Errorf("unknown block: %d", a.status)
	}
	if a := w.raw("GET", path+"&comp=blocklist", "", ""); a.status != 501 {
		t.Errorf("the list of blocks: %d %s", a.status, a.body)
	}
	if a := w.raw("DELETE", path, "", ""); a.status != 202 {
		t.Errorf("delete: %d", a.status)
	}
}

// uploadPath is the path of a blob with the credentials of an upload.
func uploadPath(w *world, f *storageapi.File, inner string) string {
	_, rest, _ := strings.Cut(string(f.AzureUpload.Credentials.SASConnectionString), "BlobEndpoint=")
	endpoint, query, _ := strings.Cut(rest, ";SharedAccessSignature=")
	return strings.TrimPrefix(endpoint, w.http.URL) + "/" + f.AzureUpload.Container + "/" + f.AzureUpload.BlobName + inner + "?" + query
}

// Whoever may read a file may not get the credentials to replace its bytes.
func TestRefreshOfUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	f := must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: "n"}))(t)
	if again := must(w.RefreshUpload(ctx, f.ID))(t); again.AzureUpload == nil {
		t.Error("no credentials")
	}
	reader := must(w.CreateToken(ctx, storageapi.TokenCreate{CanReadAllFileUploads: true}))(t)
	c := w.client(reader.Token)
	must(c.File(ctx, f.ID))(t)
	_, err := c.RefreshUpload(ctx, f.ID)
	expectError(t, err, 403, "accessDenied")
	own := must(c.PrepareFile(ctx, storageapi.FilePrepare{Name: "n"}))(t)
	must(c.RefreshUpload(ctx, own.ID))(t)
}

// Blocks that wait to be put together are not in the way of a slice, whatever its name is.
func TestBlocksAreNoSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := must(w.PrepareFile(t.Context(), storageapi.FilePrepare{Name: "n", IsSliced: true}))(t)
	if a := w.raw("PUT", uploadPath(w, f, "block/dir/QQ=="), "", "slice"); a.status != 201 {
		t.Fatalf("slice: %d %s", a.status, a.body)
	}
	if a := w.raw("PUT", uploadPath(w, f, "dir")+"&comp=block&blockid=QQ%3D%3D", "", "block"); a.status != 201 {
		t.Fatalf("block: %d %s", a.status, a.body)
	}
	if a := w.raw("GET", uploadPath(w, f, "block/dir/QQ=="), "", ""); string(a.body) != "slice" {
		t.Errorf("the slice is %q", a.body)
	}
	if a := w.raw("GET", uploadPath(w, f, "block/dir/Qg=="), "", ""); a.status != 404 {
		t.Errorf("no slice: %d", a.status)
	}
}

// An upload that breaks off stores nothing, and leaves nothing on disk after a restart.
func TestUploadBreaksOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := must(w.PrepareFile(t.Context(), storageapi.FilePrepare{Name: "n"}))(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.http.URL, "http://"))
	check(t, err)
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nx-ms-blob-type: BlockBlob\r\nContent-Length: 1000\r\n\r\nnot all of it", uploadPath(w, f, ""))
	check(t, conn.(*net.TCPConn).CloseWrite())
	head := must(bufio.NewReader(conn).ReadString('\n'))(t) // comes when the server has given up
	check(t, conn.Close())
	if !strings.Contains(head, " 400 ") {
		t.Errorf("answer %q", head)
	}
	if a := w.raw("GET", uploadPath(w, f, ""), "", ""); a.status != 404 {
		t.Errorf("a part of the bytes is there: %d %q", a.status, a.body)
	}
	kept := w.upload("kept", "bytes")
	left := filepath.Join(w.dir, "files", kept.String(), ".tmp-77") // as a crash leaves it
	check(t, os.WriteFile(left, []byte("half"), 0o600))
	w.restart()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a crash has left of an upload: %v", err)
	}
	if got := w.read(must(w.FileContent(t.Context(), kept))(t)); got != "bytes" {
		t.Errorf("content %q", got)
	}
}

// A sliced file itself has no bytes, and a whole file has no slices. The error says how to read the file.
func TestReadingAFileTheWrongWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-x.t", nil, "a")
	export := must(w.Download(ctx, must(w.ExportTable(ctx, "in.c-x.t", storageapi.Export{}))(t)))(t)
	whole := must(w.Download(ctx, w.upload("whole", "a\n")))(t)
	_, open := export.Open(ctx)
	_, names := whole.Slices(ctx)
	_, all := whole.OpenSlices(ctx)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"Open of an export", open, `"in.c-x.t.csv" is sliced: read it with OpenSlices`},
		{"Slices of a whole file", names, `"whole" is not sliced: read it with Open`},
		{"OpenSlices of a whole file", all, `"whole" is not sliced: read it with Open`},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %s", c.name, c.err, c.want)
		}
	}
}
