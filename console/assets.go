package console

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
)

//go:embed web
var web embed.FS

// asset is a file of the page. It is sent without a right because it has nothing but code.
type asset struct {
	contentType, etag string
	data              []byte
}

// loadAssets returns scripts, styles and the icon by name.
func loadAssets() map[string]asset {
	types := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	assets := make(map[string]asset)
	entries, _ := fs.ReadDir(web, "web") // it is part of the program
	for _, e := range entries {
		contentType, ok := types[path.Ext(e.Name())]
		if !ok {
			continue
		}
		data, _ := fs.ReadFile(web, "web/"+e.Name())
		sum := sha256.Sum256(data)
		assets[e.Name()] = asset{contentType, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, data}
	}
	return assets
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		fail(w, http.StatusMethodNotAllowed, "This address takes GET only.")
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // the names carry no version, so that scripts can import each other without a build step
	h.Set("ETag", a.etag)
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.data)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(a.data)
	}
}
