package extract

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/extractor"
)

func program(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	err = Run(t.Context(), args, &out, &log, Options{})
	return out.String(), log.String(), err
}

func TestToy(t *testing.T) {
	t.Parallel()
	out, log, err := program(t, "-debug")
	if err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, log)
	}
	for _, want := range []string{"table in.c-toy-shop.orders: 10 rows", "table in.c-toy-shop.items: 20 rows", "S-22", "table in.c-toy-shop.prices: 5 rows"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(log, "15 pages, 35 records") || !strings.Contains(log, "level=DEBUG msg=request") {
		t.Errorf("log:\n%s", log)
	}
	if strings.Contains(log+out, "toy-password") || strings.Contains(log+out, toyPassword) {
		t.Errorf("a secret is shown:\n%s%s", out, log)
	}
}

func TestToyFiles(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	state := filepath.Join(t.TempDir(), "state.json")
	if _, log, err := program(t, "-out", out, "-state", state); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, log)
	}
	for name, want := range map[string]string{
		"toy-shop.orders": `"customer_name","id","tags","total"
"Grace","1","orders_e783162441838235a2362db845e25134","9.5"
"Edsger","2","","19"
`,
		"toy-shop.orders.manifest":      `{"destination":"in.c-toy-shop.orders","incremental":false}`,
		"toy-shop.items":                "\"quantity\",\"sku\",\"parent_id\"\n\"1\",\"S-10\",\"1\"\n\"2\",\"S-11\",\"1\"\n",
		"toy-shop.orders_tags":          "\"data\",\"JSON_parentId\"\n\"web\",\"orders_",
		"toy-shop.orders_tags.manifest": `{"destination":"in.c-toy-shop.orders_tags","incremental":false}`,
	} {
		got, err := os.ReadFile(filepath.Join(out, "tables", name))
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("got %v: %s is\n%s\nwant\n%s", err, name, got, want)
		}
	}
	text, err := os.ReadFile(state)
	if err != nil || !strings.Contains(string(text), `"previousStart":1`) || !strings.Contains(string(text), `"customer"`) {
		t.Errorf("got %v, state %s, want the start before and the customer, no error", err, text)
	}
}

// TestResumeKeepsTables resumes after a crash with a data type that shares its name with another data type.
func TestResumeKeepsTables(t *testing.T) {
	t.Parallel()
	var healed atomic.Bool
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page := r.URL.Query().Get("page"); page == "2" && r.URL.Path == "/a-b" && !healed.Load() {
			http.Error(w, "down", http.StatusBadRequest)
		} else if page == "3" {
			fmt.Fprint(w, `[]`)
		} else {
			fmt.Fprintf(w, `[{"of": "%s", "page": %s}]`, r.URL.Path, page)
		}
	}))
	defer api.Close()
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	config := `{"parameters": {"api": {"baseUrl": "http://unused/", "pagination": {"method": "pagenum"}}, "config": {"jobs": [{"endpoint": "a_b"}, {"endpoint": "a-b"}]}}}`
	if err := os.WriteFile(path("config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-config", path("config.json"), "-base-url", api.URL, "-state", path("state.json"), "-data", path("data")}
	if _, _, err := program(t, args...); ExitStatus(err) != 1 {
		t.Fatalf("error %v", err)
	}
	healed.Store(true)
	if _, log, err := program(t, args...); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, log)
	}
	for table, want := range map[string]string{
		"in.c-extract.a-b": `{"of":"/a_b","page":1} {"of":"/a_b","page":2}`, "in.c-extract.a-b-2": `{"of":"/a-b","page":1} {"of":"/a-b","page":2}`,
	} {
		var records []string
		for row, err := range dir.Tables(path("data/tables")).Rows(table) {
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, row[2])
		}
		if got := strings.Join(records, " "); got != want {
			t.Errorf("table %s has %s, want %s", table, got, want)
		}
	}
}

// TestStateFolder notices before the first request that the state cannot be saved.
func TestStateFolder(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer api.Close()
	_, _, err := program(t, "-base-url", api.URL, "-state", filepath.Join(t.TempDir(), "missing", "state.json"))
	if ExitStatus(err) != 1 || !strings.Contains(fmt.Sprint(err), "state: open ") || asked.Load() > 0 {
		t.Errorf("error %v after %d requests", err, asked.Load())
	}
}

