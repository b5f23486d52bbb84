package quickstart

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/seedtest"
)

// asProgram makes the test binary behave as the program, with its flags and in its own process. -crash starts it once
// more, as a child.
const asProgram = "QUICKSTART_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr, Options{}))
	}
	os.Exit(m.Run())
}

// quickstart runs the program and returns its exit status and output.
func quickstart(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// lastLine returns the figures of the last line by name, and the line.
func lastLine(t *testing.T, stdout string) (map[string]int, string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	line := lines[len(lines)-1]
	figures := map[string]int{}
	for _, m := range regexp.MustCompile(`(\w+)=(\d+)`).FindAllStringSubmatch(line, -1) {
		figures[m[1]], _ = strconv.Atoi(m[2])
	}
	return figures, line
}

func TestQuickstart(t *testing.T) {
	dir, seed := t.TempDir(), fmt.Sprint(seedtest.Of(t))
	for _, run := range []string{"first run", "second run on the same directory"} {
		status, stdout, stderr := quickstart(t, "-n", "300", "-clients", "8", "-seed", seed, "-dir", dir)
		_, line := lastLine(t, stdout)
		if want := "quickstart: sent=300 rows=600 rejected=0 lost=0 duplicated=0"; status != 0 || line != want || stderr != "" {
			t.Fatalf("got %s: status %d, last line %q, want %q\n%s%s", run, status, line, want, stdout, stderr)
		}
		for _, part := range []string{"received 300/300   local 0   staging 0   table 600", "prague/orde…", dir} {
			if !strings.Contains(stdout, part) {
				t.Errorf("%s: %q is not in the output:\n%s", run, part, stdout)
			}
		}
	}
}

// The last screen, from the figures on, fits a terminal of 24 lines with 100 characters, after kills too.
func TestLastScreenFits(t *testing.T) {
	for _, args := range [][]string{{"-n", "50"}, {"-n", "400", "-clients", "16", "-crash", "-kills", "3"}} {
		status, stdout, stderr := quickstart(t, append(args, "-seed", "1")...)
		if status != 0 {
			t.Fatalf("status %d\n%s%s", status, stdout, stderr)
		}
		_, screen, ok := strings.Cut(stdout, "\n\n")
		if !ok || !strings.HasPrefix(screen, args[1]+" events sent") {
			t.Fatalf("the figures are not after the first empty line:\n%s", stdout)
		}
		if slices.Contains(args, "-crash") && !strings.Contains(screen, "lost in a crash") { // then no response was lost
			screen += "\n" + fmt.Sprintf(unconfirmedText, 10000)
		}
		lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		if len(lines) > 24 {
			t.Errorf("got %q: %d lines, want at most 24:\n%s", args, len(lines), screen)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("%q: got %d characters, want at most 100: %s", args, n, line)
			}
		}
	}
}

