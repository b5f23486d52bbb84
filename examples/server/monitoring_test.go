package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The dashboard and the alert rules of docs/monitoring use metrics that there are, by the names that Prometheus gives them, and the
// dashboard leaves none out.
func TestMonitoring(t *testing.T) {
	p := start(t, "FOREBAY_DIR="+t.TempDir(), "FOREBAY_SOURCE=web")
	if status, body := p.request("POST", p.url, `{"user":{"id":1},"kind":"click"}`); status != http.StatusOK {
		t.Fatalf("answered %d %s", status, body)
	}
	_, scraped := p.request("GET", p.api+"/metrics", "")
	p.stop()

	documented := documentedMetrics(t)
	families := 0
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (forebay_\w+) `).FindAllStringSubmatch(scraped, -1) {
		families++
		if !documented[m[1]] {
			t.Errorf("%s is scraped and not in docs/metrics.md", m[1])
		}
	}
	if families < 15 {
		t.Errorf("%d metrics are scraped:\n%s", families, scraped)
	}
	for _, file := range []string{"dashboard.json", "alerts.yml"} {
		used := map[string]bool{}
		for _, name := range regexp.MustCompile(`\bforebay_\w+`).FindAllString(readMonitoring(t, file), -1) {
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				if whole := strings.TrimSuffix(name, part); documented[whole] {
					name = whole
				}
			}
			if used[name] = true; !documented[name] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		for name := range maps.Keys(documented) {
			if file == "dashboard.json" && !used[name] {
				t.Errorf("%s does not show %s", file, name)
			}
		}
	}
}

// documentedMetrics returns the metrics of docs/metrics.md as Prometheus names them.
func documentedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(forebay\\.[a-z.]+)` \\| `([^`]+)` \\| (\\w+) ").FindAllStringSubmatch(string(text), -1) {
		name := strings.ReplaceAll(row[1], ".", "_") + map[string]string{"By": "_bytes", "s": "_seconds"}[row[2]]
		if row[3] == "counter" {
			name += "_total"
		}
		names[name] = true
	}
	if len(names) < 40 {
		t.Fatalf("the pages have %d metrics", len(names))
	}
	return names
}

func readMonitoring(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "monitoring", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The dashboard can be imported by Grafana. Its panels have distinct ids and places, and its queries use its variables.
func TestDashboard(t *testing.T) {
	var d struct {
		Title, UID    string
		SchemaVersion int
		Templating    struct{ List []struct{ Name string } }
		Panels        []struct {
			ID          int
			Title, Type string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readMonitoring(t, "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion == 0 {
		t.Errorf("title %q, uid %q, schema %d", d.Title, d.UID, d.SchemaVersion)
	}
	known := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		known = append(known, v.Name)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %d %q has %d queries, its id is taken: %v", p.ID, p.Title, len(p.Targets), ids[p.ID])
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if at[0] >= 24 || taken[at] != "" {
					t.Fatalf("panel %q lies on %q, or outside, at %v", p.Title, taken[at], at)
				}
				taken[at] = p.Title
			}
		}
		for _, q := range p.Targets {
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !slices.Contains(known, v[1]) {
					t.Errorf("panel %q: there is no variable %s", p.Title, v[1])
				}
			}
		}
	}
}

// promtool runs the tests of the alert rules in docs/monitoring/alerts_test.yml.
func TestAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("promtool is missing: install prometheus")
	case err != nil:
		t.Skip("promtool is missing: install prometheus")
	}
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join("..", "..", "docs", "monitoring", "alerts_test.yml")).CombinedOutput()
	if err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	for _, m := range regexp.MustCompile(`(?m)- alert: (\w+)`).FindAllStringSubmatch(readMonitoring(t, "alerts.yml"), -1) {
		if !strings.Contains(readMonitoring(t, "alerts_test.yml"), `alertname="`+m[1]+`"`) {
			t.Errorf("no test has %s fire", m[1])
		}
	}
	// Each query of the dashboard is one that Prometheus can parse.
	rules := "groups:\n- name: dashboard\n  rules:\n"
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(readMonitoring(t, "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			expr, err := json.Marshal(strings.ReplaceAll(q.Expr, "$__rate_interval", "1m"))
			if err != nil {
				t.Fatal(err)
			}
			rules += "  - {record: a, expr: " + string(expr) + "}\n"
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "--lint=none", file).CombinedOutput(); err != nil {
		t.Errorf("got %v\n%s\nwant no error", err, out)
	}
}
