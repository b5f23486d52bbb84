package platform_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

// blobURL is the signed address of a blob of a file that was just prepared.
func blobURL(t *testing.T, f *storageapi.File, inner string) string {
	t.Helper()
	connection := string(f.AzureUpload.Credentials.SASConnectionString)
	endpoint, query, ok := strings.Cut(strings.TrimPrefix(connection, "BlobEndpoint="), ";SharedAccessSignature=")
	if !ok {
		t.Fatalf("connection string %q", connection)
	}
	return endpoint + "/" + f.AzureUpload.Container + "/" + f.AzureUpload.BlobName + inner + "?" + query
}

func (w *world) blob(method, url, body string, header ...string) response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return w.do(req)
}

// A blob keeps what its writer said of it, whichever way it was put, and a head says all that clients of the store read.
func TestBlobProperties(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(w *world, url string, header ...string) response{
		"at once": func(w *world, url string, header ...string) response {
			return w.blob("PUT", url, "content", append(header, "x-ms-blob-type", "BlockBlob")...)
		},
		"block by block": func(w *world, url string, header ...string) response {
			if a := w.blob("PUT", url+"&comp=block&blockid=QQ", "content"); a.status != 201 {
				t.Errorf("block: %d %s", a.status, a.body)
			}
			return w.blob("PUT", url+"&comp=blocklist", `<BlockList><Latest>QQ</Latest></BlockList>`, append(header, "Content-Type", "application/xml")...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := must(w.PrepareFile(t.Context(), storageapi.FilePrepare{Name: "f"}))(t)
			url := blobURL(t, f, "")
			written := put(w, url, "x-ms-blob-content-type", "text/csv", "x-ms-blob-content-encoding", "gzip", "x-ms-meta-my", "own")
			if written.status != 201 {
				t.Fatalf("put: %d %s", written.status, written.body)
			}
			w.restart()
			for _, method := range []string{"HEAD", "GET"} {
				a := w.blob(method, url, "", "Accept-Encoding", "identity")
				for field, want := range map[string]string{
					"Content-Type": "text/csv", "Content-Encoding": "gzip", "x-ms-meta-my": "own", "Content-Length": "7", "x-ms-blob-type": "BlockBlob",
					"ETag": written.header.Get("ETag"), "Last-Modified": written.header.Get("Last-Modified"),
				} {
					if got := a.header.Get(field); got != want {
						t.Errorf("%s: %s is %q, want %q", method, field, got, want)
					}
				}
				for _, field := range []string{"x-ms-creation-time", "Last-Modified"} {
					if _, err := http.ParseTime(a.header.Get(field)); err != nil {
						t.Errorf("%s: got %s: %v, want no error", method, field, err)
					}
				}
			}
			put(w, url)
			if a := w.blob("HEAD", url, ""); a.header.Get("x-ms-meta-my") != "" || a.header.Get("Content-Type") == "text/csv" {
				t.Errorf("a blob that was put again has the old header %v", a.header)
			}
			if a := put(w, url, "x-ms-meta-large", strings.Repeat("x", 9<<10)); a.status != 400 {
				t.Errorf("9 KiB of properties: %d", a.status)
			}
		})
	}
}

// A manifest is served with the address of the container that was handed out, whatever its writer took for it.
func TestServedManifest(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("https=", secure), func(t *testing.T) {
			w := newWorld(t)
			if secure {
				w.http.Close()
				w.http = httptest.NewTLSServer(&switchable{h: w.server})
				w.Client = w.client(masterToken)
			}
			ctx := t.Context()
			f := must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: "f", IsSliced: true}))(t)
			for _, address := range []string{
				"azure://" + f.AzureUpload.AccountName + ".blob.core.windows.net/files/" + f.AzureUpload.BlobName,
				strings.Replace(w.http.URL, "https", "azure", 1) + "/blob/files/" + f.AzureUpload.BlobName,
			} {
				for _, slice := range []string{"one.gz", "two/ü.gz"} {
					w.blob("PUT", blobURL(t, f, strings.ReplaceAll(slice, "ü", "%C3%BC")), "a\n")
				}
				manifest := `{"entries":[{"url":"` + address + `one.gz","mandatory":true},{"url":"` + address + `two/ü.gz"}]}`
				if a := w.blob("PUT", blobURL(t, f, "manifest"), manifest); a.status != 201 {
					t.Fatalf("manifest: %d %s", a.status, a.body)
				}
				detail := must(w.File(ctx, f.ID))(t)
				a := w.blob("GET", string(detail.URL), "")
				var got struct{ Entries []struct{ URL string } }
				if err := json.Unmarshal(a.body, &got); err != nil || len(got.Entries) != 2 {
					t.Fatalf("manifest %s: %v", a.body, err)
				}
				prefix := strings.Replace(w.http.URL, "https", "azure", 1) + "/blob/files/" + f.AzureUpload.BlobName
				if got.Entries[0].URL != prefix+"one.gz" || got.Entries[1].URL != prefix+"two/ü.gz" {
					t.Errorf("manifest %s, want entries that begin with %s", a.body, prefix)
				}
				stored := must(w.Download(ctx, f.ID))(t)
				if names := must(stored.Slices(ctx))(t); len(names) != 2 || names[0] != "one.gz" || names[1] != "two/ü.gz" {
					t.Errorf("our client reads %q", names)
				}
			}
		})
	}
}
