package extractor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// readTables returns the files of a folder of tables by name.
func readTables(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

// A tablesRun is a program that keeps its state and its spool on disk, and may be killed at a checkpoint.
type tablesRun struct {
	dir, spool string
	state      []byte
	calls      int
	killAt     int
	after      bool
	emits      bool // calls of Emit count too
}

func (tr *tablesRun) run(t *testing.T, s *store, cfg *extractor.Config) error {
	t.Helper()
	var state extractor.State
	if tr.state != nil {
		if err := json.Unmarshal(tr.state, &state); err != nil {
			t.Fatal(err)
		}
	}
	save := func(s extractor.State) (err error) {
		tr.state, err = json.Marshal(s)
		return err
	}
	state, err := extractor.RunTables(t.Context(), cfg, state, tr.dir, extractor.Options{
		Transport: s, Spool: tr.spool,
		Emit: func(context.Context, *extractor.Page) error {
			if !tr.emits {
				return nil
			}
			if tr.calls++; tr.calls == tr.killAt {
				return errKilled
			}
			return nil
		},
		Checkpoint: func(_ context.Context, s extractor.State) error {
			tr.calls++
			if tr.calls == tr.killAt && !tr.after {
				return errKilled
			}
			if err := save(s); err != nil {
				return err
			}
			if tr.calls == tr.killAt {
				return errKilled
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	return save(state)
}

// TestTablesGoOn kills runs at each of their effects. The next run writes the same tables as one that was not killed, asks only for
// missing pages, and the run after it has the new records.
func TestTablesGoOn(t *testing.T) {
	t.Parallel()
	const rotating = `"authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "c", "refreshToken": "rt-0"}, `
	inOrder := strings.Replace(positions, `"parallelChildren": 3,`, "", 1)
	for name, test := range map[string]struct {
		config    string
		tokenUses int
		emits     bool
	}{
		"in order":        {config(byPages, inOrder), 0, false},
		"parallel":        {config(byPages, `"parallelJobs": 3, `+positions), 0, true},
		"rotating tokens": {config(rotating+byPages, inOrder), 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := extractor.Parse([]byte(test.config))
			checkError(t, err, "")
			goOn(t, cfg, test.tokenUses, test.emits)
		})
	}
}

func goOn(t *testing.T, cfg *extractor.Config, tokenUses int, emits bool) {
	data := func() *store { return &store{records: []int{3, 1, 25, 25, 7}, tokenUses: tokenUses} }
	whole := &tablesRun{dir: t.TempDir()}
	all := data()
	checkError(t, whole.run(t, all, cfg), "")
	want := readTables(t, whole.dir)
	if len(want) != 8 {
		t.Fatalf("tables %v", want)
	}
	kills := 0
	step := 1
	if testing.Short() && emits {
		step = 2
	}
	for killAt := 1; ; killAt += step {
		killed := false
		for _, after := range []bool{false, true} {
			s := data()
			tr := &tablesRun{dir: t.TempDir(), spool: filepath.Join(t.TempDir(), "pages"), killAt: killAt, after: after, emits: emits}
			if err := tr.run(t, s, cfg); err != nil {
				killed = true
				kills++
				if !errors.Is(err, errKilled) || len(readTables(t, tr.dir)) > 0 {
					t.Fatalf("error %v, tables %v", err, readTables(t, tr.dir))
				}
				// What a killed process had not synced may be there or not.
				if f, err := os.OpenFile(tr.spool, os.O_APPEND|os.O_WRONLY, 0); err == nil {
					_, err = f.WriteString("\x05torn")
					checkError(t, errors.Join(err, f.Close()), "")
				}
				before := len(s.asked)
				if emits { // again, a little later
					tr.killAt = tr.calls + 2 + killAt%5
				}
				err := tr.run(t, s, cfg)
				if errors.Is(err, errKilled) {
					err = tr.run(t, s, cfg)
				}
				checkError(t, err, "")
				if after && !emits && len(s.asked) != len(all.asked) {
					t.Errorf("killed after checkpoint %d: %d and %d requests, want %d: %s", killAt, before, len(s.asked)-before, len(all.asked), s.asked)
				}
			}
			got := readTables(t, tr.dir)
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("killed at checkpoint %d (after it: %v): %s is\n%swant\n%s", killAt, after, name, got[name], want[name])
				}
			}
			tr.killAt = 0
			s.records = append(s.records, 25, 45)
			checkError(t, tr.run(t, s, cfg), "")
			if text := readTables(t, tr.dir)["inc"]; strings.Count(text, "\n") != 3 {
				t.Errorf("killed at checkpoint %d (after it: %v): the next run has\n%s", killAt, after, text)
			}
		}
		if !killed {
			break
		}
	}
	if kills < 20 {
		t.Errorf("only %d kills", kills)
	}
}

// TestOneStateForTwoReceivers gives the state of a failed run to a run whose receiver does not have its pages. It begins from the start.
func TestOneStateForTwoReceivers(t *testing.T) {
	t.Parallel()
	cfg, err := extractor.Parse([]byte(config(byPages, `"jobs": [{"endpoint": "plain", "scroller": "p"}]`)))
	checkError(t, err, "")
	records := []int{1, 2, 3, 4, 5, 6, 7}
	// pages runs with another receiver, and returns how many pages that has got.
	pages := func(state extractor.State, failAt int) (extractor.State, int) {
		n := 0
		state, err := extractor.Run(t.Context(), cfg, state, extractor.Options{Transport: &store{records: records}, Emit: func(context.Context, *extractor.Page) error {
			if n++; n == failAt {
				return errKilled
			}
			return nil
		}})
		if failAt == 0 || err == nil {
			checkError(t, err, "")
		}
		return state, n
	}
	for _, spool := range []string{filepath.Join(t.TempDir(), "pages"), ""} {
		for name, between := range map[string]func(s extractor.State) extractor.State{
			"pages, tables": func(extractor.State) extractor.State { s, _ := pages(extractor.State{}, 3); return s },
			"tables, pages": func(s extractor.State) extractor.State {
				if _, n := pages(s, 0); n != 5 { // the last is empty
					t.Errorf("the receiver of pages has got %d", n)
				}
				return extractor.State{}
			},
			"tables, pages, tables": func(s extractor.State) extractor.State { s, _ = pages(s, 4); return s },
		} {
			tr := &tablesRun{dir: t.TempDir(), spool: spool, killAt: 3}
			if err := tr.run(t, &store{records: records}, cfg); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			var state extractor.State
			checkError(t, json.Unmarshal(tr.state, &state), "")
			tr.state, err = json.Marshal(between(state))
			checkError(t, err, "")
			tr.killAt = 0
			checkError(t, tr.run(t, &store{records: records}, cfg), "")
			if text := readTables(t, tr.dir)["plain"]; strings.Count(text, "\n") != 1+len(records) {
				t.Errorf("%s, spool %q: the table is\n%s", name, spool, text)
			}
		}
	}
}

// TestTablesWithoutTheirSpool lose the spool, or get another configuration, after the position of a job has moved. Nothing is skipped.
func TestTablesWithoutTheirSpool(t *testing.T) {
	t.Parallel()
	const jobs = `"jobs": [{"endpoint": "inc", "incremental": {"path": "at", "initial": "2024-01-01"}, "params": {"since": {"incremental": "start"}}}, {"endpoint": "plain"}]`
	cfg, err := extractor.Parse([]byte(config("", jobs)))
	checkError(t, err, "")
	other, err := extractor.Parse([]byte(config("", `"x": 1, `+jobs)))
	checkError(t, err, "")
	for name, change := range map[string]func(tr *tablesRun) *extractor.Config{
		"lost": func(tr *tablesRun) *extractor.Config { checkError(t, os.Remove(tr.spool), ""); return cfg },
		"cut":  func(tr *tablesRun) *extractor.Config { checkError(t, os.Truncate(tr.spool, 9), ""); return cfg },
		"with a large length": func(tr *tablesRun) *extractor.Config {
			f, err := os.OpenFile(tr.spool, os.O_WRONLY, 0)
			checkError(t, err, "")
			_, err = f.WriteString("\xff\xff\xff\xff\xff\xff\xff\x7f")
			checkError(t, errors.Join(err, f.Close()), "")
			return cfg
		},
		"of another run": func(tr *tablesRun) *extractor.Config {
			another := &tablesRun{dir: t.TempDir(), spool: tr.spool} // with pages of the same lengths
			checkError(t, another.run(t, &store{records: []int{4, 5}}, cfg), "")
			return cfg
		},
		"another configuration": func(*tablesRun) *extractor.Config { return other },
		"not used any more":     func(tr *tablesRun) *extractor.Config { tr.spool = ""; return cfg },
	} {
		tr := &tablesRun{dir: t.TempDir(), spool: filepath.Join(t.TempDir(), "pages"), killAt: 3}
		checkError(t, tr.run(t, &store{records: []int{1, 2}}, cfg), "killed")
		tr.killAt = 0
		checkError(t, tr.run(t, &store{records: []int{1, 2}}, change(tr)), "")
		if text := readTables(t, tr.dir)["inc"]; strings.Count(text, "\n") != 3 || !strings.Contains(text, "00:00:01Z") {
			t.Errorf("%s: the table is\n%s", name, text)
		}
	}
}

// TestTokensOfFailedRuns fails when the tables are written. The state that is returned has the new token.
func TestTokensOfFailedRuns(t *testing.T) {
	t.Parallel()
	cfg, err := extractor.Parse([]byte(config(`"authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "c", "refreshToken": "rt-0"}`, `"jobs": [{"endpoint": "plain"}]`)))
	checkError(t, err, "")
	file := filepath.Join(t.TempDir(), "file")
	checkError(t, os.WriteFile(file, nil, 0o600), "")
	for _, spool := range []string{"", filepath.Join(t.TempDir(), "pages")} {
		state, err := extractor.RunTables(t.Context(), cfg, extractor.State{}, file, extractor.Options{
			Transport: &store{records: []int{1}, tokenUses: 9}, Spool: spool,
			Checkpoint: func(_ context.Context, s extractor.State) error {
				if len(s.Tokens) > 0 && spool != "" {
					return errKilled
				}
				return nil
			},
		})
		if err == nil || len(state.Tokens) != 1 {
			t.Errorf("spool %q: error %v, tokens %v", spool, err, state.Tokens)
		}
	}
}

// TestPreview asks for a few records of each job, and asserts its requests.
func TestPreview(t *testing.T) {
	t.Parallel()
	a := newRoutedAPI(t, map[string]string{
		"/orders?page=1": `[{"id": 1, "c": {"name": "A"}, "tags": ["x"], "t": "2024-01-01T00:00:00Z"}]`, "/orders?page=2": `[{"id": 2, "n": 1.5, "t": null}, {"id": 3}, {"id": 4}]`,
		"/items/1?page=1": `[]`, "/items/2?page=1": `[{"sku": "s"}]`, "/items/2?page=2": `[]`, "/bad?page=1": "400 no", "/last?page=1": `[{"u": "123e4567-e89b-12d3-a456-426614174000", "d": "2024-02-29", "big": 18446744073709551616, "mixed": 1}, {"mixed": {"a": 1}, "d": "2024-03-01", "n.n": 1}]`,
	})
	cfg, err := extractor.ParseAt([]byte(config(`"pagination": {"method": "pagenum"}`, `"jobs": [{"endpoint": "orders", "children": [{"endpoint": "items/{id}", "dataType": "items", "placeholders": {"id": "id"}}]}, {"endpoint": "bad"}, {"endpoint": "last"}]`)), a.server.URL)
	checkError(t, err, "")
	samples, err := extractor.Preview(t.Context(), cfg, extractor.State{}, 2, extractor.Options{
		Emit:       func(context.Context, *extractor.Page) error { return errors.New("a page is emitted") },
		Checkpoint: func(context.Context, extractor.State) error { return errors.New("the state is saved") },
	})
	checkError(t, err, "")
	var got []string
	for _, s := range samples {
		got = append(got, fmt.Sprint(s.Depth, " ", s.DataType, " ", s.Columns(), " ", s.Rows(), " ", s.Err != nil))
	}
	// The second item of the parent has the records of the child that are missing.
	same(t, "requests", a.asked(), []string{
		"GET /orders?page=1", "GET /items/1?page=1", "GET /orders?page=2", "GET /items/2?page=1", "GET /items/2?page=2", "GET /bad?page=1", "GET /last?page=1",
	})
	same(t, "samples", got, []string{
		`0 orders [id c.name tags t n] [[1 A ["x"] 2024-01-01T00:00:00Z ] [2    1.5]] false`, `1 items [sku parent_id] [[s 2]] false`, `0 bad [] [] true`,
		`0 last [u d big mixed] [[123e4567-e89b-12d3-a456-426614174000 2024-02-29 18446744073709551616 1] [ 2024-03-01  {"a":1}]] false`,
	})
	var columns []string
	for _, table := range extractor.Discover(samples) {
		for _, c := range table.Columns {
			columns = append(columns, fmt.Sprint(table.DataType, " ", c.Name, " ", c.Path, " ", c.Type, " ", c.Nullable))
		}
	}
	same(t, "columns", columns, []string{
		"orders id id int64 false", "orders c_name c.name string true", "orders tags tags json true", "orders t t timestamp true", "orders n n float64 true",
		"items sku sku string false", "items parent_id parent_id string false",
		"last u u uuid true", "last d d date false", "last big big string true", "last mixed mixed json false",
	})
	checkError(t, extractor.Check(t.Context(), cfg, extractor.State{}, extractor.Options{}), "/bad?page=1 returned 400: no")
}

// TestPreviewIsBounded has a child without records and many parents, and many windows without any.
func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `{"d": [`+strings.Repeat(`{"id": 1},`, 99)+`{"id": 2}]}`, `[]`, `[]`, `[]`, `[]`, `[]`, `[]`, `nonsense`)
	parsed, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u", "children": [{"endpoint": "c/{id}", "dataType": "c", "placeholders": {"id": "id"}}]}, {"endpoint": "w", "windows": {"from": "2020-01-01"}}]`)))
	checkError(t, err, "")
	transport := a.transport()
	defer transport.CloseIdleConnections()
	_, err = extractor.Preview(t.Context(), parsed, extractor.State{}, 3, extractor.Options{Transport: transport})
	checkError(t, err, "")
	same(t, "requests", a.asked(), slices.Concat([]string{"GET /u"}, slices.Repeat([]string{"GET /c/1"}, 3), slices.Repeat([]string{"GET /w"}, 3)))
}

