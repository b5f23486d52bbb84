package platform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

// modelVersion is one version of a configuration as the test understands it.
type modelVersion struct {
	name, content string
	disabled      bool
	order         []string
	rows          map[string]string // id to content
}

func (v modelVersion) clone() modelVersion {
	v.rows = maps.Clone(v.rows)
	v.order = slices.Clone(v.order)
	return v
}

// model is a configuration with its whole history.
type model struct {
	id       string
	history  []modelVersion // version n is at n-1
	state    string
	rowState map[string]string
}

func (m *model) latest() modelVersion { return m.history[len(m.history)-1].clone() }

// Random edits, rollbacks and copies give the history that a plain list of whole versions would have.
func TestHistoryAgainstModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	ctx := t.Context()
	steps := 400
	if testing.Short() {
		steps = 100
	}
	var models []*model
	create := func() {
		c := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{Name: "new"}))(t)
		models = append(models, &model{
			id: c.ID, history: []modelVersion{{name: "new", content: "{}", rows: map[string]string{}}}, state: "{}", rowState: map[string]string{},
		})
	}
	create()
	anyRow := func(v modelVersion) string {
		ids := slices.Sorted(maps.Keys(v.rows))
		if len(ids) == 0 {
			return ""
		}
		return ids[rng.IntN(len(ids))]
	}
	for i := range steps {
		m := models[rng.IntN(len(models))]
		next := m.latest()
		switch rng.IntN(11) {
		case 0:
			next.name = fmt.Sprint("name ", i)
			must(w.UpdateConfiguration(ctx, component, m.id, storageapi.ConfigurationUpdate{Name: &next.name}))(t)
		case 1:
			next.content = fmt.Sprintf(`{"step":%d}`, i)
			must(w.UpdateConfiguration(ctx, component, m.id, storageapi.ConfigurationUpdate{Configuration: raw(next.content)}))(t)
		case 2:
			next.disabled = !next.disabled
			must(w.UpdateConfiguration(ctx, component, m.id, storageapi.ConfigurationUpdate{IsDisabled: &next.disabled}))(t)
		case 3:
			// The id of a row that was deleted may come again.
			id := strconv.Itoa(rng.IntN(6))
			if _, taken := next.rows[id]; taken {
				continue
			}
			next.rows[id] = fmt.Sprintf(`{"row":%d}`, i)
			must(w.CreateRow(ctx, component, m.id, storageapi.RowCreate{RowID: id, Configuration: raw(next.rows[id])}))(t)
			m.rowState[id] = "{}"
			if len(next.order) > 0 {
				next.order = append(next.order, id)
			}
		case 4, 5:
			id := anyRow(next)
			if id == "" {
				continue
			}
			next.rows[id] = fmt.Sprintf(`{"row":%d}`, i)
			must(w.UpdateRow(ctx, component, m.id, id, storageapi.RowUpdate{Configuration: raw(next.rows[id])}))(t)
		case 6:
			id := anyRow(next)
			if id == "" {
				continue
			}
			delete(next.rows, id)
			next.order = slices.DeleteFunc(next.order, func(other string) bool { return other == id })
			check(t, w.DeleteRow(ctx, component, m.id, id))
		case 7:
			ids := slices.Sorted(maps.Keys(next.rows))
			if len(ids) == 0 {
				continue
			}
			rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			next.order = ids
			must(w.UpdateConfiguration(ctx, component, m.id, storageapi.ConfigurationUpdate{RowsSortOrder: ids}))(t)
		case 8:
			v := 1 + rng.IntN(len(m.history))
			if n := must(w.RollbackConfiguration(ctx, component, m.id, v, ""))(t); n != len(m.history)+1 {
				t.Fatalf("rollback gave version %d, want %d", n, len(m.history)+1)
			}
			next = m.history[v-1].clone()
		case 9:
			v := 1 + rng.IntN(len(m.history))
			copied := m.history[v-1].clone()
			copied.name = fmt.Sprint("copy ", i)
			id := must(w.CopyConfiguration(ctx, component, m.id, v, storageapi.ConfigurationCopy{Name: copied.name}))(t)
			models = append(models, &model{id: id, history: []modelVersion{copied}, state: "{}", rowState: map[string]string{}})
			continue
		case 10:
			state := fmt.Sprintf(`{"state":%d}`, i)
			if id := anyRow(next); id != "" && rng.IntN(2) == 0 {
				must(w.UpdateRowState(ctx, component, m.id, id, raw(state)))(t)
				m.rowState[id] = state
			} else {
				must(w.UpdateConfigurationState(ctx, component, m.id, raw(state)))(t)
				m.state = state
			}
			continue
		}
		m.history = append(m.history, next)
	}
	w.restart()
	for _, m := range models {
		m.compare(t, w)
	}
}