// The printed command of SQLite works as it is, and tells NULL from the empty text. internal/sqltest runs the command of DuckDB.
func TestPrintedQuery(t *testing.T) {
	folder := t.TempDir() + "/it's here"
	status, stdout, stderr := quickstart(t, "-n", "200", "-clients", "4", "-seed", "1", "-dir", folder)
	if status != 0 {
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	tables := dir.Tables(filepath.Join(folder, "tables"))
	columns, err := tables.Columns(tableIDs[0])
	if err != nil {
		t.Fatal(err)
	}
	command := "sh " + shellQuote(filepath.Join(folder, "query.sh"))
	for _, want := range []string{command, "duckdb < " + shellQuote(filepath.Join(folder, "query.sql"))} {
		if !strings.Contains(stdout, "\n  "+want+"\n") {
			t.Fatalf("not printed: %s\n%s", want, stdout)
		}
	}
	for _, program := range []string{"sqlite3", "perl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "sed s/-box/-csv/ "+strings.TrimPrefix(command, "sh ")+" | sh").CombinedOutput()
	if err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	if want := summaryOf(t, tables, columns); strings.ReplaceAll(string(out), "\r", "") != want {
		t.Errorf("SQLite says\n%swant\n%s", out, want)
	}
}

// summaryOf returns the result of the printed queries.
func summaryOf(t *testing.T, tables *dir.TableDir, columns []datatype.Column) string {
	t.Helper()
	at := func(name string) int { return slices.Index(datatype.Names(columns), name) }
	type group struct{ orders, cents, null, empty int }
	groups := map[string]*group{}
	for row, err := range tables.Cells(tableIDs[0]) {
		if err != nil {
			t.Fatal(err)
		}
		g := groups[string(row[at("country")])]
		if g == nil {
			g = &group{}
			groups[string(row[at("country")])] = g
		}
		cents, err := strconv.Atoi(strings.Replace(string(row[at("total")]), ".", "", 1))
		if err != nil {
			t.Fatal(err)
		}
		note := row[at("note")]
		g.orders, g.cents = g.orders+1, g.cents+cents
		if note == nil {
			g.null++
		} else if len(note) == 0 {
			g.empty++
		}
	}
	var b strings.Builder
	for _, country := range slices.Sorted(maps.Keys(groups)) {
		g := groups[country]
		if g.null == 0 || g.empty == 0 {
			t.Errorf("%s has %d orders with a NULL note, %d with an empty one", country, g.null, g.empty)
		}
		fmt.Fprintf(&b, "%s,%d,%d.%02d,%d,%d\n", country, g.orders, g.cents/100, g.cents%100, g.null, g.empty)
	}
	return b.String()
}

func TestQuickstartCountsRejections(t *testing.T) {
	status, stdout, stderr := quickstart(t, "-n", "200", "-clients", "4", "-bad", "30", "-seed", "1", "-dir", t.TempDir())
	got, line := lastLine(t, stdout)
	if status != 0 || got["rejected"] < 20 || got["rejected"] > 100 || got["rows"]+got["rejected"] != 400 ||
		!strings.HasSuffix(line, "lost=0 duplicated=0") {
		t.Errorf("status %d, last line %q\n%s%s", status, line, stdout, stderr)
	}
}

func TestQuickstartSurvivesCrashes(t *testing.T) {
	status, stdout, stderr := quickstart(t, "-crash", "-kills", "3", "-n", "400", "-clients", "16", "-seed", fmt.Sprint(seedtest.Of(t)), "-dir", t.TempDir())
	got, line := lastLine(t, stdout)
	shape := regexp.MustCompile(`^quickstart: sent=400 rows=\d+ rejected=0 lost=0 duplicated=0 unconfirmed=\d+$`)
	if status != 0 || !shape.MatchString(line) || got["rows"] != 800+got["unconfirmed"] || stderr != "" {
		t.Errorf("status %d, last line %q\n%s%s", status, line, stdout, stderr)
	}
	if !strings.Contains(stdout, "the engine was killed ") {
		t.Errorf("no crash happened:\n%s", stdout)
	}
	page, err := os.ReadFile("../../../docs/start.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "and the output ends like this:\n\n```\n")
	shown, _, ok := strings.Cut(shown, "```\n")
	if !ok {
		t.Fatal("docs/start.md does not show the end of the output")
	}
	if got["unconfirmed"] == 0 { // no kill has lost a response, so the text does not mention it
		first, rest, _ := strings.Cut(shown, " rows are from")
		_, last, _ := strings.Cut(rest, "\n\n")
		shown = strings.TrimRight(first, "0123456789") + last
	}
	for line := range strings.Lines(shown) {
		if !strings.Contains(withoutFigures(stdout), withoutFigures(line)) {
			t.Errorf("docs/start.md shows %q, which is not in the output:\n%s", line, stdout)
		}
	}
}

// withoutFigures returns text with one mark for each number or duration.
func withoutFigures(text string) string {
	return regexp.MustCompile(`(\d[\d.]*([hmµn]?s|[hm]\b)?)+`).ReplaceAllString(text, "#")
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-n", "0"}, {"-n", "10000000"}, {"-bad", "101"}, {"-clients", "0"}, {"-kills", "0"}, {"-ui", "-crash"}, {"x"}, {"-y"}} {
		if status, stdout, stderr := quickstart(t, args...); status != 2 || stdout != "" || !strings.HasPrefix(stderr, "quickstart: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("got %v: status %d, want 2 and one line that begins with the program:\n%s%s", args, status, stdout, stderr)
		}
	}
}

// The verdict must be able to be a bad one.
func TestCompare(t *testing.T) {
	acked := map[delivery]struct{}{{1, 1}: {}, {2, 1}: {}, {3, 2}: {}}
	tests := []struct {
		name   string
		stored map[delivery]int64
		want   audit
	}{
		{"all there", map[delivery]int64{{1, 1}: 1, {2, 1}: 1, {3, 2}: 1}, audit{}},
		{"one lost", map[delivery]int64{{1, 1}: 1, {3, 2}: 1}, audit{lost: 1}},
		{"another attempt does not count", map[delivery]int64{{1, 1}: 1, {2, 1}: 1, {3, 1}: 1}, audit{lost: 1, unconfirmed: 1}},
		{"one twice, one three times", map[delivery]int64{{1, 1}: 2, {2, 1}: 3, {3, 2}: 1}, audit{duplicated: 3}},
		{"answer lost", map[delivery]int64{{1, 1}: 1, {2, 1}: 1, {3, 1}: 2, {3, 2}: 1}, audit{unconfirmed: 1, duplicated: 1}},
		{"empty", nil, audit{lost: 3}},
	}
	for _, tt := range tests {
		var a audit
		a.compare(acked, tt.stored)
		if a.lost != tt.want.lost || a.duplicated != tt.want.duplicated || a.unconfirmed != tt.want.unconfirmed {
			t.Errorf("%s: got %+v, want %+v", tt.name, a, tt.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		audit audit
		crash bool
		line  string
		bad   bool
	}{
		{audit{rows: 4}, false, "quickstart: sent=2 rows=4 rejected=0 lost=0 duplicated=0\n", false},
		{audit{rows: 3, rejected: 1}, false, "quickstart: sent=2 rows=3 rejected=1 lost=0 duplicated=0\n", false},
		{audit{rows: 3, lost: 1}, false, "quickstart: sent=2 rows=3 rejected=0 lost=1 duplicated=0\n", true},
		{audit{rows: 5, duplicated: 1}, true, "quickstart: sent=2 rows=5 rejected=0 lost=0 duplicated=1 unconfirmed=0\n", true},
		{audit{rows: 5, unconfirmed: 1}, true, "quickstart: sent=2 rows=5 rejected=0 lost=0 duplicated=0 unconfirmed=1\n", false},
		{audit{rows: 5, unconfirmed: 1}, false, "quickstart: sent=2 rows=5 rejected=0 lost=0 duplicated=0\n", true},
		{audit{rows: 4, wrong: 1}, false, "quickstart: sent=2 rows=4 rejected=0 lost=0 duplicated=0\n", true},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		err := tt.audit.verdict(&out, config{n: 2, crash: tt.crash})
		if out.String() != tt.line || (err != nil) != tt.bad {
			t.Errorf("got %+v: %q, %v, want out.String() == %v and (err != nil) == %v", tt.audit, out.String(), err, tt.line, tt.bad)
		}
	}
}

func TestDeliveryIDs(t *testing.T) {
	d := delivery{event: 42, attempt: 3}
	if got, ok := parseDelivery("run", d.id("run")); !ok || got != d {
		t.Errorf("parseDelivery(%q) = %v, %v", d.id("run"), got, ok)
	}
	for _, id := range []string{"", "run", "run-", "run-1", "run-1-x", "other-0000042-3"} {
		if got, ok := parseDelivery("run", id); ok {
			t.Errorf("parseDelivery(%q) = %v", id, got)
		}
	}
}

// A command that fits a line of the last screen is shown as it is. A longer one is in a file of the data directory.
func TestShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const query = `sqlite3 'demo.db' 'SELECT country, count(*), sum(total) FROM "in.c-shop.orders" GROUP BY 1'`
	if got, err := short(query, dir, "query.sh"); got != query || err != nil {
		t.Errorf("short(%q) = %q, %v, want the command", query, got, err)
	}
	long := query + strings.Repeat(" ", 20) + "| head"
	got, err := short(long, dir, "query.sh")
	if want := "sh " + shellQuote(filepath.Join(dir, "query.sh")); got != want || err != nil {
		t.Errorf("short(%q) = %q, %v, want %q", long, got, err, want)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "query.sh")); string(content) != long+"\n" || err != nil {
		t.Errorf("query.sh is %q, %v, want %q", content, err, long+"\n")
	}
}
