package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkFile writes a configuration and checks it.
func checkFile(t *testing.T, text string, env map[string]string, more ...string) (status int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr = call(t, "", env, append([]string{"check", "-offline", "-config", file}, more...)...)
	return status, stdout, strings.ReplaceAll(stderr, file, "FILE")
}

// Mistakes in a top-level key are found without opening anything, including mistakes after the kind of an address, and have the place of the
// key. No message shows a secret.
func TestMistakesOfFlagsHaveTheirPlace(t *testing.T) {
	env := map[string]string{"URL": "postgres://me:hunter2@%zz/x", "BUCKET": "s3://me:hunter2@bucket", "PASSWORD": "hunter2"}
	for _, tt := range []struct{ text, want string }{
		{"target: sqlit:x.db", `1:9: target has the kind "sqlit", which does not exist`},
		{"\nstaging: s4:x", `2:10: staging has the kind "s4", which does not exist`},
		{"log-format: xml", `1:13: log-format is "xml", must be text or json`},
		{"dir: x\nmerge-to: -1", "2:11: merge-to is -1, must not be negative"},
		{"keep-for: -1h", "1:11: keep-for is -1h0m0s, must not be negative"},
		{"extend: true\nno-header: true", "2:12: no-header excludes -extend"},
		{"project-id: 0", "1:13: project-id is 0, must be 1 to 2147483647"},
		{"branch-id: -7", "1:12: branch-id is -7"},
		{"max-body-bytes: 5", "1:17: max-body-bytes is 5, must be 100 to 4194304"},
		{"max-connections: 0", "1:18: max-connections is 0"},
		{"max-disk-bytes: 5", "1:17: max-disk-bytes is 5, the least is 1048576"},
		{"max-sink-bytes: 5", "1:17: max-sink-bytes is 5, the least is 1024"},
		{"min-import-interval: 10ms", "1:22: min-import-interval is 10ms, allowed is 1s to 1m0s"},
		{"shutdown-timeout: -1s", "1:19: shutdown-timeout is -1s"},
		{"source: Web", `1:9: source is "Web"`},
		{"ui: true\ntoken: hunter2", "2:8: token has 7 bytes"},
		{"admin: 0.0.0.0:1", `1:8: admin is "0.0.0.0:1", must be a loopback address`},
		{"addr: here", `1:7: addr is "here", must be HOST:PORT`},
		{"api-addr: here", `1:11: api-addr is "here"`},
		{"otlp-grpc: on", `1:12: otlp-grpc is "on", must be HOST:PORT`},
		{"otlp-http: on", `1:12: otlp-http is "on", must be HOST:PORT`},
		{"api-public-url: example.com", "1:17: api-public-url is"},
		{"ingest-public-url: ftp://example.com", "1:20: ingest-public-url is"},
		{"trusted-proxies: ['::ffff:10.0.0.0/104']", "1:18: trusted-proxies has ::ffff:10.0.0.0/104"},
		{"archive: s4:x", `1:10: archive has the kind "s4"`},
		{"archive: s3://me:hunter2@bucket", "1:10: archive cannot be used: bucket: the URL of s3://bucket has credentials"},
		{"archive: dir:raw\narchive-keep-for: -1h", "2:19: archive-keep-for is -1h0m0s"},
		{"archive-keep-for: 1h", "1:19: archive-keep-for is for raw records"},

		{"target: iceberg:gs://bucket/x", "1:9: target iceberg: takes no gs:// address"},
		{"target: iceberg:https://me:hunter2@host", "1:9: target cannot be used: iceberg: the address of the catalog has a password"},
		{"target: iceberg:https://host?token=hunter2", "ICEBERG_TOKEN"},
		{"target: iceberg:https://", "the address of the catalog cannot be read"},
		{"target: parquet:s4://bucket/x", "1:9: target parquet:s4:// names no bucket"},
		{"target: parquet:s3://me:hunter2@bucket/x", "1:9: target cannot be used: bucket: the URL of s3://bucket/x has credentials"},
		{"target: parquet:s3://bucket?colour=blue", "colour"},
		{"target: sqlite:s3://bucket/x", "1:9: target sqlite:FILE takes no s3:// address"},
		{"sources: [{id: a, quarantine: {maxRecords: 0}}]", `1:44: maxRecords is "0", which would mean the default`},
		{"sources: [{id: a, quarantine: {maxBytes: 0MB}}]", `maxBytes is "0MB", which would mean the default`},
		{"sources: [{id: a, quarantine: {maxAge: 0s}}]", `maxAge is "0s", which would mean the default`},
		{"sources: [{id: a, settings: {import: {count: 0}}}]", `count is "0", which would mean the default`},
		{"target: postgres://me:hunter2@%zz/x", "1:9: target cannot be used: postgres: the connection string cannot be read"},
		{"target: postgres://host/x?sslmode=hunter2", "1:9: target cannot be used: postgres: the connection string cannot be read"},
		{"target: duckdb:x.db?access_mode=read_only", "1:9: target cannot be used: duckdb: the path"},
		{"staging: s3://key:hunter2@bucket", "1:10: staging cannot be used: bucket: the URL of s3://bucket has credentials"},
		{"staging: s3://bucket?use_path_style=maybe", "1:10: staging cannot be used"},
		{"staging: gs://bucket?region=x", `1:10: staging cannot be used: bucket: gs://bucket: the URL has a parameter "region"`},
		{"staging: azblob://container?localemu=maybe", "localemu must be true or false"},
		{"staging: s3:///prefix", "names no bucket"},
		{"target: iceberg:x\nkeep-for: 1h", "2:11: keep-for is for tables in folders"},
		{"merge-to: 1000000\ntarget: parquet:s3://bucket", "1:11: merge-to does not go with -target parquet: and a bucket"},
		{"target: parquet:s3://bucket\nkeep-for: 1h", "2:11: keep-for does not go with"},
		{"target: parquet:x\ngzip: true", "2:7: gzip is for CSV files"},
		{"target: postgres://host/x\ngzip: true\npartition-by: at", "3:15: partition-by is for tables in folders"},
		{"target: sqlite:x\nno-header: true", "2:12: no-header is for tables in folders"},

		{"target: ${URL}", `1:9: target cannot be used: postgres: the connection string cannot be read`},
		{"target: parquet:${BUCKET}", `1:9: target is "parquet:${BUCKET}": the value of the variable cannot be used`},
		{"staging: ${BUCKET}", `1:10: staging is "${BUCKET}": the value of the variable cannot be used`},
		{"target: ${PASSWORD}://x", `1:9: target is "${PASSWORD}://x": the value of the variable cannot be used`},
	} {
		if leftOut(tt.text) {
			continue
		}
		status, out, errs := checkFile(t, tt.text, env)
		if status != wrongUsage || !strings.Contains(errs, "FILE has ") || !strings.Contains(errs, tt.want) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("got %s\nstatus %d, want %q\n%s%s", tt.text, status, tt.want, out, errs)
		}
	}
}

