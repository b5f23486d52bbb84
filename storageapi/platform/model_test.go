package platform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/storageapi"
)

// modelVersion is one version of a configuration as the test understands it.
type modelVersion struct {
	name, content, change string
	disabled, deleted     bool
	order                 []string
	rows                  map[string]int // id to the version of the row
}

func (v modelVersion) clone() modelVersion {
	v.rows = maps.Clone(v.rows)
	v.order = slices.Clone(v.order)
	return v
}

// modelRow is one version of a row.
type modelRow struct {
	name, content, change string
	disabled              bool
}

// model is a configuration with its whole history.
type model struct {
	id       string
	history  []modelVersion        // version n is at n-1
	rows     map[string][]modelRow // likewise, over deletions
	state    string
	rowState map[string]string
}

func newModel(id string, first modelVersion) *model {
	return &model{id: id, history: []modelVersion{first}, rows: make(map[string][]modelRow), state: "{}", rowState: make(map[string]string)}
}

func (m *model) latest() modelVersion { return m.history[len(m.history)-1].clone() }

// put makes a new version of a row a part of a version.
func (m *model) put(next *modelVersion, id string, row modelRow) {
	m.rows[id] = append(m.rows[id], row)
	next.rows[id] = len(m.rows[id])
}

// row is a row of a version.
func (m *model) row(v modelVersion, id string) modelRow { return m.rows[id][v.rows[id]-1] }

// Random edits, rollbacks, copies, deletions and restarts give the history that a plain list of whole versions would have.
func TestHistoryAgainstModel(t *testing.T) {
	t.Parallel()
	h := &historian{t: t, w: newWorld(t), rng: seedtest.Rand(t)}
	steps := 600
	if testing.Short() {
		steps = 150
	}
	h.create("")
	for i := range steps {
		h.step(i, h.models[h.rng.IntN(len(h.models))])
		if h.rng.IntN(100) == 0 {
			h.w.restart()
			m := h.models[h.rng.IntN(len(h.models))]
			m.compare(t, h.w)
		}
	}
	h.w.restart()
	for _, m := range h.models {
		m.compare(t, h.w)
	}
}

// historian makes the same changes to the server and to the models.
type historian struct {
	t      *testing.T
	w      *world
	rng    *rand.Rand
	models []*model
}

// create makes a configuration, "" for one whose id is made.
func (h *historian) create(id string) {
	h.t.Helper()
	c := must(h.w.CreateConfiguration(h.t.Context(), component, storageapi.ConfigurationCreate{ConfigurationID: id, Name: "new"}))(h.t)
	h.models = append(h.models, newModel(c.ID, modelVersion{name: "new", content: "{}", change: "Configuration created", rows: map[string]int{}}))
}

// row chooses a row of a version, "" if it has none.
func (h *historian) row(v modelVersion) string {
	ids := slices.Sorted(maps.Keys(v.rows))
	if len(ids) == 0 {
		return ""
	}
	return ids[h.rng.IntN(len(ids))]
}

