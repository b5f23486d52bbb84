package iceberg_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	iceberglib "github.com/apache/iceberg-go"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // registers s3

	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/drivers/iceberg/icebergtest"
	"github.com/forebay/forebay/internal/buckettest"
)

// Tables in a bucket, with a REST catalog. Files are stored once, even if another tool compacts and expires.
func TestBucket(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles an S3 server")
	}
	s3, err := buckettest.StartS3()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s3.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s3.CreateBucket("lake"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "catalog.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	tables, err := sqlcat.NewCatalog("tables", db, sqlcat.SQLite, iceberglib.Properties{
		"warehouse": "s3://lake/warehouse", "s3.endpoint": "http://" + s3.Address, "s3.region": "us-east-1",
		"s3.access-key-id": buckettest.AccessKey, "s3.secret-access-key": buckettest.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{ // what reaches the catalog over REST finds them here
		"AWS_ACCESS_KEY_ID": buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY": buckettest.SecretKey, "AWS_REGION": "us-east-1",
		"AWS_S3_ENDPOINT": "http://" + s3.Address, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	target := iceberg.New(overHTTP(t, icebergtest.NewServer(tables)), iceberg.Options{PartitionBy: "at"})
	c := target.Catalog()
	first, second := makeFile("engine-f1", 0, 10), makeFile("engine-f2", 10, 10)
	for round := range 2 {
		mustImport(t, target, first)
		mustImport(t, target, second)
		expectIDs(t, c, "events", 20)
		if round == 0 {
			rewrite(t, c)
		}
	}
	if tbl := load(t, c, "events"); !strings.HasPrefix(tbl.Location(), "s3://lake/") || len(tbl.Metadata().Snapshots()) != 1 {
		t.Errorf("the table has %d snapshots in %s", len(tbl.Metadata().Snapshots()), tbl.Location())
	}
}
