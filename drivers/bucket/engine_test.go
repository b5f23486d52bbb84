package bucket_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/internal/buckettest"
	"github.com/forebay/forebay/internal/refusedtest"
	"github.com/forebay/forebay/mapping"
)

// Two engines share a bucket, which is away for a while. Each row is in the table once.
func TestEngines(t *testing.T) {
	w := newWorld(t)
	folder := t.TempDir()
	var engines []*forebay.Engine
	for range 2 {
		e, err := forebay.Open(t.TempDir(), forebay.Options{Staging: w.staging(t), Target: dir.Tables(folder)})
		check(t, err)
		check(t, e.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
			ID: "orders", Table: forebay.Table{ID: "orders", Columns: mapping.Columns{mapping.Path("id", "id")}},
		}}}))
		engines = append(engines, e)
	}
	away := func(*http.Request) buckettest.Fault { return buckettest.SlowDown }
	w.proxy.Break(away)
	const rows = 200
	for i := range rows {
		_, err := engines[i%2].Ingest(t.Context(), "shop", mapping.JSON(fmt.Appendf(nil, `{"id":%d}`, i)))
		check(t, err)
	}
	w.proxy.Break(nil)
	for _, e := range engines {
		check(t, e.Flush(t.Context(), "shop"))
		report, err := e.Verify(t.Context())
		if err != nil {
			t.Errorf("Verify = %+v, %v", report, err)
		}
		check(t, e.Close())
	}
	seen := make(map[string]int)
	for row, err := range dir.Tables(folder).Rows("orders") {
		check(t, err)
		seen[row[0]]++
	}
	for i := range rows {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("row %d is in the table %d times", i, n)
		}
	}
}

func ExampleOpen() {
	staging, err := bucket.Open(context.Background(), "s3://my-bucket/forebay?region=eu-central-1", bucket.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer staging.Close() // after the engine
	_, err = bucket.Open(context.Background(), "file:///var/staging", bucket.Options{})
	fmt.Println(err)
	// Output: bucket: file:///var/staging is a local folder: use dir.Staging or dir.Tables of buffer/dir, which sync their files
}

func TestTextIsUTF8(t *testing.T) {
	w := newWorld(t)
	refusedtest.Text(t, openTables(t, buckettest.S3URL(w.server, w.name), bucket.TablesOptions{Scratch: t.TempDir()}), "orders")
}
