package extract

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// TestMain is the program itself when a test starts it as a separate process.
func TestMain(m *testing.M) {
	if args := os.Getenv("FOREBAY_TEST_EXTRACT"); args != "" {
		err := Run(context.Background(), strings.Split(args, "\n"), os.Stdout, os.Stderr, Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(ExitStatus(err))
	}
	os.Exit(m.Run())
}

// growing is an API whose list can grow, and that signals when it has served some requests. It gives a new refresh token for each used token.
type growing struct {
	mu      sync.Mutex
	records int
	left    int // requests until enough is closed
	enough  chan struct{}
	// issued is the number of the newest refresh token, used the highest that was sent back, or whose access token was. By then it
	// must be saved. Earlier tokens no longer work.
	issued, used int
	refused      []string
}

func (g *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 {
		close(g.enough)
	}
	if r.URL.Path == "/token" {
		text := strings.TrimPrefix(r.FormValue("refresh_token"), "rt-")
		if n, err := strconv.Atoi(text); err != nil || n < g.used || n > g.issued {
			g.refused = append(g.refused, r.FormValue("refresh_token"))
			http.Error(w, "an old token", http.StatusBadRequest)
		} else {
			g.used = n
			g.issued++
			fmt.Fprintf(w, `{"access_token": "at-%d", "refresh_token": "rt-%[1]d"}`, g.issued)
		}
		return
	}
	if r.Header.Get("Authorization") != fmt.Sprintf("Bearer at-%d", g.issued) {
		g.refused = append(g.refused, r.RequestURI)
		http.Error(w, "who?", http.StatusForbidden)
		return
	}
	g.used = g.issued
	if id, ok := strings.CutPrefix(r.URL.Path, "/details/"); ok {
		fmt.Fprintf(w, `[{"of": %q}]`, id)
		return
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(r.URL.Query().Get(name))
		return n
	}
	var list []string
	if r.URL.Path == "/days" { // two records on each day
		for at := number("from"); at < number("to"); at += 43200 {
			list = append(list, fmt.Sprintf(`{"at": %d}`, at))
		}
		if number("page") > 1 {
			list = nil
		}
		fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
		return
	}
	for id := range g.records {
		if id/3 >= number("since") { // three records have one value
			list = append(list, fmt.Sprintf(`{"id": %d, "n": %d}`, id, id/3))
		}
	}
	from := min((number("page")-1)*2, len(list))
	fmt.Fprintf(w, "[%s]", strings.Join(list[from:min(from+2, len(list))], ","))
}

// TestKilledProcess kills the program at random requests, again and again, while its refresh tokens rotate. The API grows when a run has
// ended. At last each record is in its table once, each row of details, and each of a window. The program has used no token that does not work.
func TestKilledProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	t.Run("engine", func(t *testing.T) {
		t.Parallel()
		killProcesses(t, "-data", func(t *testing.T, dataDir string, _ map[string][]string) map[string][]string {
			got := make(map[string][]string)
			for table, field := range killedTables {
				for row, err := range dir.Tables(filepath.Join(dataDir, "tables")).Rows("in.c-extract." + table) {
					if err != nil {
						t.Fatal(err)
					}
					var record map[string]any
					if err := json.Unmarshal([]byte(row[2]), &record); err != nil {
						t.Fatal(err)
					}
					got[table] = append(got[table], fmt.Sprint(record[field]))
				}
			}
			return got
		})
	})
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		killProcesses(t, "-out", func(t *testing.T, out string, got map[string][]string) map[string][]string {
			for table, field := range killedTables {
				f, err := os.Open(filepath.Join(out, "tables", table))
				if errors.Is(err, os.ErrNotExist) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				rows, err := csv.NewReader(f).ReadAll()
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
				for _, row := range rows[1:] {
					got[table] = append(got[table], row[slices.Index(rows[0], field)])
				}
			}
			return got
		})
	})
}

// killedTables are the tables of the runs that are killed, with the field that makes a record unique.
var killedTables = map[string]string{"list": "id", "details": "of", "days": "at"}