// TestResume lets the API fail in the middle. The next run resumes there, and every record is in the table once.
func TestResume(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	var mu sync.Mutex
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.RequestURI)
		mu.Unlock()
		page := r.URL.Query().Get("page")
		switch {
		case page == "3" && broken.Load():
			http.Error(w, "down", http.StatusBadRequest)
		case page == "4":
			fmt.Fprint(w, `[]`)
		default:
			fmt.Fprintf(w, `[{"page": %s, "n": 1}, {"page": %s, "n": 2}]`, page, page)
		}
	}))
	defer api.Close()
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	config := `{"parameters": {"api": {"baseUrl": "http://unused/", "pagination": {"method": "pagenum"}}, "config": {"jobs": [{"endpoint": "Ä/things"}]}}}`
	if err := os.WriteFile(path("config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-config", path("config.json"), "-base-url", api.URL, "-state", path("state.json"), "-data", path("data")}
	broken.Store(true)
	_, _, err := program(t, args...)
	if ExitStatus(err) != 1 || !strings.Contains(fmt.Sprint(err), "returned 400: down") {
		t.Fatalf("error %v", err)
	}
	broken.Store(false)
	out, log, err := program(t, args...)
	if err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, log)
	}
	mu.Lock()
	defer mu.Unlock()
	if got, want := strings.Join(asked, " "), "/%C3%84/things?page=1 /%C3%84/things?page=2 /%C3%84/things?page=3 /%C3%84/things?page=3 /%C3%84/things?page=4"; got != want {
		t.Errorf("requests %s, want %s", got, want)
	}
	var records []string
	for row, err := range dir.Tables(path("data/tables")).Rows("in.c-extract.things") {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, row[2])
	}
	want := `{"page":1,"n":1} {"page":1,"n":2} {"page":2,"n":1} {"page":2,"n":2} {"page":3,"n":1} {"page":3,"n":2}`
	if got := strings.Join(records, " "); got != want {
		t.Errorf("table has %s, want %s\n%s", got, want, out)
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(work, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	valid := write("valid.json", `{"api": {"baseUrl": "http://h/"}, "config": {"jobs": [{"endpoint": "a"}]}}`)
	for name, args := range map[string][]string{
		"unknown flag":       {"-nonsense"},
		"argument":           {"file"},
		"no configuration":   {"-config", filepath.Join(work, "none.json")},
		"bad configuration":  {"-config", write("bad.json", `{"api": {}}`)},
		"bad state":          {"-config", valid, "-state", write("state.json", `[]`)},
		"API says no":        {"-config", valid, "-base-url", down.URL},
		"private address":    {"-config", valid, "-base-url", down.URL, "-public-only"},
		"tables, API is off": {"-config", valid, "-base-url", down.URL, "-out", work},
	} {
		if _, _, err := program(t, args...); ExitStatus(err) != 1 {
			t.Errorf("%s: exit status %d (%v), want 1", name, ExitStatus(err), err)
		}
	}
	if _, _, err := program(t, "-data", valid); ExitStatus(err) != 2 {
		t.Errorf("a data directory that is a file: %v", err)
	}
	if ExitStatus(nil) != 0 || ExitStatus(errors.New("x")) != 2 {
		t.Error("exit status of no error, or of an unknown one")
	}
}

// TestHelp finds every command in the help, and no word of a configuration that does not exist.
func TestHelp(t *testing.T) {
	t.Parallel()
	_, help, err := program(t, "preview", "-h")
	if !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"\n  check ", "\n  preview ", "\n  discover ", "-records"} {
		if !strings.Contains(help, want) {
			t.Errorf("no %q in\n%s", want, help)
		}
	}
	for key, text := range map[string]string{
		"api.authentication": `{"api":{"baseUrl":"http://h/","authentication":{"type":%q}},"config":{"jobs":[{"endpoint":"e"}]}}`,
		"api.pagination":     `{"api":{"baseUrl":"http://h/","pagination":{"method":%q}},"config":{"jobs":[{"endpoint":"e"}]}}`,
		"config.jobs":        `{"api":{"baseUrl":"http://h/"},"config":{"jobs":[{"endpoint":"e","method":%q}]}}`,
	} {
		_, line, found := strings.Cut(Words, "\n  "+key+" ")
		line, _, _ = strings.Cut(line, "\n")
		if _, list, inner := strings.Cut(line, "("); inner {
			line, _, _ = strings.Cut(list, ")")
		}
		words := strings.Split(strings.TrimSpace(line), ", ")
		if !found || len(words) < 5 {
			t.Errorf("%s has the words %q", key, words)
		}
		for _, word := range append(words, "nonsense") {
			_, err := extractor.Parse(fmt.Appendf(nil, text, word))
			if unknown := err != nil && strings.Contains(err.Error(), strconv.Quote(word)); unknown != (word == "nonsense") {
				t.Errorf("%s: got %q: %v, want unknown == (word == \"nonsense\")", key, word, err)
			}
		}
	}
}

