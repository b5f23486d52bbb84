package main

import (
	"bytes"
	"context"
	"database/sql"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/internal/proctest"
)

var update = flag.Bool("update", false, "write the golden files")

// asProgram makes the test binary behave as the program, in its own process.
const asProgram = "FOREBAY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	clickhousetest.Main()
	status := m.Run()
	stopServers()
	os.Exit(status)
}

// call runs a verb in this process.
func call(t *testing.T, stdin string, env map[string]string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := process{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, getenv: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}}
	status = p.run(t.Context(), args)
	return status, out.String(), errs.String()
}

// leftOut reports whether a text names a target that this build leaves out. The gate builds the tests with all targets.
func leftOut(text string) bool {
	return strings.Contains(text, "duckdb:") && duckdbTarget().missing != "" || strings.Contains(text, "iceberg:") && icebergTarget().missing != ""
}

// needs skips a test of a target that this build leaves out.
func needs(t *testing.T, target string) {
	t.Helper()
	if leftOut(target) {
		t.Skip("this build leaves out " + target + " run go test -tags 'forebay_duckdb forebay_iceberg'")
	}
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant, as in %s (-update writes it)\n%s", got, path, want)
	}
}

// The overview and each subject fit a screen of 24 lines and 100 columns. The flags of a command are apart from its examples.
func TestHelp(t *testing.T) {
	screen := func(args ...string) string {
		t.Helper()
		status, out, errs := call(t, "", nil, args...)
		if lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n"); status != 0 || errs != "" || len(lines) > 24 {
			t.Errorf("forebay %q: status %d, %d lines, want at most 24\n%s%s", args, status, len(lines), errs, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("forebay %q: a line has %d columns, want at most 100: %s", args, n, line)
			}
		}
		return out
	}
	overview := screen("-h")
	for _, v := range verbs() {
		text := screen("help", v.name)
		if !strings.Contains(text, "\n  forebay "+v.name) && !strings.Contains(text, "| forebay "+v.name) || !strings.Contains(overview, "  "+v.name+" ") {
			t.Errorf("help %s has no example, or the overview has no %[1]s:\n%s", v.name, text)
		}
		if status, out, errs := call(t, "", nil, v.name, "-h"); status != 0 || errs != "" || !strings.Contains(out, "\n  -") || !strings.Contains(out, "forebay help "+v.name) {
			t.Errorf("%s -h: status %d, %q, without flags or the way to examples:\n%s", v.name, status, errs, out)
		}
	}
	for _, s := range subjects() {
		if screen("help", s.name); !strings.Contains(overview, s.name) {
			t.Errorf("the overview does not name %s:\n%s", s.name, overview)
		}
	}
	targets := screen("help", "targets")
	for _, k := range targetKinds() {
		if !strings.Contains(targets, k.form) || !strings.Contains(targets, k.missing) {
			t.Errorf("help targets has no %s, or not the tag %q:\n%s", k.form, k.missing, targets)
		}
	}
}

func TestVersionIsPrinted(t *testing.T) {
	for _, name := range []string{"version", "-version", "--version"} {
		status, stdout, stderr := call(t, "", nil, name)
		if !regexp.MustCompile(`^forebay (devel|v[0-9]+\.)\S*, go1\.\S+ [a-z]+/[a-z0-9]+\n$`).MatchString(stdout) || status != 0 || stderr != "" {
			t.Errorf("forebay %s = %d, stdout %q, stderr %q, want the version of Forebay and of Go", name, status, stdout, stderr)
		}
	}
}

// The demo ends with the last line of the quickstart on every target that needs no server.
func TestDemo(t *testing.T) {
	folder := t.TempDir()
	for _, target := range []string{"", "dir:" + folder + "/csv", "sqlite:" + folder + "/demo.db", "duckdb:" + folder + "/demo.duckdb", "parquet:" + folder + "/lake", "iceberg:" + folder + "/warehouse"} {
		t.Run(target, func(t *testing.T) {
			needs(t, target)
			args := []string{"demo", "-n", "300", "-clients", "8", "-dir", t.TempDir()}
			if target != "" {
				args = append(args, "-target", target)
			}
			for range 2 { // the second run finds the rows of the first
				status, out, errs := call(t, "", nil, args...)
				if want := "\nquickstart: sent=300 rows=600 rejected=0 lost=0 duplicated=0\n"; status != 0 || !strings.HasSuffix(out, want) {
					t.Fatalf("status %d\n%s%s", status, out, errs)
				}
			}
		})
	}
	if n := rowsOf(t, folder+"/demo.db", `"in.c-shop.audit"`); n != 600 {
		t.Errorf("the database has %d rows, want 600", n)
	}
}