// killProcesses kills runs whose records go where flag says. collect is called when a run has ended, with its previous result.
func killProcesses(t *testing.T, flag string, collect func(t *testing.T, folder string, got map[string][]string) map[string][]string) {
	random := seedtest.Rand(t)
	api := &growing{records: 10}
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	config := `{"api": {"baseUrl": "http://unused/", "pagination": {"method": "multiple", "scrollers": {"p": {"method": "pagenum"}}},
		"authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "me", "refreshToken": "rt-0"}}, "config": {"parallelJobs": 2, "jobs": [
		{"endpoint": "list", "scroller": "p", "parallelChildren": 2, "params": {"since": {"incremental": "start"}}, "incremental": {"path": "n", "type": "number", "initial": 0},
			"children": [{"endpoint": "details/{id}", "dataType": "details", "placeholders": {"id": "id"}}]},
		{"endpoint": "days", "scroller": "p", "params": {"from": {"window": "from"}, "to": {"window": "to"}}, "windows": {"from": "1970-01-02", "to": "1970-01-06"}}]}}`
	if err := os.WriteFile(path("config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(requests int) (killed bool, err error) {
		// There is a server for each process, so that no request of a killed one arrives while the next is at work.
		server := httptest.NewServer(api)
		defer server.Close()
		args := []string{"-config", path("config.json"), "-base-url", server.URL, "-state", path("state.json"), flag, path("data")}
		api.mu.Lock()
		api.left, api.enough = requests, make(chan struct{})
		enough := api.enough
		api.mu.Unlock()
		p := proctest.Run(t, proctest.Self("FOREBAY_TEST_EXTRACT="+strings.Join(args, "\n")))
		select {
		case <-p.Gone():
			return false, p.Err()
		case <-enough:
			p.Kill()
			return true, nil
		}
	}
	// done reports whether the last run has saved its end. A run that was killed may have come so far.
	done := func() bool {
		text, err := os.ReadFile(path("state.json"))
		if errors.Is(err, os.ErrNotExist) {
			return false
		}
		var state struct{ Checkpoint json.RawMessage }
		if err := errors.Join(err, json.Unmarshal(text, &state)); err != nil {
			t.Fatal(err)
		}
		return state.Checkpoint == nil
	}
	got := make(map[string][]string)
	kills, most := 0, 30 // the first run has so many requests
	for range 12 {
		killed, err := start(1 + random.IntN(most))
		if err != nil {
			t.Fatal(err)
		}
		if killed {
			kills++
			if !done() {
				continue
			}
		}
		got = collect(t, path("data"), got)
		// Pages by number move when the list grows. Records that are added in the middle of a run may be missed, or be there twice.
		api.mu.Lock()
		api.records += 1 + random.IntN(5)
		api.mu.Unlock()
		most = 4 // later runs have at least a token, two pages and the details of a record
	}
	for range 2 { // the first resumes, the second asks for newer records
		if _, err := start(0); err != nil {
			t.Fatal(err)
		}
		got = collect(t, path("data"), got)
	}
	if kills < 3 {
		seedtest.Missed(t, "only %d kills", kills)
	}
	want := make(map[string][]string)
	for id := range api.records {
		want["list"] = append(want["list"], fmt.Sprint(id))
	}
	want["details"] = want["list"]
	for at := 86400; at < 5*86400; at += 43200 {
		want["days"] = append(want["days"], fmt.Sprint(at))
	}
	for table := range killedTables {
		slices.SortFunc(got[table], func(a, b string) int {
			x, _ := strconv.Atoi(a)
			y, _ := strconv.Atoi(b)
			return x - y
		})
		if !slices.Equal(got[table], want[table]) {
			t.Errorf("table %s after %d kills has %s, want %s", table, kills, got[table], want[table])
		}
	}
	if len(api.refused) > 0 {
		t.Errorf("refused: %s", api.refused)
	}
}

// TestLook runs check, preview and discover against the bundled API. The proposed columns must take the records.
func TestLook(t *testing.T) {
	t.Parallel()
	out, log, err := program(t, "check")
	if err != nil || !strings.Contains(out, "each job has a response") {
		t.Errorf("got %v\n%s%s\nwant no error and strings.Contains(out, \"each job has a response\")", err, out, log)
	}
	out, log, err = program(t, "preview", "-records", "2")
	if err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, log)
	}
	for _, want := range []string{"table orders (orders): 2 rows", "customer.name  id  tags     total", "table   items (orders/{id}/items): 2 rows", "S-10"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, err = program(t, "discover")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]proposal)
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var p proposal
		if err := d.Decode(&p); err != nil {
			t.Fatalf("got %v, want JSON in\n%s", err, out)
		}
		found[p.DataType] = p
	}
	orders := found["orders"]
	if orders.Records != 10 || len(orders.Columns) != 4 || orders.Columns[3].DataType != "float64" || len(found["items"].Columns) != 3 {
		t.Errorf("proposals\n%s", out)
	}
	m, err := mapping.Compile(orders.Columns, mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rec mapping.Record
	rec.Body, rec.Format = []byte(`{"id": 1, "customer": {"name": "Ada"}, "total": 9.5, "tags": ["web"]}`), mapping.FormatJSON
	row, err := m.AppendRow(nil, &rec)
	if want := `"Ada","1","[""web""]","9.5"`; err != nil || strings.TrimSpace(string(row)) != want {
		t.Errorf("row %s: %v, want %s", row, err, want)
	}
	for _, args := range [][]string{{"check", "-records", "1"}, {"-records", "1"}, {"look"}} {
		if _, _, err := program(t, args...); ExitStatus(err) != 1 {
			t.Errorf("got %v: %v, want ExitStatus(err) == 1", args, err)
		}
	}
}