// TestToyAgain runs the bundled configuration twice, as the example of docs/extractor.md does. The second run asks only for prices that are new.
func TestToyAgain(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	args := []string{"-debug", "-data", filepath.Join(work, "shop"), "-state", filepath.Join(work, "shop.json")}
	for i, want := range [][]string{
		{"prices?since=0", "prices?since=4", "table in.c-toy-shop.prices: 5 rows", "table in.c-toy-shop.orders: 10 rows"},
		{"prices?since=5", "14 pages, 30 records", "table in.c-toy-shop.orders: 20 rows"},
	} {
		out, log, err := program(t, args...)
		if err != nil {
			t.Fatalf("got %v\n%s\nwant no error", err, log)
		}
		for _, text := range want {
			if !strings.Contains(log+out, text) {
				t.Errorf("run %d: no %q in\n%s%s", i+1, text, log, out)
			}
		}
		if again := strings.Contains(log, "prices?since=0"); again != (i == 0) {
			t.Errorf("run %d: all prices are asked for: %v", i+1, again)
		}
		prices := 0
		for _, err := range dir.Tables(filepath.Join(work, "shop/tables")).Rows("in.c-toy-shop.prices") {
			if err != nil {
				t.Fatal(err)
			}
			prices++
		}
		if prices != 5 {
			t.Errorf("run %d: %d prices are in the table", i+1, prices)
		}
	}
}

// listAPI gives a page of a list and a configuration for it.
func listAPI(t *testing.T, answer func(http.ResponseWriter, *http.Request), api, job string) (args []string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, fmt.Appendf(nil, `{"api": {"baseUrl": "http://h/"%s}, "config": {"jobs": [{"endpoint": "u"%s}]}}`, api, job), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-config", path, "-base-url", server.URL}
}

// TestStrict lets the server give fewer items a page than the configuration asks for.
func TestStrict(t *testing.T) {
	t.Parallel()
	args := listAPI(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"d": [1, 2], "total": 3, "offset": 0}`) },
		`, "pagination": {"method": "offset", "limit": 100}`, `, "dataField": "d"`)
	const doubt = `the job ended because a page has fewer items than the limit of 100, but "total" is 3 and 2 items were read`
	out, log, err := program(t, append([]string{"check"}, args...)...)
	if err != nil || strings.Contains(out, "the configuration works") || !strings.Contains(out, "u (u) ends now, because a page has fewer items than the limit of 100\n  look at this: "+doubt+"\n") {
		t.Errorf("check: %v\n%s%s", err, out, log)
	}
	if out, log, err = program(t, args...); err != nil || !strings.Contains(strings.ReplaceAll(log, `\"`, `"`), doubt) {
		t.Errorf("a run: %v\n%s%s", err, out, log)
	}
	for _, verb := range []string{"check", ""} {
		out, _, err := program(t, append(strings.Fields(verb+" -strict"), args...)...)
		if ExitStatus(err) != 1 || !strings.Contains(err.Error(), doubt) {
			t.Errorf("%s -strict: error %v, want %q\n%s", verb, err, doubt, out)
		}
	}
}

// TestCheckFindsMissingData has a dataField that is not in the response.
func TestCheckFindsMissingData(t *testing.T) {
	t.Parallel()
	args := listAPI(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items": [1]}`) }, "", `, "dataField": "itms"`)
	out, _, err := program(t, append([]string{"check"}, args...)...)
	if err != nil || strings.Contains(out, "the configuration works") || !strings.Contains(out, `look at this: no data at "itms" in the response`) {
		t.Errorf("got %v\n%s\nwant a hint at the path without data, and not that it works", err, out)
	}
}

