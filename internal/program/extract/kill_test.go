package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/mapping"
)

// TestMain is the program itself when a test starts it as a process of its own.
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

// growing is an API whose list can grow, and that tells when it has answered some requests.
type growing struct {
	mu      sync.Mutex
	records int
	left    int // requests until enough is closed
	enough  chan struct{}
}

func (g *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 {
		close(g.enough)
	}
	if id, ok := strings.CutPrefix(r.URL.Path, "/details/"); ok {
		fmt.Fprintf(w, `[{"of": %q}]`, id)
		return
	}
	since, _ := strconv.Atoi(r.URL.Query().Get("since"))
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	var list []string
	for id := range g.records {
		if id/3 >= since { // three records have one value
			list = append(list, fmt.Sprintf(`{"id": %d, "n": %d}`, id, id/3))
		}
	}
	from := min((page-1)*2, len(list))
	fmt.Fprintf(w, "[%s]", strings.Join(list[from:min(from+2, len(list))], ","))
}

// TestKilledProcess kills the program at random requests, again and again. The API grows when a run has ended. At last each record is in its table once,
// and each row of details.
func TestKilledProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	api := &growing{records: 10}
	server := httptest.NewServer(api)
	defer server.Close()
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	config := `{"api": {"baseUrl": "http://unused/", "pagination": {"method": "multiple", "scrollers": {"p": {"method": "pagenum"}}}}, "config": {"parallelJobs": 2, "jobs": [
		{"endpoint": "list", "scroller": "p", "parallelChildren": 2, "params": {"since": {"incremental": "start"}}, "incremental": {"path": "n", "type": "number", "initial": 0},
			"children": [{"endpoint": "details/{id}", "dataType": "details", "placeholders": {"id": "id"}}]}]}}`
	if err := os.WriteFile(path("config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-config", path("config.json"), "-base-url", server.URL, "-state", path("state.json"), "-data", path("data")}
	start := func(requests int) (kill bool, log string, err error) {
		api.mu.Lock()
		api.left, api.enough = requests, make(chan struct{})
		enough := api.enough
		api.mu.Unlock()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FOREBAY_TEST_EXTRACT="+strings.Join(args, "\n"))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err = <-ended:
			return false, out.String(), err
		case <-enough:
			err := cmd.Process.Kill()
			<-ended
			return true, out.String(), err
		}
	}
	kills := 0
	for range 12 {
		killed, log, err := start(1 + random.IntN(25))
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatalf("%v\n%s", err, log)
		}
		if killed {
			kills++
			continue
		}
		// Pages by number move when the list grows: records that come in the middle of a run may be missed, or be there twice.
		api.mu.Lock()
		api.records += random.IntN(5)
		api.mu.Unlock()
	}
	for range 2 { // the first goes on, the second asks for what came since
		if _, log, err := start(0); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
	}
	if kills == 0 {
		t.Error("nothing was killed")
	}
	var want []string
	for id := range api.records {
		want = append(want, fmt.Sprint(id))
	}
	for table, field := range map[string]string{"list": "id", "details": "of"} {
		var got []string
		for row, err := range dir.Tables(path("data/tables")).Rows("in.c-extract." + table) {
			if err != nil {
				t.Fatal(err)
			}
			var record map[string]any
			if err := json.Unmarshal([]byte(row[2]), &record); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(record[field]))
		}
		slices.SortFunc(got, func(a, b string) int {
			x, _ := strconv.Atoi(a)
			y, _ := strconv.Atoi(b)
			return x - y
		})
		if !slices.Equal(got, want) {
			t.Errorf("table %s after %d kills has %s, want %s", table, kills, got, want)
		}
	}
}

// TestLook runs check, preview and discover against the bundled API. The proposed columns must take the records.
func TestLook(t *testing.T) {
	t.Parallel()
	out, log, err := program(t, "check")
	if err != nil || !strings.Contains(out, "each job has answered") {
		t.Errorf("%v\n%s%s", err, out, log)
	}
	out, log, err = program(t, "preview", "-records", "2")
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
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
			t.Fatalf("%v in\n%s", err, out)
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
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestFilesGoOn lets the API fail in the middle of a run that writes files: the next one asks for the rest only.
func TestFilesGoOn(t *testing.T) {
	t.Parallel()
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		t.Fatalf("%v\n%s", err, log)
	}
	text, err := os.ReadFile(path("out/tables/u"))
	if err != nil || string(text) != "\"page\"\n\"1\"\n\"2\"\n\"3\"\n" || strings.Join(asked, " ") != "1 2 3 3 4" {
		t.Errorf("%v: table %s after %s", err, text, asked)
	}
}
