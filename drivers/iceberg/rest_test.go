package iceberg_test

import (
	"net/http/httptest"
	"testing"

	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"

	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/drivers/iceberg/icebergtest"
)

// overHTTP returns a catalog that reaches the catalog of a server.
func overHTTP(t *testing.T, s *icebergtest.Server) catalog.Catalog {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	c, err := rest.NewCatalog(t.Context(), "rest", web.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// overREST returns a target that reaches the tables of a local one through a REST catalog.
func overREST(t *testing.T, local *iceberg.Local, opts iceberg.Options) *iceberg.Target {
	t.Helper()
	return iceberg.New(overHTTP(t, icebergtest.NewServer(local.Catalog())), opts)
}
