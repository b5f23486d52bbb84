package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
)

// The verb otlp writes the statements for the views of ClickHouse and MySQL, and its tables in ClickHouse are sorted by service and time.
func TestOTLPOnServers(t *testing.T) {
	batch := plog.NewLogs()
	resource := batch.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "shop")
	resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("paid")
	body, err := plogotlp.NewExportRequestFromLogs(batch).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, database := range map[string]func(t *testing.T) (target string, query func(sql string) string){
		"MySQL": func(t *testing.T) (string, func(string) string) {
			name := mysqlServer.Database(t)
			db := mysqlServer.Connect(t, name)
			return mysqlServer.URL(name), func(sql string) string {
				if !strings.HasPrefix(sql, "SELECT") {
					if _, err := db.Exec(sql); err != nil {
						t.Fatalf("got %v\n%s\nwant no error", err, sql)
					}
					return ""
				}
				var answer string
				if err := db.QueryRow(sql).Scan(&answer); err != nil {
					t.Fatal(err)
				}
				return answer
			}
		},
		"ClickHouse": func(t *testing.T) (string, func(string) string) {
			name := clickhouseServer.Database(t)
			return clickhouseServer.URL(name), func(sql string) string {
				rows := clickhouseServer.Rows(t, strings.Replace(sql, "FROM otel_logs", "FROM "+name+".otel_logs", 1))
				if len(rows) == 0 {
					return ""
				}
				return *rows[0][0]
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			target, query := database(t)
			data := t.TempDir()
			s := start(t, nil, "otlp", "-dir", data, "-every", "1s", "-target", target)
			secret, err := os.ReadFile(filepath.Join(data, secretFile))
			if err != nil {
				t.Fatal(err)
			}
			if status, answer := s.post("otlp-http", "/v1/logs", string(body), "Authorization", "Bearer "+string(secret)); status != 200 {
				t.Fatalf("got %d %s, want 200", status, answer)
			}
			s.stop()
			views, err := os.ReadFile(filepath.Join(data, viewsFile))
			if err != nil {
				t.Fatal(err)
			}
			statements := strings.Split(strings.TrimSpace(string(views)), ";\n\n")
			for _, sql := range slices.Concat(statements, statements) { // the file can be run again
				query(strings.TrimSuffix(sql, ";"))
			}
			if got := query("SELECT concat(ServiceName, ' ', Body) FROM otel_logs"); got != "shop paid" {
				t.Errorf("the view has %q, want the log", got)
			}
			if name == "ClickHouse" {
				got := query("SELECT sorting_key FROM system.tables WHERE name = 'logs'")
				if got != "ServiceName, Timestamp" {
					t.Errorf("the table is sorted by %q, want service and time", got)
				}
			}
		})
	}
}