// TestFilesGoOn lets the API fail in the middle of a run that writes files. The next one asks for the rest only.
func TestFilesGoOn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Query().Get("page"))
		switch page := r.URL.Query().Get("page"); {
		case page == "3" && len(asked) == 3:
			http.Error(w, "down", http.StatusBadRequest)
		case page == "4":
			fmt.Fprint(w, `[]`)
		default:
			fmt.Fprintf(w, `[{"page": %s}]`, page)
		}
	}))
	defer api.Close()
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	if err := os.WriteFile(path("config.json"), []byte(`{"api": {"baseUrl": "http://unused/", "pagination": {"method": "pagenum"}}, "config": {"jobs": [{"endpoint": "u"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-config", path("config.json"), "-base-url", api.URL, "-state", path("state.json"), "-out", path("out")}
	if _, _, err := program(t, args...); ExitStatus(err) != 1 {
		t.Fatalf("error %v", err)
	}
	if _, log, err := program(t, args...); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, log)
	}
	text, err := os.ReadFile(path("out/tables/u"))
	mu.Lock()
	defer mu.Unlock()
	if err != nil || string(text) != "\"page\"\n\"1\"\n\"2\"\n\"3\"\n" || strings.Join(asked, " ") != "1 2 3 3 4" {
		t.Errorf("got %v, table %s after %s, want pages 1 to 3 after 1 2 3 3 4, no error", err, text, asked)
	}
}

// TestLookKeepsTokens runs the commands that store nothing against a server that takes each refresh token once. The state file has the newest,
// and the position as it was.
func TestLookKeepsTokens(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/token" {
			asked = append(asked, r.RequestURI)
			fmt.Fprint(w, `[{"n": 7}]`)
			return
		}
		asked = append(asked, r.FormValue("refresh_token"))
		fmt.Fprintf(w, `{"access_token": "at", "refresh_token": "rt-%d"}`, len(asked))
	}))
	defer api.Close()
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	config := `{"api": {"baseUrl": "http://unused/", "authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "me", "refreshToken": "rt-0"}},
		"config": {"jobs": [{"endpoint": "u", "params": {"since": {"incremental": "start"}}, "incremental": {"path": "n", "type": "number", "initial": 1}}]}}`
	if err := os.WriteFile(path("config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check"}, {"preview"}, {"-out", path("out")}, {"discover"}, {"check"}} {
		if _, log, err := program(t, append(args, "-config", path("config.json"), "-base-url", api.URL, "-state", path("state.json"))...); err != nil {
			t.Fatalf("got %s: %v\n%s\nwant no error", args, err, log)
		}
	}
	want := []string{"rt-0", "/u?since=1", "rt-1", "/u?since=1", "rt-3", "/u?since=1", "rt-5", "/u?since=7", "rt-7", "/u?since=7"}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(asked, want) {
		t.Errorf("requests %q, want %q", asked, want)
	}
}
