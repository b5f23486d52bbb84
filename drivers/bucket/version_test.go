package bucket_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
)

// Each request to Azure and Google names Forebay and its version.
func TestRequestsNameTheVersion(t *testing.T) {
	var mu sync.Mutex
	var methods []string
	header := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		methods = append(methods, r.Method)
		if got := strings.Fields(r.Header.Get(header)); !slices.Contains(got, driver.Product()) {
			t.Errorf("%s %s: the header %s is %q, want %s in it", r.Method, r.URL, header, got, driver.Product())
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	t.Setenv("STORAGE_EMULATOR_HOST", address)
	for url, name := range map[string]string{
		"gs://rows/a": "X-Goog-Api-Client",
		fmt.Sprintf("azblob://rows/a?protocol=http&localemu=true&domain=%s", address): "User-Agent",
	} {
		mu.Lock()
		header, methods = name, nil
		mu.Unlock()
		staging := open(t, url, bucket.Options{})
		// The results do not matter.
		_ = staging.Put(t.Context(), object("id"), content("row"))
		_, _ = staging.Open(t.Context(), object("id"))
		_ = staging.Delete(t.Context(), object("id"))
		_, _ = staging.Orphans(t.Context(), "", time.Hour)
		mu.Lock()
		for _, want := range []string{http.MethodGet, http.MethodDelete} {
			if !slices.Contains(methods, want) {
				t.Errorf("%s: no %s has come, only %q", url, want, methods)
			}
		}
		if !slices.Contains(methods, http.MethodPut) && !slices.Contains(methods, http.MethodPost) {
			t.Errorf("%s: no upload has come, only %q", url, methods)
		}
		mu.Unlock()
	}
}
