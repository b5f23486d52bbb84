package platform_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

const component = "my.extractor"

// A configuration from its creation to its purge, with every operation in between.
func TestConfigurationLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{
		ConfigurationID: "conf-1", Name: "First", Description: "of all", Configuration: raw(`{"parameters":{"b":1,"a":[]},"x":{}}`),
	}))(t)
	if c.ID != "conf-1" || c.Version != 1 || c.ChangeDescription != "Configuration created" || c.IsDeleted || c.IsDisabled {
		t.Errorf("created %+v", c)
	}
	if c.CreatorToken.ID == 0 || c.CreatorToken.Description == "" || c.Created.IsZero() || c.CurrentVersion.VersionIdentifier == "" {
		t.Errorf("created without its origin: %+v", c)
	}
	expectJSON(t, "content", c.Configuration, `{"parameters":{"b":1,"a":[]},"x":{}}`)
	expectJSON(t, "state", c.State, `{}`)

	name := "Renamed"
	c = must(w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{Name: &name, ChangeDescription: "because"}))(t)
	if c.Version != 2 || c.Name != name || c.Description != "of all" || c.ChangeDescription != "because" {
		t.Errorf("updated %+v", c)
	}
	expectJSON(t, "content that was not sent", c.Configuration, `{"parameters":{"b":1,"a":[]},"x":{}}`)
	c = must(w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{Configuration: raw(`{"parameters":{"a":2}}`)}))(t)
	expectJSON(t, "replaced content", c.Configuration, `{"parameters":{"a":2}}`)
	if c.Version != 3 || c.ChangeDescription != "Configuration updated" {
		t.Errorf("replaced: %+v", c)
	}

	// State belongs to no version.
	c = must(w.UpdateConfigurationState(ctx, component, c.ID, raw(`{"last":7}`)))(t)
	expectJSON(t, "state", c.State, `{"last":7}`)
	c = must(w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{State: raw(`{}`)}))(t)
	expectJSON(t, "state after the reset", c.State, `{}`)
	if c.Version != 3 {
		t.Errorf("state made version %d", c.Version)
	}

	// The same content again is a version all the same.
	if c = must(w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{Name: &name}))(t); c.Version != 4 {
		t.Errorf("an update without a difference made version %d, want 4", c.Version)
	}

	check(t, w.DeleteConfiguration(ctx, component, c.ID))
	_, err := w.Configuration(ctx, component, c.ID)
	expectError(t, err, 404, "storage.configuration.notFound")
	trash := must(storageapi.Collect(w.DeletedConfigurations(ctx, component)))(t)
	if len(trash) != 1 || !trash[0].IsDeleted || trash[0].Version != 5 || trash[0].ChangeDescription != "Configuration deleted" {
		t.Errorf("trash %+v", trash)
	}
	if c = must(w.RestoreConfiguration(ctx, component, c.ID))(t); c.Version != 6 || c.IsDeleted || c.ChangeDescription != "Configuration restored" {
		t.Errorf("restored %+v", c)
	}
	_, err = w.RestoreConfiguration(ctx, component, c.ID)
	expectError(t, err, 404, "storage.configuration.notFound")

	versions := must(storageapi.Collect(w.ConfigurationVersions(ctx, component, c.ID)))(t)
	var numbers []int
	for _, v := range versions {
		numbers = append(numbers, v.Version)
	}
	if !slices.Equal(numbers, []int{6, 5, 4, 3, 2, 1}) || !versions[1].IsDeleted || versions[5].Name != "First" {
		t.Errorf("versions %v: %+v", numbers, versions)
	}
	v := must(w.ConfigurationVersion(ctx, component, c.ID, 1))(t)
	expectJSON(t, "content of version 1", v.Configuration, `{"parameters":{"b":1,"a":[]},"x":{}}`)

	n := must(w.RollbackConfiguration(ctx, component, c.ID, 1, ""))(t)
	if n != 7 {
		t.Errorf("rollback gave version %d, want 7", n)
	}
	c = must(w.Configuration(ctx, component, c.ID))(t)
	if c.Name != "First" || c.Version != 7 || c.ChangeDescription != "Rollback to version 1" {
		t.Errorf("rolled back %+v", c)
	}

	check(t, w.DeleteConfiguration(ctx, component, c.ID))
	check(t, w.PurgeConfiguration(ctx, component, c.ID))
	if trash = must(storageapi.Collect(w.DeletedConfigurations(ctx, component)))(t); len(trash) != 0 {
		t.Errorf("purged, but in the trash: %+v", trash)
	}
	if c = must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "conf-1", Name: "Anew"}))(t); c.Version != 1 {
		t.Errorf("created after the purge with version %d", c.Version)
	}
}

func TestRecreateFromTrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	in := storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "One", IsDisabled: true, State: raw(`{"s":1}`)}
	must(w.CreateConfiguration(ctx, component, in))(t)
	must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "r", State: raw(`{"s":1}`)}))(t)
	check(t, w.DeleteConfiguration(ctx, component, "c"))
	c := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "Two"}))(t)
	if c.Version != 4 || len(c.Rows) != 0 || c.IsDisabled || c.Name != "Two" {
		t.Errorf("made again: %+v", c)
	}
	expectJSON(t, "state", c.State, `{}`)
	r := must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "r"}))(t)
	if r.Version != 2 {
		t.Errorf("the row goes on with version %d, want 2", r.Version)
	}
	expectJSON(t, "row state", r.State, `{}`)
}

// Content is kept as it was sent, whatever looks odd about it.
func TestContentIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{Name: "C"}))(t)
	for _, content := range []string{
		`{}`, `[]`, `{"a":{},"b":[],"c":[{}],"d":null}`, `{"n":12345678901234567890.10,"e":1e400}`, `{"html":"<b>&amp;</b>","u":"\u2028é🙂"}`,
		`{"configuration":{"parameters":{"a":1}}}`, `{"z":1,"a":2}`, `{"a":1,"a":2}`,
	} {
		out := must(w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{Configuration: raw(content)}))(t)
		expectJSON(t, "content", out.Configuration, content)
		out = must(w.UpdateConfigurationByForm(ctx, component, c.ID, storageapi.ConfigurationUpdate{Configuration: raw(content)}))(t)
		expectJSON(t, "content by a form", out.Configuration, content)
	}
}

// Reading one state once wrote into the bytes that stood for the default of all.
func TestDefaultStateIsNotShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "a", Name: "a", State: raw(`[]`)}))(t)
	must(w.Configuration(ctx, component, "a"))(t)
	b := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "b", Name: "b"}))(t)
	expectJSON(t, "state of another configuration", b.State, `{}`)
	expectJSON(t, "content of another configuration", b.Configuration, `{}`)
}

// Generated ids are never ids that a client has chosen, and may choose again.
func TestMadeIDsAreFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	first := must(w.Ticket(ctx))(t)
	for i := range int64(12) {
		id := fmt.Sprint(first + i)
		must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: id, Name: "chosen"}))(t)
	}
	made := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{Name: "made"}))(t)
	copied := must(w.CopyConfiguration(ctx, component, made.ID, 1, storageapi.ConfigurationCopy{Name: "copy"}))(t)
	next := must(w.Ticket(ctx))(t)
	for i := range int64(12) {
		must(w.CreateRow(ctx, component, made.ID, storageapi.RowCreate{RowID: fmt.Sprint(next + i), Name: "chosen"}))(t)
	}
	row := must(w.CreateRow(ctx, component, made.ID, storageapi.RowCreate{Name: "made"}))(t)
	other := must(w.CopyRow(ctx, component, made.ID, row.ID, 1, storageapi.RowCopy{}))(t)
	c := must(w.Configuration(ctx, component, made.ID))(t)
	if len(c.Rows) != 14 || other.ID == row.ID {
		t.Errorf("got %d rows, want 14", len(c.Rows))
	}
	all := must(storageapi.Collect(w.Configurations(ctx, component)))(t)
	if len(all) != 14 || copied == made.ID {
		t.Errorf("got %d configurations, want 14", len(all))
	}
	for _, c := range all {
		if chosen := c.Name == "chosen"; c.Version != 1 && chosen {
			t.Errorf("configuration %s was overwritten: %+v", c.ID, c)
		}
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/v2/storage/components/" + component + "/configs"
	a := w.raw("POST", base, formType, `name=Form+name&configurationId=f&configuration=%7B%22a%22%3A%5B%5D%7D&isDisabled=1`)
	if a.status != 201 {
		t.Fatalf("got %d %s, want 201", a.status, a.body)
	}
	got := a.decode(t)
	if got["name"] != "Form name" || got["isDisabled"] != true || fmt.Sprint(got["configuration"]) != "map[a:[]]" {
		t.Errorf("created %s", a.body)
	}
	for _, id := range []string{"1", "2"} {
		if a := w.raw("POST", base+"/f/rows", formType, "rowId="+id); a.status != 201 {
			t.Errorf("row: %d %s", a.status, a.body)
		}
	}
	a = w.raw("PUT", base+"/f", formType, `rowsSortOrder[0]=2&rowsSortOrder[1]=1&state=%7B%22x%22%3A1%7D&description=`)
	if got := a.decode(t); a.status != 200 || fmt.Sprint(got["rowsSortOrder"]) != "[2 1]" || fmt.Sprint(got["state"]) != "map[x:1]" || got["version"] != 4.0 {
		t.Errorf("got %d %s, want 200, version 4 with its state and the order of its rows", a.status, a.body)
	}
	// JSON text inside of JSON is content as well, and unknown fields are ignored.
	a = w.raw("PUT", base+"/f", jsonType, `{"configuration":"{\"b\":2}","branchId":1,"rows":[],"isDisabled":"false"}`)
	if got := a.decode(t); a.status != 200 || fmt.Sprint(got["configuration"]) != "map[b:2]" || got["isDisabled"] != false {
		t.Errorf("got %d %s, want a.status == 200 and fmt.Sprint(got[\"configuration\"]) == \"map[b:2]\" and got[\"isDisabled\"] == false", a.status, a.body)
	}
	// A rollback returns the number as text, a copy the id.
	a = w.raw("POST", base+"/f/versions/1/rollback", "", "")
	if got := a.decode(t); a.status != 201 || got["version"] != "6" {
		t.Errorf("rollback: %d %s", a.status, a.body)
	}
	a = w.raw("POST", base+"/f/versions/1/create", formType, "name=Copy")
	if _, text := a.decode(t)["id"].(string); a.status != 201 || !text {
		t.Errorf("copy: %d %s", a.status, a.body)
	}
}

