package main

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/drivers/mysql/mysqltest"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/buckettest"
)

// What tests share, which the first one that needs it starts.
var (
	postgresServer   pgtest.Server
	mysqlServer      mysqltest.Server
	clickhouseServer clickhousetest.Server
	s3Server         = sync.OnceValues(func() (*buckettest.Server, error) {
		server, err := buckettest.StartS3()
		startedS3 = server
		return server, err
	})
	startedS3 *buckettest.Server // nil if no test needed it
)

// stranger makes a role of the PostgreSQL server, which asks it for a password. Other roles need none.
func stranger(t *testing.T) (role string) {
	conn := postgresServer.Connect(t)
	var hba string
	if err := conn.QueryRow(t.Context(), "SHOW hba_file").Scan(&hba); err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(hba)
	if err != nil {
		t.Fatal(err)
	}
	role = strings.ToLower(t.Name())
	if err := os.WriteFile(hba, append([]byte("local all "+role+" scram-sha-256\n"), rules...), 0o600); err != nil { // its owner stays
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, "DROP ROLE IF EXISTS "+role+"; CREATE ROLE "+role+" LOGIN PASSWORD 'right'; SELECT pg_reload_conf()")
	config := conn.Config().Copy()
	config.User = role
	for { // until the server has read the file
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			return role
		}
		_ = conn.Close(t.Context())
	}
}

// The demo ends with the last line of the quickstart on the targets that need a server, and with staging in a bucket.
func TestDemoOnServers(t *testing.T) {
	for name, flags := range map[string]func(t *testing.T) []string{
		"PostgreSQL": func(t *testing.T) []string {
			folder, _, _ := strings.Cut(strings.TrimPrefix(postgresServer.URL(t), "host="), " ")
			return []string{"-target", "postgres://postgres@/postgres?host=" + folder}
		},
		"MySQL": func(t *testing.T) []string { return []string{"-target", mysqlServer.URL(mysqlServer.Database(t))} },
		"ClickHouse": func(t *testing.T) []string {
			return []string{"-target", clickhouseServer.URL(clickhouseServer.Database(t))}
		},
		"Parquet in a bucket": func(t *testing.T) []string { return []string{"-target", "parquet:" + bucketURL(t, "tables")} },
		"staging in a bucket": func(t *testing.T) []string {
			return []string{"-target", "sqlite:" + t.TempDir() + "/demo.db", "-staging", bucketURL(t, "staging")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"demo", "-n", "300", "-clients", "8", "-dir", t.TempDir()}, flags(t)...)
			for run := range 2 { // the second run finds the rows of the first
				status, out, errs := call(t, "", nil, args...)
				if want := "\nquickstart: sent=300 rows=600 rejected=0 lost=0 duplicated=0\n"; status != 0 || !strings.HasSuffix(out, want) {
					t.Fatalf("status %d\n%s%s", status, out, errs)
				}
				if name == "PostgreSQL" {
					expectDemoRows(t, 300*(run+1))
				}
				if strings.Contains(out+errs, buckettest.SecretKey) || strings.Contains(out+errs, "s3cret") {
					t.Errorf("the secret key is in\n%s%s", out, errs)
				}
			}
		})
	}
}

// expectDemoRows counts the rows of PostgreSQL over a separate connection.
func expectDemoRows(t *testing.T, want int) {
	t.Helper()
	var rows int
	err := postgresServer.Connect(t).QueryRow(t.Context(), `SELECT count(*) FROM "in.c-shop.audit"`).Scan(&rows)
	if err != nil || rows != want {
		t.Errorf("the database has %d rows, want %d: %v", rows, want, err)
	}
}

// bucketURL makes a bucket of S3 and returns its URL. Credentials are in the environment.
func bucketURL(t *testing.T, name string) string {
	t.Helper()
	server, err := s3Server()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.CreateBucket(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.RemoveBucket(name); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_ACCESS_KEY_ID", buckettest.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", buckettest.SecretKey)
	return buckettest.S3URL(server.Address, name)
}

// stopServers ends the servers that tests have started.
func stopServers() {
	postgresServer.Close()
	mysqlServer.Close()
	clickhouseServer.Close()
	if startedS3 != nil {
		if err := startedS3.Close(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
		}
	}
}