// step makes one change of the configuration of m.
func (h *historian) step(i int, m *model) {
	t, ctx, w, rng := h.t, h.t.Context(), h.w, h.rng
	t.Helper()
	next := m.latest()
	// A description of the change is kept unchanged. Without it there is a text that describes the change.
	text := ""
	describe := func(fallback string) string {
		if text != "" {
			return text
		}
		return fallback
	}
	if rng.IntN(3) == 0 {
		text = fmt.Sprint("change ", i)
	}
	if next.deleted {
		h.revive(i, m)
		return
	}
	next.change = describe("Configuration updated")
	update := storageapi.ConfigurationUpdate{ChangeDescription: text}
	id := h.row(next)
	switch op := rng.IntN(16); op {
	case 0:
		next.name = fmt.Sprint("name ", i)
		update.Name = &next.name
		must(w.UpdateConfiguration(ctx, component, m.id, update))(t)
	case 1:
		next.content = fmt.Sprintf(`{"step":%d}`, i)
		update.Configuration = raw(next.content)
		must(w.UpdateConfigurationByForm(ctx, component, m.id, update))(t)
	case 2:
		next.disabled = !next.disabled
		update.IsDisabled = &next.disabled
		must(w.UpdateConfiguration(ctx, component, m.id, update))(t)
	case 3, 4:
		// The id of a row that was deleted may come again.
		id = strconv.Itoa(rng.IntN(6))
		if _, taken := next.rows[id]; taken {
			_, err := w.CreateRow(ctx, component, m.id, storageapi.RowCreate{RowID: id})
			expectError(t, err, 400, "configurationRowAlreadyExists")
			return
		}
		next.change = describe("Row " + id + " added")
		row := modelRow{content: fmt.Sprintf(`{"row":%d}`, i), change: next.change}
		m.put(&next, id, row)
		must(w.CreateRow(ctx, component, m.id, storageapi.RowCreate{RowID: id, Configuration: raw(row.content), ChangeDescription: text}))(t)
		m.rowState[id] = "{}"
		if len(next.order) > 0 {
			next.order = append(next.order, id)
		}
	case 5, 6:
		if id == "" {
			return
		}
		next.change = describe("Row " + id + " changed")
		row := m.row(next, id)
		row.change = next.change
		in := storageapi.RowUpdate{ChangeDescription: text}
		if op == 5 {
			row.content = fmt.Sprintf(`{"row":%d}`, i)
			in.Configuration = raw(row.content)
		} else {
			row.name, row.disabled = fmt.Sprint("row ", i), !row.disabled
			in.Name, in.IsDisabled = &row.name, &row.disabled
		}
		m.put(&next, id, row)
		must(w.UpdateRow(ctx, component, m.id, id, in))(t)
	case 7:
		if id == "" {
			return
		}
		delete(next.rows, id)
		next.order = slices.DeleteFunc(next.order, func(other string) bool { return other == id })
		next.change = "Row " + id + " deleted"
		check(t, w.DeleteRow(ctx, component, m.id, id))
	case 8:
		if id == "" {
			return
		}
		next.order = slices.Sorted(maps.Keys(next.rows))
		rng.Shuffle(len(next.order), func(i, j int) { next.order[i], next.order[j] = next.order[j], next.order[i] })
		if rng.IntN(4) == 0 {
			next.order = []string{}
		}
		update.RowsSortOrder = next.order
		must(w.UpdateConfiguration(ctx, component, m.id, update))(t)
	case 9:
		v := 1 + rng.IntN(len(m.history))
		if n := must(w.RollbackConfiguration(ctx, component, m.id, v, text))(t); n != len(m.history)+1 {
			t.Fatalf("rollback gave version %d, want %d", n, len(m.history)+1)
		}
		current := next
		next = m.history[v-1].clone()
		next.deleted, next.change = false, describe(fmt.Sprint("Rollback to version ", v))
		for id, old := range m.history[v-1].rows {
			if current.rows[id] == old {
				continue
			}
			row := m.rows[id][old-1]
			row.change = describe(fmt.Sprintf("Rollback to version %d (via configuration rollback to version %d)", old, v))
			m.put(&next, id, row)
		}
	case 10:
		if id == "" {
			return
		}
		v := 1 + rng.IntN(len(m.rows[id]))
		row := m.rows[id][v-1]
		row.change = describe(fmt.Sprint("Rollback to version ", v))
		next.change = describe(fmt.Sprintf("Row %s version %d rollback", id, v))
		m.put(&next, id, row)
		must(w.RollbackRow(ctx, component, m.id, id, v, text))(t)
	case 11:
		h.copy(i, m, text)
		return
	case 12:
		h.copyRow(m, id, text)
		return
	case 13:
		next.deleted, next.change = true, "Configuration deleted"
		check(t, w.DeleteConfiguration(ctx, component, m.id))
	default:
		state := fmt.Sprintf(`{"state":%d}`, i)
		if id != "" && op == 14 {
			must(w.UpdateRowState(ctx, component, m.id, id, raw(state)))(t)
			m.rowState[id] = state
		} else {
			must(w.UpdateConfigurationState(ctx, component, m.id, raw(state)))(t)
			m.state = state
		}
		return
	}
	m.history = append(m.history, next)
}

// revive takes a configuration out of the trash, makes a new one in its place, or purges it.
func (h *historian) revive(i int, m *model) {
	t, ctx := h.t, h.t.Context()
	next := m.latest()
	_, err := h.w.Configuration(ctx, component, m.id)
	expectError(t, err, 404, "storage.configuration.notFound")
	switch h.rng.IntN(4) {
	case 0:
		next = modelVersion{name: fmt.Sprint("again ", i), content: "{}", change: "Configuration created", rows: map[string]int{}}
		must(h.w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: m.id, Name: next.name}))(t)
		m.state = "{}"
		clear(m.rowState)
	case 1:
		check(t, h.w.PurgeConfiguration(ctx, component, m.id))
		h.models = slices.DeleteFunc(h.models, func(other *model) bool { return other == m })
		h.create(m.id)
		return
	default:
		next.deleted, next.change = false, "Configuration restored"
		must(h.w.RestoreConfiguration(ctx, component, m.id))(t)
	}
	m.history = append(m.history, next)
}

// copy makes a configuration of a version of another.
func (h *historian) copy(i int, m *model, text string) {
	v := 1 + h.rng.IntN(len(m.history))
	old := m.history[v-1].clone()
	change := text
	if change == "" {
		change = fmt.Sprintf("Copied from configuration %q (%s) version %d", m.latest().name, m.id, v)
	}
	name := fmt.Sprint("copy ", i)
	id := must(h.w.CopyConfiguration(h.t.Context(), component, m.id, v, storageapi.ConfigurationCopy{Name: name, ChangeDescription: text}))(h.t)
	copied := newModel(id, modelVersion{})
	first := old
	first.name, first.change, first.deleted, first.rows = name, change, false, make(map[string]int)
	for id, version := range old.rows {
		row := m.rows[id][version-1]
		row.change = change
		copied.put(&first, id, row)
	}
	copied.history[0] = first
	h.models = append(h.models, copied)
}