// An order of rows is a list of fields, or JSON text in one. An empty one takes the order away.
func TestOrderByForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	for _, id := range []string{"a", "b"} {
		must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: id}))(t)
	}
	path := "/v2/storage/components/" + component + "/configs/c"
	for _, c := range []struct{ kind, body, want string }{
		{formType, "rowsSortOrder=" + url.QueryEscape(`["b","a"]`), `["b","a"]`},
		{formType, "rowsSortOrder=%5B%5D", `[]`},
		{formType, "rowsSortOrder[]=b&rowsSortOrder[]=a", `["b","a"]`},
		{formType, "rowsSortOrder[1]=b&rowsSortOrder[0]=a", `["a","b"]`},
		{jsonType, `{"rowsSortOrder":[]}`, `[]`},
		{jsonType, `{"rowsSortOrder":"[\"b\",\"a\"]"}`, `["b","a"]`},
	} {
		a := w.raw("PUT", path, c.kind, c.body)
		if a.status != 200 || !strings.Contains(string(a.body), `"rowsSortOrder":`+c.want) {
			t.Errorf("%s: got %d %s, want the order %s", c.body, a.status, a.body, c.want)
		}
	}
	before := must(w.Configuration(ctx, component, "c"))(t).Version
	for body, code := range map[string]string{
		`{"rowsSortOrder":["b"]}`:         "validation.invalidRowSortOrder",
		`{"rowsSortOrder":["b","b"]}`:     "storage.components.validation",
		`{"rowsSortOrder":["b","a","a"]}`: "storage.components.validation",
		`{"rowsSortOrder":["b","x"]}`:     "storage.components.validation",
		`{"rowsSortOrder":["b","a","x"]}`: "storage.components.validation",
		`{"rowsSortOrder":{"a":"b"}}`:     "storage.components.validation",
		`{"rowsSortOrder":"b,a"}`:         "storage.components.validation",
		`{"rowsSortOrder":[["b"],"a"]}`:   "storage.components.validation",
	} {
		if a := w.raw("PUT", path, jsonType, body); a.status != 400 || a.decode(t)["code"] != code {
			t.Errorf("%s: got %d %s, want code %s", body, a.status, a.body, code)
		}
	}
	c := must(w.UpdateConfigurationByForm(ctx, component, "c", storageapi.ConfigurationUpdate{RowsSortOrder: []string{"a", "b"}, State: raw(`{"s":1}`)}))(t)
	if c.Version != before+1 || !slices.Equal(c.RowsSortOrder, []string{"a", "b"}) || string(c.State) != `{"s":1}` {
		t.Errorf("by a form: %+v, want version %d", c, before+1)
	}
	if c = must(w.UpdateConfiguration(ctx, component, "c", storageapi.ConfigurationUpdate{RowsSortOrder: []string{}}))(t); len(c.RowsSortOrder) != 0 {
		t.Errorf("order %q after it was taken away", c.RowsSortOrder)
	}
}