// TestCheckLogsIn reports a login that fails once, and saves refresh tokens.
func TestCheckLogsIn(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `{"access_token": "at", "refresh_token": "rt-1"}`, `[]`, `[]`)
	cfg, err := extractor.ParseAt([]byte(config(`"authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "c", "refreshToken": "rt-0"}`, `"jobs": [{"endpoint": "u"}, {"endpoint": "v"}]`)), a.server.URL)
	checkError(t, err, "")
	var saved []extractor.State
	given := extractor.State{Time: extractor.StateTime{PreviousStart: 7}}
	checkError(t, extractor.Check(t.Context(), cfg, given, extractor.Options{Checkpoint: func(_ context.Context, s extractor.State) error {
		saved = append(saved, s)
		return nil
	}}), "")
	same(t, "requests", a.asked(), []string{"POST /token application/x-www-form-urlencoded grant_type=refresh_token&refresh_token=rt-0&client_id=c", "GET /u", "GET /v"})
	if len(saved) != 1 || len(saved[0].Tokens) != 1 || saved[0].Time.PreviousStart != 7 || saved[0].Checkpoint != nil {
		t.Errorf("saved %+v", saved)
	}
	refused, err := extractor.ParseAt([]byte(config(`"authentication": {"type": "login", "loginRequest": {"endpoint": "in"}}`, `"jobs": [{"endpoint": "u"}, {"endpoint": "v"}]`)), newAPI(t, "403 no", "403 no").server.URL)
	checkError(t, err, "")
	err = extractor.Check(t.Context(), refused, extractor.State{}, extractor.Options{})
	checkError(t, err, "login failed")
	if n := strings.Count(fmt.Sprint(err), "login failed"); n != 1 || extractor.ExitStatus(err) != 1 {
		t.Errorf("got it %d times in %v, exit status %d, want once, 1", n, err, extractor.ExitStatus(err))
	}
}