// TestLooksKeepTokens refuses to look at an API with a refresh token if the token that replaces it would be lost.
func TestLooksKeepTokens(t *testing.T) {
	t.Parallel()
	var tokens atomic.Int64
	args := listAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			fmt.Fprintf(w, `{"access_token": "at", "refresh_token": "rt-%d"}`, tokens.Add(1))
			return
		}
		fmt.Fprint(w, `[1]`)
	}, `, "authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "c", "refreshToken": "rt-0"}`, "")
	for _, verb := range []string{"check", "preview", "discover"} {
		if _, _, err := program(t, append([]string{verb}, args...)...); ExitStatus(err) != 1 || !strings.Contains(fmt.Sprint(err), "-state") || tokens.Load() > 0 {
			t.Errorf("%s without -state: got the error %v after %d logins, want one that names -state before any login", verb, err, tokens.Load())
		}
	}
	if _, log, err := program(t, args...); err != nil || !strings.Contains(log, "level=WARN") || !strings.Contains(log, "-state") {
		t.Errorf("a run without -state: %v\n%s\nwant a warning", err, log)
	}
	state := filepath.Join(t.TempDir(), "state.json")
	if _, log, err := program(t, append([]string{"check", "-state", state}, args...)...); err != nil {
		t.Errorf("check with -state: %v\n%s", err, log)
	}
	if text, err := os.ReadFile(state); err != nil || !strings.Contains(string(text), "rt-2") {
		t.Errorf("%v: the state is %s, want the token rt-2", err, text)
	}
}

// TestOneRunAtATime starts a run while a second run uses the same state or folder.
func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	asked, proceed := make(chan bool), make(chan bool)
	args := listAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			asked <- true
			<-proceed
		}
		fmt.Fprint(w, `[1]`)
	}, "", "")
	out, state := t.TempDir(), filepath.Join(t.TempDir(), "state.json")
	first := make(chan error)
	go func() {
		_, _, err := program(t, append([]string{"-out", out, "-state", state}, args...)...)
		first <- err
	}()
	<-asked
	for _, files := range [][]string{{"-state", state}, {"check", "-state", state}, {"-out", out}, {"-out", out, "-state", state}} {
		if _, _, err := program(t, append(files, args...)...); ExitStatus(err) != 1 || !strings.Contains(fmt.Sprint(err), "another run uses the ") {
			t.Errorf("%q at the same time: got error %v, want status 1, because another run uses it", files, err)
		}
	}
	proceed <- true
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestDiscoveredColumns gives the output of discover to a run into an engine. Each bucket of the configuration has its own tables.
func TestDiscoveredColumns(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `[{"id": 1, "at": {"day": "2024-02-29"}, "of": %q}, {"id": 2, "of": null}]`, r.URL.Path)
	}))
	defer server.Close()
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", `{"parameters": {"api": {"baseUrl": "http://h/"}, "config": {"outputBucket": "shop", "jobs": [{"endpoint": "u"}]}, "iterations": [{}, {"outputBucket": "other"}]}}`)
	args := []string{"-config", path("config.json"), "-base-url", server.URL}
	out, _, err := program(t, append([]string{"discover"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	write("columns.json", out)
	if _, log, err := program(t, append(args, "-data", path("data"), "-columns", path("columns.json"))...); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, log)
	}
	tables := dir.Tables(path("data/tables"))
	for _, table := range []string{"in.c-shop.u", "in.c-other.u-2"} {
		columns, err := tables.Columns(table)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintln(columns)
		for row, err := range tables.Rows(table) {
			if err != nil {
				t.Fatal(err)
			}
			got += strings.Join(row, ",") + "\n"
		}
		for _, want := range []string{"id", "at_day", "of", "int64", "date", "\n1,2024-02-29,/u\n2,,\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("the table %s is\n%s\nwithout %q", table, got, want)
			}
		}
	}
	write("bad.json", `{"dataType": "u"}`)
	for name, args := range map[string][]string{
		"no file": {"-columns", path("none.json")}, "no columns": {"-columns", path("bad.json")}, "no engine": {"-columns", path("columns.json"), "-out", work}, "a look": {"check", "-columns", path("columns.json")},
	} {
		if _, _, err := program(t, args...); ExitStatus(err) != 1 || !strings.Contains(fmt.Sprint(err), "columns") && name != "no file" {
			t.Errorf("%s: got error %v, want status 1 and the columns", name, err)
		}
	}
}

// TestOneEngineAtATime starts a run while a second run uses the same data directory.
func TestOneEngineAtATime(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	asked, proceed := make(chan bool), make(chan bool)
	args := listAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			asked <- true
			<-proceed
		}
		fmt.Fprint(w, `[1]`)
	}, "", "")
	args = append(args, "-data", t.TempDir())
	first := make(chan error)
	go func() {
		_, _, err := program(t, args...)
		first <- err
	}()
	<-asked
	_, _, err := program(t, args...)
	if ExitStatus(err) == 0 || !strings.Contains(fmt.Sprint(err), "is in use by another engine") {
		t.Errorf("a second run: error %v", err)
	}
	proceed <- true
	if err := <-first; err != nil {
		t.Error(err)
	}
}
