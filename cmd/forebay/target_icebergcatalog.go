//go:build forebay_iceberg

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	_ "github.com/apache/iceberg-go/catalog/rest"     // registers http and https
	_ "github.com/apache/iceberg-go/io/gocloud/azure" // registers abfs and abfss
	_ "github.com/apache/iceberg-go/io/gocloud/gcs"   // registers gs
	_ "github.com/apache/iceberg-go/io/gocloud/s3"    // registers s3

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/program/store"
)

// catalogSecrets are the properties of a catalog that are read from the environment, by the name of their variable.
func catalogSecrets() map[string]string {
	return map[string]string{"ICEBERG_TOKEN": "token", "ICEBERG_CREDENTIAL": "credential"}
}

// catalogKeys are the keys that a catalog's address may have after the question mark: namespace, and properties of iceberg-go.
func catalogKeys() []string {
	return []string{
		"warehouse", "namespace", "prefix", "scope", "audience", "resource", "oauth2-server-uri",
		"rest.sigv4-enabled", "rest.signing-region", "rest.signing-name",
		"s3.endpoint", "s3.region", "s3.force-virtual-addressing", "gcs.endpoint",
	}
}

// prepareIcebergCatalog checks the address of a REST catalog, which says in which bucket the tables are. The address has no secret.
func prepareIcebergCatalog(address string, opts iceberg.Options) (opener, error) {
	props, err := catalogProperties(address)
	if err != nil {
		return nil, fmt.Errorf("iceberg: %w", err)
	}
	if ns := props["namespace"]; ns != "" {
		opts.Namespace = ns
	}
	delete(props, "namespace")
	return func() (*store.Store, error) { return openIcebergCatalog(props, opts) }, nil
}

func openIcebergCatalog(props iceberglib.Properties, opts iceberg.Options) (*store.Store, error) {
	for variable, key := range catalogSecrets() {
		if secret := os.Getenv(variable); secret != "" {
			props[key] = secret
		}
	}
	if props["header.User-Agent"] == "" {
		props["header.User-Agent"] = driver.Product()
	}
	c, err := catalog.Load(context.Background(), "forebay", props)
	if err != nil {
		return nil, fmt.Errorf("iceberg: the catalog: %w", err)
	}
	target := iceberg.New(c, opts)
	st := &store.Store{
		Target: target, Tables: icebergReader{target, opts.Namespace},
		Hint: fmt.Sprintf(`SELECT country, count(*), sum(total) FROM %s."in.c-shop.orders" GROUP BY 1`, opts.Namespace),
	}
	if closer, ok := c.(catalog.Closer); ok {
		st.Closer = closer.Close
	}
	return st, nil
}

// catalogProperties reads the address of a catalog. Its errors show nothing of it, because it may have a secret all the same.
func catalogProperties(address string) (iceberglib.Properties, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, errors.New("the address of the catalog cannot be read: write https://HOST/PATH?warehouse=NAME")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the part after the ? of the catalog's address cannot be read: write NAME=VALUE, with & between them and % as %25")
	}
	props, plain := iceberglib.Properties{}, u.User == nil
	for key, values := range query {
		plain = plain && len(values) == 1 && slices.Contains(catalogKeys(), key)
		props[key] = values[0]
	}
	if !plain {
		return nil, fmt.Errorf("the address of the catalog has a password, or a parameter twice or that it cannot have: it takes %s; "+
			"a secret is set in the environment, as ICEBERG_TOKEN or ICEBERG_CREDENTIAL=ID:SECRET, and the secrets of the bucket as its vendor's tools read them",
			strings.Join(catalogKeys(), ", "))
	}
	u.RawQuery, u.Fragment = "", ""
	props["type"], props["uri"] = "rest", u.String()
	return props, nil
}