// rowsOf counts the rows of a table of SQLite; 0 if there is no such table.
func rowsOf(t *testing.T, file, table string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil && !strings.Contains(err.Error(), "no such table") {
		t.Fatal(err)
	}
	return n
}

func TestExtractIntoADatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pulled.db")
	status, out, errs := call(t, "", nil, "extract", "-target", "sqlite:"+file)
	if status != 0 || !strings.Contains(out, "table in.c-toy-shop.orders: 10 rows") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	if n := rowsOf(t, file, `"in.c-toy-shop.items"`); n != 20 {
		t.Errorf("got %d items, want 20", n)
	}
}

func TestInspectAndTemplates(t *testing.T) {
	data, staging := t.TempDir(), t.TempDir()
	if status, out, errs := call(t, "", nil, "demo", "-n", "10", "-dir", data, "-staging", "dir:"+staging); status != 0 {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	status, out, errs := call(t, "", nil, "inspect", "-verify", "-staging", "dir:"+staging, data)
	if status != 0 || !strings.Contains(out, "shop/orders") || !strings.Contains(out, "holds") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	status, out, errs = call(t, `{"a":{"b":1}}`, nil, "templates", "-cost=false", "-e", "Body('a.b') + 1")
	if status != 0 || !strings.Contains(out, "value       2\n") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

// All mistakes of a file are reported at once, each with its place and without the values of variables.
func TestMistakes(t *testing.T) {
	status, out, errs := call(t, "", map[string]string{"SHOP_SECRET": "hunter2"}, "check", "-config", "testdata/wrong.yaml")
	if status == 0 || out != "" || strings.Contains(errs, "hunter2") {
		t.Errorf("status %d, %s", status, out)
	}
	golden(t, "wrong.golden", errs)
}

func TestSample(t *testing.T) {
	env := map[string]string{"WEB_SECRET": "hunter2-hunter2-hunter2"}
	status, out, errs := call(t, "", env, "check", "-config", "testdata/web.yaml", "-sample", "testdata/events.json")
	if status != failed || strings.Contains(out+errs, "hunter2") || strings.Contains(out+errs, "ada@") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	golden(t, "sample.golden", out+errs)
	for _, sample := range []string{`[{"user":{"id":1}},{"user":{"id":2}}]`, "{\"user\":{\"id\":1}}\n{\"user\":{\"id\":2}}\n"} {
		status, out, errs := call(t, sample, env, "check", "-config", "testdata/web.yaml", "-sample", "-")
		if status != 0 || strings.Count(out, "\n  2") != 2 || strings.Contains(out, "\n  3") {
			t.Errorf("sample %s: status %d\n%s%s", sample, status, out, errs)
		}
	}
}

func TestFiles(t *testing.T) {
	valid, err := os.ReadFile("testdata/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"WEB_SECRET": "hunter2-hunter2-hunter2", "EMPTY": "", "KIND": "hunter2:x", "TEMPLATE": "hunter2 + 1", "INTERVAL": "1313ms"}
	for _, tt := range []struct{ name, text, want string }{
		{"as it is", string(valid), ""},
		{"JSON with tabs", "{\n\t\"sources\": [\n\t\t{\"id\": \"web\", \"secret\": \"${WEB_SECRET}\", \"sinks\": []}\n\t]\n}", ""},
		{"no source", "sources: []", ""},
		{"only flags", "target: sqlite:x.db\ntrusted-proxies: [10.0.0.0/8, 10.1.2.3]", ""},
		{"an alias", "sources:\n  - {id: a, secret: &s \"${WEB_SECRET}\"}\n  - {id: b, secret: *s}", ""},
		{"empty", "", "is empty"},
		{"neither", "sources: [", "neither YAML nor JSON"},
		{"a list", "- a", "the file must have keys with values, it is a list"},
		{"unset", "token: ${NO_SUCH}", "1:8: the environment variable NO_SUCH is not set"},
		{"unset, empty", "token: ${EMPTY}", "1:8: the environment variable EMPTY is not set"},
		{"no variable", "token: ${a-b}", "write ${NAME}"},
		{"variable of a number", "max-connections: ${WEB_SECRET}", `max-connections is "${WEB_SECRET}": the value of the variable cannot be read`},
		{"a circle", "sources: [{id: a, sinks: [{columns: [{defaultValue: &a [*a]}]}]}]", "no form in JSON"},
		{"a variable as a key", "${WEB_SECRET}: 1", "1:1: a key must not be a variable"},
		{"an alias of a variable as a key", "token: &t \"${WEB_SECRET}\"\n*t : 1", "2:1: a key must not be a variable"},
		{"a variable as a key in a value", "sources: [{id: a, secret: \"${WEB_SECRET}\", sinks: [{id: b, table: c, columns: [{name: d, type: path, path: e, defaultValue: {\"${WEB_SECRET}\": 1}}]}]}]", "a key must not be a variable"},
		{"a list as a key", "? [dir]\n: x", "1:3: a key must be a single value, it is a list"},
		{"a merge", "<<: {dir: x}", "1:1: << is not supported"},
		{"an alias at the top", "dir: &d 127.0.0.1:0\napi-addr: *d", ""},
		{"two sources of a variable", "sources: [{id: \"${WEB_SECRET}\", secret: \"${WEB_SECRET}\"}, {id: \"${WEB_SECRET}\", secret: \"${WEB_SECRET}\"}]", `the id "${WEB_SECRET}" is used by two sources`},
		{"two sinks of a variable", "sources: [{id: a, secret: \"${WEB_SECRET}\", sinks: [{id: \"${WEB_SECRET}\", table: a, preset: logs}, {id: \"${WEB_SECRET}\", table: a, preset: logs}]}]", `the id "${WEB_SECRET}" is used by two sinks`},
		{"a wrong id in a variable", "sources: [{id: \"${KIND}\", secret: \"${WEB_SECRET}\"}]", `id: "${KIND}": only a-z`},
		{"a part of a wrong id", "sources: [{id: \"A-${KIND}\", secret: \"${WEB_SECRET}\"}]", `id: "A-${KIND}": only a-z`},
		{"a wrong template in a variable", "sources: [{id: a, secret: \"${WEB_SECRET}\", sinks: [{id: b, table: c, columns: [{name: d, type: template, template: \"${TEMPLATE}\"}]}]}]", `template is "${TEMPLATE}": the value of the variable cannot be used`},
		{"a short interval in a variable", "sources: [{id: a, secret: \"${WEB_SECRET}\", settings: {import: {interval: \"${INTERVAL}\"}}}]", `interval is "${INTERVAL}": the value of the variable cannot be used`},
		{"a column named by a variable", "sources: [{id: a, secret: \"${WEB_SECRET}\", sinks: [{id: b, table: c, columns: [{name: \"${WEB_SECRET}\", type: nothing}]}]}]", `column 1 ("${WEB_SECRET}")`},
		{"a target of no kind in a variable", "target: ${KIND}", `1:9: target is "${KIND}": the value of the variable cannot be used`},
		{"a format of the log in a variable", "log-format: ${WEB_SECRET}", `1:13: log-format is "${WEB_SECRET}": the value of the variable cannot be used`},
		{"networks in variables", "trusted-proxies: [10.0.0.0/8, \"${WEB_SECRET}\"]", "the value of the variable cannot be read"},
		{"two documents", "dir: x\n---\ndir: y", "second document"},
		{"twice", "dir: x\ndir: y", `2:1: "dir" comes twice, first in line 1`},
		{"two sources", "sources: [{id: a, secret: \"${WEB_SECRET}\"}, {id: a, secret: \"${WEB_SECRET}\"}]", "used by two sources"},
		{"a decimal without quotes", "sources:\n  - {id: a, sinks: [{columns: [{name: a, dataType: decimal(10,2)}]}]}", `quote it, as in dataType: "decimal(10,2)"`},
		{"columns of a sink without a table", "sources: [{id: a, sinks: [{id: b, columns: [{name: c, type: uuid, dataType: integer}]}]}]", `"integer" is not a data type`},
		{"a target beside other mistakes", "target: sqlit:x.db\nadr: x", `1:9: target has the kind "sqlit"`},
		{"a quarantine", "sources: [{id: a, secret: \"${WEB_SECRET}\", onReject: quarantine, quarantine: {maxBytes: 1MB, maxAge: 168h}, sinks: [{id: b, table: c, preset: logs, quarantine: {maxRecords: 5, dropOldest: true, holdFiles: true}}, {id: d, table: e, preset: logs, onReject: refuse}]}]", ""},
		{"an unknown word for rejects", "sources: [{id: a, secret: \"${WEB_SECRET}\", sinks: [{id: b, table: c, preset: logs, onReject: keep}]}]", "1:94: onReject is \"keep\", must be one of refuse, quarantine"},
		{"an unknown word in a source", "sources: [{id: a, secret: \"${WEB_SECRET}\", onReject: drop}]", "onReject is \"drop\", must be one of refuse, quarantine"},
		{"bounds of no quarantine", "sources: [{id: a, secret: \"${WEB_SECRET}\", onReject: quarantine, sinks: [{id: b, table: c, preset: logs, onReject: refuse, quarantine: {maxRecords: 5}}]}]", "quarantine has no effect without onReject: quarantine"},
		{"small bounds", "sources:\n  - {id: a, secret: \"${WEB_SECRET}\", onReject: quarantine, quarantine: {maxAge: 1ms,\n     maxRecords: -1}}", "2:81: maxAge is 1ms, the least is 1s\n"},
		{"small bounds of a sink", "sources: [{id: a, secret: \"${WEB_SECRET}\", onReject: quarantine, sinks: [{id: b, table: c, preset: logs, quarantine: {maxBytes: 5B}}]}]", "maxBytes is 5, the least is 1024"},
		{"bounds in a variable", "sources: [{id: a, secret: \"${WEB_SECRET}\", onReject: quarantine, quarantine: {maxAge: \"-${INTERVAL}\"}}]", "maxAge is \"-${INTERVAL}\": the value of the variable cannot be used"},
		{"a source for the API", "source: web\nsources: []", "1:9: source makes a source"},
		{"not to be set here", "config: x", `unknown key "config"`},
	} {
		file := filepath.Join(t.TempDir(), "forebay.yaml")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		status, out, errs := call(t, "", env, "check", "-config", file)
		if (status == 0) != (tt.want == "") || !strings.Contains(errs, tt.want) || strings.Contains(out+errs, "hunter2") || strings.Contains(out+errs, "1.313s") {
			t.Errorf("got %s: status %d, want %q\n%s%s", tt.name, status, tt.want, out, errs)
		}
	}
}

// Aliases of aliases end at the budget, with one mistake.
func TestBudgetOfAliases(t *testing.T) {
	for name, text := range map[string]string{
		"sinks":   `[{sinks: &s [{columns: &c [{name: a}, {name: b}, {name: c}, {name: d}]}, {columns: *c}, {columns: *c}, {columns: *c}]}, {sinks: *s}, {sinks: *s}, {sinks: *s}]`,
		"keys":    `[{sinks: &s [&k {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1}, *k, *k, *k]}, {sinks: *s}, {sinks: *s}, {sinks: *s}]`,
		"a value": `[{sinks: [{columns: [{defaultValue: [&c [&b [&a [1, 2, 3, 4], *a, *a, *a], *b, *b, *b], *c, *c, *c]}]}]}]`,
	} {
		d := &decoder{nodes: map[string]*yaml.Node{}, written: map[*yaml.Node]string{}, values: map[string]string{}, budget: 20}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		d.substitute(&doc, false)
		all := d.budget
		var sources []sourceKeys
		d.into(doc.Content[0], reflect.ValueOf(&sources).Elem(), "sources", 0)
		large := slices.DeleteFunc(d.mistakes, func(m mistake) bool { return strings.HasPrefix(m.text, "unknown key") })
		if len(large) != 1 || !strings.Contains(large[0].text, "too large") || len(d.nodes) > all {
			t.Errorf("%s: got %d nodes and the mistakes %v, want at most %d nodes and one mistake about the size", name, len(d.nodes), large, all)
		}
	}
}

// A demo whose target can have no tables ends and says why.
func TestDemoWithoutTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, target := range []string{"dir:" + file, "parquet:" + file} {
		var out, errs bytes.Buffer
		p := process{stdout: &out, stderr: &errs, getenv: os.LookupEnv}
		if status := p.run(ctx, []string{"demo", "-n", "1", "-target", target, "-dir", t.TempDir()}); status != failed || ctx.Err() != nil || !strings.Contains(errs.String(), "in.c-shop") || !strings.Contains(errs.String(), "not a directory") {
			t.Errorf("%s: got status %d, %v\n%s%s\nwant %d and a message about the table and the folder", target, status, ctx.Err(), &out, &errs, failed)
		}
	}
}

// hangupIgnored is whether the tests began with the signal ignored, which children inherit. A test that runs serve in this process takes
// the signal, and signal.Ignored no longer reports it.
var hangupIgnored = signal.Ignored(syscall.SIGHUP)

// A closed terminal ends every verb but serve.
func TestHangupEndsADemo(t *testing.T) {
	if hangupIgnored {
		t.Skip("the signal is ignored, as under nohup")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "demo", "-n", "1000000", "-clients", "1", "-dir", t.TempDir())
	cmd.Env = append(os.Environ(), asProgram+"=1")
	p := proctest.Run(t, cmd)
	p.Line() // it sends events now
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if status, ok := p.State().Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGHUP {
		t.Error(p.Ended())
	}
}

// The example of forebay help file is a file without mistakes.
func TestExampleOfHelp(t *testing.T) {
	m := regexp.MustCompile(`(?ms)^  target: .*?\n\n`).FindString(fileHelp)
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	if err := os.WriteFile(file, []byte(m), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"WEB_SECRET": strings.Repeat("s", 48), "OTLP_SECRET": strings.Repeat("t", 48)}
	status, out, errs := call(t, `{"user":{"id":42},"body":"hello"}`, env, "check", "-config", file, "-sample", "-")
	if status != 0 || !strings.Contains(out, "2 sources, 2 sinks, target sqlite") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}
