//go:build forebay_iceberg

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/drivers/iceberg/icebergtest"
)

// The demo finds its rows in the tables of a REST catalog, whose token is in the environment.
func TestIcebergCatalog(t *testing.T) {
	warehouse, err := iceberg.Open(t.TempDir(), iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { warehouse.Close() })
	server := icebergtest.NewServer(warehouse.Catalog())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.UserAgent(), driver.Product(); got != want {
			t.Errorf("%s %s has the User-Agent %q, want %q", r.Method, r.URL.Path, got, want)
		}
		if r.Header.Get("Authorization") != "Bearer hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	args := []string{"demo", "-n", "300", "-clients", "8", "-dir", t.TempDir(), "-target", "iceberg:" + web.URL + "?namespace=shop"}
	if status, out, errs := call(t, "", nil, args...); status != failed || !strings.Contains(errs, "the catalog") {
		t.Errorf("without a token: status %d\n%s%s", status, out, errs)
	}
	t.Setenv("ICEBERG_TOKEN", "hunter2")
	for range 2 { // the second run finds the rows of the first
		status, out, errs := call(t, "", nil, args...)
		if want := "\nquickstart: sent=300 rows=600 rejected=0 lost=0 duplicated=0\n"; status != 0 || !strings.HasSuffix(out, want) || strings.Contains(out+errs, "hunter2") {
			t.Fatalf("status %d\n%s%s", status, out, errs)
		}
	}
	if _, err := warehouse.Catalog().LoadTable(t.Context(), []string{"shop", "in.c-shop.orders"}); err != nil {
		t.Error(err)
	}
}
