package platform_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

const token = "a-token-of-your-own"

// local starts a platform, so that the examples run anywhere. Use the address and the token of yours instead.
func local() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "platform")
	if err != nil {
		log.Fatal(err)
	}
	server, err := platform.Open(dir, platform.Options{Token: token, AnyComponent: true})
	if err != nil {
		log.Fatal(err)
	}
	h := httptest.NewServer(server)
	return h.URL, func() {
		h.Close()
		server.Close()
		os.RemoveAll(dir)
	}
}

// The client creates a configuration, changes it, and restores its first version.
func Example_configurations() {
	url, stop := local()
	defer stop()
	ctx := context.Background()
	client, err := storageapi.New(storageapi.Options{URL: url, Token: token})
	if err != nil {
		log.Fatal(err)
	}
	config, err := client.CreateConfiguration(ctx, "my.extractor", storageapi.ConfigurationCreate{
		ConfigurationID: "orders", // a chosen id lets the call be repeated safely
		Name:            "Orders", Configuration: json.RawMessage(`{"parameters":{"days":1}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.UpdateConfiguration(ctx, "my.extractor", config.ID, storageapi.ConfigurationUpdate{
		Configuration: json.RawMessage(`{"parameters":{"days":7}}`), ChangeDescription: "A whole week",
	})
	if err != nil {
		log.Fatal(err)
	}
	version, err := client.RollbackConfiguration(ctx, "my.extractor", config.ID, 1, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("now at version", version)
	for v, err := range client.ConfigurationVersions(ctx, "my.extractor", config.ID) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(v.Version, v.ChangeDescription)
	}

	// Output:
	// now at version 3
	// 3 Rollback to version 1
	// 2 A whole week
	// 1 Configuration created
}

// Rows get into a table by way of a file.
func Example_files() {
	url, stop := local()
	defer stop()
	ctx := context.Background()
	client, err := storageapi.New(storageapi.Options{URL: url, Token: token})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.CreateBucket(ctx, storageapi.BucketCreate{Name: "web"}); err != nil {
		log.Fatal(err)
	}
	file, err := client.Upload(ctx, storageapi.FilePrepare{Name: "events.csv"}, storageapi.BytesSource([]byte("id,kind\n1,login\n2,logout\n")))
	if err != nil {
		log.Fatal(err)
	}
	table, err := client.CreateTableFromFile(ctx, "in.c-web", storageapi.TableFromFile{Name: "events", FileID: file.ID, PrimaryKey: []string{"id"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.ID, table.Columns, table.RowsCount)
	rows, err := client.Preview(ctx, table.ID, storageapi.RowQuery{Filters: []storageapi.Filter{{Column: "kind", Operator: "eq", Values: []string{"login"}}}})
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	data, err := io.ReadAll(rows)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(data))

	// Output:
	// in.c-web.events [id kind] 2
	// "id","kind"
	// "1","login"
}

// Errors have the platform's code, and say which call was refused.
func Example_errors() {
	url, stop := local()
	defer stop()
	client, err := storageapi.New(storageapi.Options{URL: url, Token: "the-token-of-another-stack"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Bucket(context.Background(), "in.c-web")
	var e *storageapi.Error
	if errors.As(err, &e) {
		fmt.Println(e.Status, e.Code, e.Message)
	}
	fmt.Println(storageapi.IsUnauthorized(err), strings.Contains(err.Error(), "another-stack"))

	// Output:
	// 401 storage.tokenInvalid Invalid access token
	// true false
}