// copyRow makes a row of a version of one, in any live configuration.
func (h *historian) copyRow(m *model, id, text string) {
	to := h.models[h.rng.IntN(len(h.models))]
	next := to.latest()
	if id == "" || next.deleted {
		return
	}
	v := 1 + h.rng.IntN(len(m.rows[id]))
	made := must(h.w.CopyRow(h.t.Context(), component, m.id, id, v, storageapi.RowCopy{TargetConfigID: to.id, ChangeDescription: text}))(h.t)
	row := m.rows[id][v-1]
	origin := fmt.Sprintf("opied from configuration %q (%s) row %s version %d", m.latest().name, m.id, id, v)
	row.change, next.change = text, text
	if text == "" {
		row.change, next.change = "C"+origin, "Row "+made.ID+" c"+origin
	}
	to.put(&next, made.ID, row)
	to.rowState[made.ID] = "{}"
	if len(next.order) > 0 {
		next.order = append(next.order, made.ID)
	}
	to.history = append(to.history, next)
}

func (m *model) compare(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	latest := m.latest()
	if latest.deleted { // the history that the trash hides must be visible again
		_, err := w.ConfigurationVersion(ctx, component, m.id, 1)
		expectError(t, err, 404, "storage.configuration.notFound")
		must(w.RestoreConfiguration(ctx, component, m.id))(t)
		latest.deleted, latest.change = false, "Configuration restored"
		m.history = append(m.history, latest)
	}
	c := must(w.Configuration(ctx, component, m.id))(t)
	if c.Version != len(m.history) || string(c.State) != m.state || c.ChangeDescription != latest.change || c.CurrentVersion.ChangeDescription != latest.change {
		t.Errorf("configuration %s: version %d (%s) with state %s, want %d (%s) with %s", m.id, c.Version, c.ChangeDescription, c.State, len(m.history), latest.change, m.state)
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
		versions := must(storageapi.Collect(w.RowVersions(ctx, component, m.id, r.ID)))(t)
		if len(versions) != len(m.rows[r.ID]) {
			t.Errorf("configuration %s, row %s: %d versions, want %d", m.id, r.ID, len(versions), len(m.rows[r.ID]))
			continue
		}
		for i, v := range versions {
			n := len(versions) - i
			detail := must(w.RowVersion(ctx, component, m.id, r.ID, n))(t)
			got := modelRow{v.Name, string(detail.Configuration), v.ChangeDescription, v.IsDisabled}
			if want := m.rows[r.ID][n-1]; v.Version != n || got != want {
				t.Errorf("configuration %s, row %s, version %d is %d %+v, want %+v", m.id, r.ID, n, v.Version, got, want)
			}
		}
	}
	versions := must(storageapi.Collect(w.ConfigurationVersions(ctx, component, m.id)))(t)
	if len(versions) != len(m.history) {
		t.Fatalf("configuration %s: %d versions, want %d", m.id, len(versions), len(m.history))
	}
	for i, entry := range versions {
		n := len(versions) - i
		want := m.history[n-1]
		if entry.Version != n || entry.ChangeDescription != want.change || entry.IsDeleted != want.deleted || entry.Name != want.name {
			t.Errorf("configuration %s: entry %+v, want version %d, %+v", m.id, entry, n, want)
		}
		v := must(w.ConfigurationVersion(ctx, component, m.id, n))(t)
		m.compareVersion(t, n, v.Name, string(v.Configuration), v.IsDisabled, v.RowsSortOrder, v.Rows)
	}
}

func (m *model) compareVersion(t *testing.T, n int, name, content string, disabled bool, order []string, rows []storageapi.ConfigurationRow) {
	t.Helper()
	want := m.history[n-1]
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
		if want.rows[r.ID] != r.Version {
			t.Errorf("configuration %s, version %d: row %s has version %d, want %d", m.id, n, r.ID, r.Version, want.rows[r.ID])
			continue
		}
		got := modelRow{r.Name, string(r.Configuration), r.ChangeDescription, r.IsDisabled}
		if wanted := m.row(want, r.ID); got != wanted {
			t.Errorf("configuration %s, version %d: row %s is %+v, want %+v", m.id, n, r.ID, got, wanted)
		}
	}
	wantIDs := want.order
	if len(wantIDs) == 0 {
		wantIDs = slices.Sorted(maps.Keys(want.rows))
	}
	if name != want.name || content != want.content || disabled != want.disabled || !slices.Equal(order, want.order) || !slices.Equal(ids, wantIDs) {
		t.Errorf("configuration %s, version %d: %s %s %t order %q rows %q, want %+v", m.id, n, name, content, disabled, order, ids, want)
	}
}

// Everything is as it was after the server is opened again.
func TestRestart(t *testing.T) {
	t.Parallel()
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