// A refusal names the fault in the JSON and its place.
func TestMalformedJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(w.CreateConfiguration(t.Context(), component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	path := "/v2/storage/components/" + component + "/configs/c"
	for _, c := range []struct{ kind, body, code, want string }{
		{formType, `configuration={"a":1`, "validation.invalidConfigurationFormat", "configuration: want a JSON object, got no JSON: unexpected end of JSON input"},
		{formType, `configuration={"a":"x&y"}`, "validation.invalidConfigurationFormat", "unexpected end of JSON input"},
		{formType, `configuration=`, "validation.invalidConfigurationFormat", "should not be blank"},
		{formType, `configuration={a:1}`, "validation.invalidConfigurationFormat", "invalid character 'a' looking for beginning of object key string at byte 2"},
		{formType, `configuration=nil`, "validation.invalidConfigurationFormat", "invalid character 'i'"},
		{jsonType, `{"configuration":7}`, "validation.invalidConfigurationFormat", "want a JSON object, got 7"},
		{jsonType, `{"configuration":"\"{}\""}`, "validation.invalidConfigurationFormat", "want a JSON object, got"},
		{jsonType, `{"state":true}`, "validation.invalidStateFormat", "state: want a JSON object, got true"},
		{formType, `{"configuration":{"a":1}}`, "validation.body", "send application/json"},
		{jsonType, `{"configuration":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "validation.body", "not a JSON object"},
	} {
		a := w.raw("PUT", path, c.kind, c.body)
		body := a.decode(t)
		if text, _ := body["error"].(string); a.status != 400 || body["code"] != c.code || !strings.Contains(text, c.want) {
			t.Errorf("got %.60s: %d %.300s, want %s with %q", c.body, a.status, a.body, c.code, c.want)
		}
	}
	if c := must(w.Configuration(t.Context(), component, "c"))(t); c.Version != 1 {
		t.Errorf("refused changes made version %d", c.Version)
	}
}

// State alone makes no version, whatever unchanged fields the request also has.
func TestStateMakesNoVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(w.CreateConfiguration(t.Context(), component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	must(w.CreateRow(t.Context(), component, "c", storageapi.RowCreate{RowID: "r"}))(t)
	path := "/v2/storage/components/" + component + "/configs/c"
	for _, c := range []struct {
		path, kind, body string
		version          float64
	}{
		{path, jsonType, `{"state":{"a":1}}`, 2},
		{path, jsonType, `{"state":{"a":1},"branchId":7,"name":null}`, 2},
		{path, formType, `state={}&componentId=x`, 2},
		{path + "/state", formType, `state={"a":[]}`, 2},
		{path + "/rows/r", jsonType, `{"state":{"a":1},"rowId":"r"}`, 1},
		{path + "/rows/r/state", jsonType, `{"state":{}}`, 1},
		{path, jsonType, `{"state":{},"changeDescription":"now"}`, 3},
		{path, formType, `state={"b":1}&configuration=null&rowsSortOrder=`, 4},
		{path, jsonType, `{}`, 5},
	} {
		a := w.raw("PUT", c.path, c.kind, c.body)
		if got := a.decode(t); a.status != 200 || got["version"] != c.version {
			t.Errorf("PUT %s %s: %d, version %v, want %v", c.path, c.body, a.status, got["version"], c.version)
		}
	}
}

// The objects have these fields and no others, of these types.
func TestFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(w.CreateConfiguration(t.Context(), component, storageapi.ConfigurationCreate{ConfigurationID: "7", Name: "c"}))(t)
	must(w.CreateRow(t.Context(), component, "7", storageapi.RowCreate{RowID: "8"}))(t)
	const (
		origin  = `"created":"T","creatorToken":{"description":"Master token","id":N},`
		row     = `{"changeDescription":"Row 8 added","configuration":{},` + origin + `"description":"","id":"8","isDisabled":false,"name":"","state":{},"version":1,"versionIdentifier":"U"}`
		config  = `{"changeDescription":"Row 8 added","configuration":{},` + origin + `"currentVersion":{"changeDescription":"Row 8 added",` + origin + `"versionIdentifier":"U"},"description":"","id":"7","isDeleted":false,"isDisabled":false,"name":"c","rows":[` + row + `],"rowsSortOrder":[],"state":{},"version":2}`
		entry   = origin + `"description":"","isDeleted":false,"name":"c",`
		detail  = `{"changeDescription":"Row 8 added","configuration":{},` + origin + `"description":"","isDeleted":false,"isDisabled":false,"name":"c","rows":[{"changeDescription":"Row 8 added","configuration":{},` + origin + `"description":"","id":"8","isDisabled":false,"name":"","version":1,"versionIdentifier":"U"}],"rowsSortOrder":[],"version":2,"versionIdentifier":"U"}`
		rowItem = `{"changeDescription":"Row 8 added",` + origin + `"description":"","isDisabled":false,"name":"","version":1,"versionIdentifier":"U"}`
	)
	volatile := regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+]0000"|"[0-9A-HJKMNP-TV-Z]{26}"|"id":\d+`)
	for path, want := range map[string]string{
		"":                    `[` + config + `]`,
		"/7":                  config,
		"/7/rows":             `[` + row + `]`,
		"/7/rows/8":           row,
		"/7/versions":         `[{"changeDescription":"Row 8 added",` + entry + `"version":2,"versionIdentifier":"U"},{"changeDescription":"Configuration created",` + entry + `"version":1,"versionIdentifier":"U"}]`,
		"/7/versions/2":       detail,
		"/7/rows/8/versions":  `[` + rowItem + `]`,
		"?isDeleted=1":        `[]`,
		"/7/versions?limit=1": `[{"changeDescription":"Row 8 added",` + entry + `"version":2,"versionIdentifier":"U"}]`,
	} {
		for _, prefix := range []string{"", "/branch/default"} {
			a := w.raw("GET", "/v2/storage"+prefix+"/components/"+component+"/configs"+path, "", "")
			var sorted any
			check(t, json.Unmarshal(a.body, &sorted))
			got := volatile.ReplaceAllStringFunc(string(must(json.Marshal(sorted))(t)), func(s string) string {
				switch {
				case strings.HasPrefix(s, `"id"`):
					return `"id":N`
				case strings.Contains(s, "+"):
					return `"T"`
				}
				return `"U"`
			})
			if got != want {
				t.Errorf("%s%s:\n%s, want\n%s", prefix, path, got, want)
			}
		}
	}
}

// An id that the server makes is never one of a configuration in the trash, which was overwritten once.
func TestMadeIDsSpareTheTrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	first := must(w.Ticket(ctx))(t)
	for i := range int64(8) {
		id := fmt.Sprint(first + i)
		must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: id, Name: "chosen"}))(t)
		check(t, w.DeleteConfiguration(ctx, component, id))
	}
	made := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{Name: "made"}))(t)
	id := must(w.CopyConfiguration(ctx, component, made.ID, 1, storageapi.ConfigurationCopy{Name: "copy"}))(t)
	copied := must(w.Configuration(ctx, component, id))(t)
	trash := must(storageapi.Collect(w.DeletedConfigurations(ctx, component)))(t)
	if made.Version != 1 || copied.Version != 1 || len(trash) != 8 {
		t.Errorf("made version %d, copied version %d, %d in the trash", made.Version, copied.Version, len(trash))
	}
}