func (m *model) compare(t *testing.T, w *world) {
	t.Helper()
	c := must(w.Configuration(t.Context(), component, m.id))(t)
	if c.Version != len(m.history) || string(c.State) != m.state {
		t.Errorf("configuration %s: version %d with state %s, want %d with %s", m.id, c.Version, c.State, len(m.history), m.state)
	}
	m.compareVersion(t, len(m.history), c.Name, string(c.Configuration), c.IsDisabled, c.RowsSortOrder, c.Rows)
	for _, r := range c.Rows {
		want := m.rowState[r.ID]
		if want == "" {
			want = "{}"
		}
		if string(r.State) != want {
			t.Errorf("configuration %s, row %s: state %s, want %s", m.id, r.ID, r.State, want)
		}
	}
	for n := range m.history {
		v := must(w.ConfigurationVersion(t.Context(), component, m.id, n+1))(t)
		m.compareVersion(t, n+1, v.Name, string(v.Configuration), v.IsDisabled, v.RowsSortOrder, v.Rows)
	}
}

func (m *model) compareVersion(t *testing.T, n int, name, content string, disabled bool, order []string, rows []storageapi.ConfigurationRow) {
	t.Helper()
	want := m.history[n-1]
	got := modelVersion{name, content, disabled, order, make(map[string]string)}
	var ids []string
	for _, r := range rows {
		got.rows[r.ID] = string(r.Configuration)
		ids = append(ids, r.ID)
	}
	wantIDs := want.order
	if len(wantIDs) == 0 {
		wantIDs = slices.Sorted(maps.Keys(want.rows))
	}
	if got.name != want.name || got.content != want.content || got.disabled != want.disabled || !maps.Equal(got.rows, want.rows) ||
		!slices.Equal(got.order, want.order) || !slices.Equal(ids, wantIDs) {
		t.Errorf("configuration %s, version %d: %+v with rows %v, want %+v with rows %v", m.id, n, got, ids, want, wantIDs)
	}
}

// Changes of one configuration at the same time come one after the other: no version is lost or given twice.
func TestConcurrentChanges(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{Name: "c"}))(t)
	const workers, each = 8, 10
	var mu sync.Mutex
	seen := make(map[int]string)
	ids := make(map[string]bool)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range each {
				content := fmt.Sprintf(`{"worker":%d,"i":%d}`, worker, i)
				out, err := w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{Configuration: raw(content)})
				if err != nil {
					t.Error(err)
					return
				}
				row, err := w.CreateRow(ctx, component, c.ID, storageapi.RowCreate{})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[out.Version] != "" || ids[row.ID] {
					t.Errorf("version %d or row %s was given twice", out.Version, row.ID)
				}
				seen[out.Version], ids[row.ID] = content, true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	last := must(w.Configuration(ctx, component, c.ID))(t)
	if last.Version != 1+2*workers*each || len(last.Rows) != workers*each {
		t.Errorf("version %d with %d rows, want %d with %d", last.Version, len(last.Rows), 1+2*workers*each, workers*each)
	}
	for version, content := range seen {
		v := must(w.ConfigurationVersion(ctx, component, c.ID, version))(t)
		if string(v.Configuration) != content {
			t.Errorf("version %d is %s, want %s", version, v.Configuration, content)
		}
	}
	versions := must(storageapi.Collect(w.ConfigurationVersions(ctx, component, c.ID)))(t)
	if len(versions) != last.Version || !slices.IsSortedFunc(versions, func(a, b storageapi.ConfigurationVersion) int { return b.Version - a.Version }) {
		t.Errorf("%d versions, or not from the newest to the oldest", len(versions))
	}
}

// Everything is as it was after the server is opened again.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-r.t", nil, "a")
	check(t, importCSV(w, ctx, "in.c-r.t", storageapi.Import{}, "f", "a\n1\n"))
	file := w.upload("kept", "bytes")
	made := must(w.CreateToken(ctx, storageapi.TokenCreate{Description: "kept"}))(t)
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c", Configuration: raw(`{"a":1}`), State: raw(`{"s":1}`)}))(t)
	before := must(json.Marshal(must(w.Configuration(ctx, component, "c"))(t)))(t)
	w.restart()
	if after := must(json.Marshal(must(w.Configuration(ctx, component, "c"))(t)))(t); string(after) != string(before) {
		t.Errorf("configuration %s, before %s", after, before)
	}
	if got := w.preview("in.c-r.t", storageapi.RowQuery{}); got != "\"a\"\n\"1\"\n" {
		t.Errorf("rows %q", got)
	}
	if got := w.read(must(w.FileContent(ctx, file))(t)); got != "bytes" {
		t.Errorf("file %q", got)
	}
	if v := must(w.client(made.Token).VerifyToken(ctx))(t); v.ID != made.ID {
		t.Errorf("token %+v", v)
	}
}