// Files that are valid stay so, whatever the environment has of credentials.
func TestValidFlags(t *testing.T) {
	for _, text := range []string{
		"target: parquet:x\nmerge-to: 1000000\nkeep-for: 1h\npartition-by: at", "target: parquet:s3://bucket/x?region=eu-central-1\npartition-by: at",
		"target: parquet:azblob://container/x", "target: parquet:gs://bucket/x", "target: iceberg:https://catalog/v1?warehouse=w&s3.region=eu\npartition-by: at",
		"target: iceberg:x", "target: postgres://me@host/x?sslmode=disable", "target: duckdb:x.db", "target: dir:x\ngzip: true\nno-header: true\nmerge-to: 5",
		"staging: gs://bucket/x\narchive: azblob://container/x?storage_account=me\narchive-keep-for: 1h", "staging: s3://bucket?endpoint=https://host", "gzip: true",
		"otlp-grpc: off\notlp-http: off\naddr: ':0'", "trusted-proxies: [10.0.0.0/8, 'fd00::1']",
	} {
		if leftOut(text) {
			continue
		}
		if status, out, errs := checkFile(t, text, nil); status != 0 || !strings.Contains(out, "is valid") {
			t.Errorf("%s\ngot status %d\n%s%s\nwant 0, \"is valid\"", text, status, out, errs)
		}
	}
}

// A mistake is in the file only if the value is from there, because a flag wins.
func TestMistakeOfAFlagBesideAFile(t *testing.T) {
	status, _, errs := checkFile(t, "log-format: json\nadr: x", nil, "-log-format", "xml", "-merge-to", "-1")
	if status != wrongUsage || !strings.Contains(errs, "FILE has a mistake:\n  FILE:2:1: unknown key") || !strings.Contains(errs, "\n-log-format is \"xml\"") || !strings.Contains(errs, "\n-merge-to is -1") {
		t.Errorf("status %d\n%s", status, errs)
	}
	if status, _, errs := checkFile(t, "log-format: xml\ntarget: sqlit:x", nil, "-log-format", "json", "-target", "sqlite:x"); status != 0 {
		t.Errorf("status %d\n%s", status, errs)
	}
	// If two options do not fit together, the option of the file has a place.
	if _, _, errs := checkFile(t, "extend: true", nil, "-no-header"); !strings.Contains(errs, "FILE:1:9: -no-header excludes -extend") {
		t.Errorf("got %s, want strings.Contains(errs, \"FILE:1:9: -no-header excludes -extend\")", errs)
	}
}