// The list of components shows the requested parts, and nothing else.
func TestListComponents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *platform.Options) {
		o.Components = []platform.Component{{Component: storageapi.Component{ID: component, Type: "extractor"}}}
	})
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "C"}))(t)
	must(w.CreateConfiguration(ctx, "other.one", storageapi.ConfigurationCreate{ConfigurationID: "d", Name: "D"}))(t)
	must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "r"}))(t)
	if list := must(storageapi.Collect(w.Components(ctx, storageapi.ComponentQuery{Type: "extractor", Rows: true, Configuration: true, State: true})))(t); len(list) != 1 || len(list[0].Configurations) != 1 ||
		len(list[0].Configurations[0].Rows) != 1 || list[0].Configurations[0].Configuration == nil || list[0].ID != component {
		t.Errorf("components %+v", list)
	}
	a := w.raw("GET", "/v2/storage/components?include=rows", "", "")
	for _, absent := range []string{`"configuration":`, `"state":`} {
		if strings.Contains(string(a.body), absent) {
			t.Errorf("%s was not asked for: %s", absent, a.body)
		}
	}
	if !strings.Contains(string(a.body), `"rows":[{`) {
		t.Errorf("no rows: %s", a.body)
	}
	a = w.raw("GET", "/v2/storage/components?include=nonsense", "", "")
	if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"errors":[{"key":"include"`) {
		t.Errorf("got %d %s, want a.status == %v and strings.Contains(string(a.body), `\"errors\":[{\"key\":\"include\"`)", a.status, a.body, http.StatusBadRequest)
	}
	if list := must(storageapi.Collect(w.Components(ctx, storageapi.ComponentQuery{Deleted: true})))(t); len(list) != 0 {
		t.Errorf("deleted: %+v", list)
	}
}
