package collectortest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
)

// needSDK skips a test without a package of the SDK for JavaScript, and returns its folder.
func needSDK(t *testing.T, name string) string {
	t.Helper()
	folder, err := filepath.Abs("testdata/js")
	if err != nil {
		t.Fatal(err)
	}
	_, missing := os.Stat(filepath.Join(folder, "node_modules/@opentelemetry", name))
	if _, err := exec.LookPath("node"); err != nil || missing != nil {
		const install = "npm install --no-package-lock --prefix internal/collectortest/testdata/js"
		if os.Getenv("CI") == "true" {
			t.Fatal("no SDK for JavaScript: " + install)
		}
		t.Skip("no SDK for JavaScript: " + install)
	}
	return folder
}

// The program for JavaScript of docs/telemetry.md, with the variables of that page, sends all signals of a program that uses the API only, with the
// name of its service, and with logs and spans below their parents. It reads the protocol.
func TestJavaScriptOfPage(t *testing.T) {
	folder := needSDK(t, "sdk-node")
	page, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```js\n")
	program, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("docs/telemetry.md has no program for JavaScript")
	}
	order, err := os.ReadFile(filepath.Join(folder, "order.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			s := newServer(t)
			s.serve()
			dir := t.TempDir()
			if err := os.Symlink(filepath.Join(folder, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"instrument.js": program, "shop.js": string(order), "package.json": `{"type":"module"}`} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "node", "--import", "./instrument.js", "shop.js")
			cmd.Dir = dir
			addr := s.httpAddr
			if protocol == "grpc" {
				addr = s.grpcAddr
			}
			cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=js-shop", "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+addr, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol,
				"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20"+secret)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("got %v\n%s\nwant no error and len(out) <= 0", err, out)
			}
			if err := s.engine.Flush(t.Context(), source); err != nil {
				t.Fatal(err)
			}
			spans := map[string]map[string]string{}
			for _, row := range s.rows(forebay.SignalTraces) {
				spans[row["SpanName"]] = row
			}
			order, payment := spans["order"], spans["payment"]
			if len(spans) != 2 || order["ServiceName"] != "js-shop" || order["SpanKind"] != "Server" || payment["ParentSpanId"] != order["SpanId"] || payment["TraceId"] != order["TraceId"] {
				t.Errorf("spans: %v", spans)
			}
			logs := s.rows(forebay.SignalLogs)
			if len(logs) != 1 || logs[0]["Body"] != "paid" || logs[0]["ServiceName"] != "js-shop" || logs[0]["SpanId"] != payment["SpanId"] {
				t.Errorf("logs: %v", logs)
			}
			points := s.rows(forebay.SignalMetrics)
			if len(points) != 1 || points[0]["MetricName"] != "orders" || points[0]["Value"] != "1" || points[0]["ServiceName"] != "js-shop" {
				t.Errorf("points: %v", points)
			}
		})
	}
}
