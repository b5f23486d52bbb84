package platform_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// newVariablesWorld has variables "v" with the rows "first" and "second".
func newVariablesWorld(t *testing.T) (*world, *recorder) {
	w, rec := newQueueWorld(t)
	ctx, of := t.Context(), platform.DefaultVariablesComponent
	must(w.CreateConfiguration(ctx, of, storageapi.ConfigurationCreate{
		ConfigurationID: "v", Name: "v", Configuration: raw(`{"variables":[{"name":"who","type":"string"}]}`),
	}))(t)
	for id, who := range map[string]string{"first": `Ann \"A\"`, "second": "Bob", "none": ""} {
		values := `{"values":[{"name":"who","value":"` + who + `"},{"name":"n","value":7}]}`
		if who == "" {
			values = `{"values":[]}`
		}
		must(w.CreateRow(ctx, of, "v", storageapi.RowCreate{RowID: id, Configuration: raw(values)}))(t)
	}
	return w, rec
}

func TestVariablesAreReplaced(t *testing.T) {
	t.Parallel()
	w, rec := newVariablesWorld(t)
	const added = `"action":"run","image_parameters":{"i":1},`
	for name, c := range map[string]struct {
		content string
		job     storageapi.QueueJobCreate
		want    string
	}{
		"default values": {
			`{"parameters":{"a":"hi {{ who }}","b":"{{{n}}}"},"variables_id":"v","variables_values_id":"first"}`,
			storageapi.QueueJobCreate{},
			`{` + added + `"parameters":{"a":"hi Ann \"A\"","b":"7"},"variables_id":"v","variables_values_id":"first"}`,
		},
		"a row that the job names": {
			`{"parameters":{"a":"{{who}}"},"variables_id":"v","variables_values_id":"first"}`,
			storageapi.QueueJobCreate{VariableValuesID: "second"},
			`{` + added + `"parameters":{"a":"Bob"},"variables_id":"v","variables_values_id":"first"}`,
		},
		"values of the job": {
			`{"parameters":{"{{who}}":"{{ who }}{{ who }}"},"variables_id":"v"}`,
			storageapi.QueueJobCreate{VariableValuesData: raw(`{"values":[{"name":"who","value":"C\nD"}]}`)},
			`{` + added + `"parameters":{"C\nD":"C\nDC\nD"},"variables_id":"v"}`,
		},
		"values of the job, nothing declared": {
			`{"parameters":{"a":"{{ x }}"}}`,
			storageapi.QueueJobCreate{VariableValuesData: raw(`{"values":[{"name":"x","value":"y"}]}`)},
			`{` + added + `"parameters":{"a":"y"}}`,
		},
		"no variables": {
			`{"parameters":{"a":"{{ of another language }}"}}`,
			storageapi.QueueJobCreate{},
			`{` + added + `"parameters":{"a":"{{ of another language }}"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rec.set(nil)
			c.job.ConfigData = raw(c.content)
			must(w.runJob(c.job))(t)
			expectJSON(t, "configuration", rec.runs[0].Configuration, c.want)
		})
	}
}

// Variables in a row get the same values as in the configuration, even if they change before the job runs again.
func TestVariablesOfRows(t *testing.T) {
	t.Parallel()
	w, rec := newVariablesWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{
		ConfigurationID: "c", Name: "c", Configuration: raw(`{"parameters":{"root":"{{who}}"},"variables_id":"v","variables_values_id":"second"}`),
	}))(t)
	must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "r", Configuration: raw(`{"parameters":{"row":"{{who}}"}}`)}))(t)
	must(w.runJob(storageapi.QueueJobCreate{Config: "c"}))(t)
	if got := string(rec.runs[0].Configuration); !strings.Contains(got, `"parameters":{"root":"Bob","row":"Bob"}`) {
		t.Errorf("configuration %s", got)
	}
}

func TestVariablesWithoutValuesFailTheJob(t *testing.T) {
	t.Parallel()
	w, rec := newVariablesWorld(t)
	for name, c := range map[string]struct {
		content string
		job     storageapi.QueueJobCreate
		want    string
	}{
		"no values":           {`{"variables_id":"v"}`, storageapi.QueueJobCreate{}, "who"},
		"a row without them":  {`{"variables_id":"v","variables_values_id":"none"}`, storageapi.QueueJobCreate{}, "who"},
		"no such row":         {`{"variables_id":"v","variables_values_id":"gone"}`, storageapi.QueueJobCreate{}, `"gone"`},
		"no such variables":   {`{"variables_id":"gone"}`, storageapi.QueueJobCreate{}, `"gone"`},
		"not declared":        {`{"a":"{{ x.y }} {{z}}","variables_id":"v","variables_values_id":"first"}`, storageapi.QueueJobCreate{}, "x.y, z"},
		"nothing to be named": {`{"a":1}`, storageapi.QueueJobCreate{VariableValuesID: "first"}, "variables_id"},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.ConfigData = raw(c.content)
			if message := w.runError(c.job); !strings.Contains(message, c.want) {
				t.Errorf("the job says %q, want %q", message, c.want)
			}
			if len(rec.rows()) != 0 {
				t.Error("the program ran")
			}
		})
	}
	for name, job := range map[string]storageapi.QueueJobCreate{
		"both":         {VariableValuesID: "first", VariableValuesData: raw(`{"values":[]}`)},
		"no values":    {VariableValuesData: raw(`{"values":"x"}`)},
		"without name": {VariableValuesData: raw(`{"values":[{"value":"x"}]}`)},
		"twice":        {VariableValuesData: raw(`{"values":[{"name":"a","value":"x"},{"name":"a","value":"y"}]}`)},
	} {
		job.Component, job.ConfigData = component, raw(`{}`)
		if _, err := w.CreateQueueJob(t.Context(), job); err == nil || !strings.Contains(err.Error(), "variableValues") {
			t.Errorf("%s: got %v, want an error and strings.Contains(err.Error(), \"variableValues\")", name, err)
		}
	}
}

// The nodes that exist at run time alone are not stored.
func TestRunNodesAreNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	const content, want = `{"b":1.0,"image_parameters":{"x":1},"a":{"action":"kept"},"act\u0069on":"run"}`, `{"b":1.0,"a":{"action":"kept"}}`
	conf := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c", Configuration: raw(content)}))(t)
	expectJSON(t, "created", conf.Configuration, want)
	conf = must(w.UpdateConfiguration(ctx, component, "c", storageapi.ConfigurationUpdate{Configuration: raw(content)}))(t)
	expectJSON(t, "updated", conf.Configuration, want)
	row := must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "r", Configuration: raw(content)}))(t)
	expectJSON(t, "row", row.Configuration, want)
}

// The index names the services that clients look for. Services that are not here say so.
func TestAbsentServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *platform.Options) {
		o.Services = []platform.PortalService{{ID: "oauth", URL: "https://oauth.example.com"}}
	})
	index := must(w.Index(t.Context()))(t)
	urls := make(map[string]string)
	for _, s := range index.Services {
		if urls[s.ID] != "" {
			t.Errorf("service %s is listed twice", s.ID)
		}
		urls[s.ID] = s.URL
	}
	if urls["oauth"] != "https://oauth.example.com" || urls["queue"] != w.http.URL || urls["encryption"] != w.http.URL {
		t.Errorf("services %v", urls)
	}
	for _, id := range []string{"import", "billing", "scheduler", "sync-actions", "notification"} {
		path, ok := strings.CutPrefix(urls[id], w.http.URL)
		if !ok {
			t.Errorf("service %s has the address %q", id, urls[id])
			continue
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			a := w.raw(method, path+"/any/path", jsonType, "")
			if body := a.decode(t); a.status != 501 || body["code"] != 501.0 || body["status"] != "error" || !strings.Contains(body["error"].(string), id) {
				t.Errorf("%s of service %s: got %d %s, want 501 with the code 501 and the name of the service", method, id, a.status, a.body)
			}
		}
	}
	// Clients clean up the objects of an absent service. They read a list, and delete its items.
	for id, list := range map[string]string{"scheduler": "/schedules", "notification": "/project-subscriptions"} {
		path := strings.TrimPrefix(urls[id], w.http.URL) + list
		if a := w.raw("GET", path, "", ""); a.status != 200 || string(a.body) != "[]" {
			t.Errorf("GET %s: got %d %s, want 200 []", path, a.status, a.body)
		}
		if a := w.raw("GET", path, "", "", storageapi.TokenHeader, "unknown-token"); a.status != 401 || a.decode(t)["code"] != 401.0 {
			t.Errorf("GET %s with an unknown token: got %d %s, want 401", path, a.status, a.body)
		}
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			a := w.raw(method, path+"/7", "", "")
			if body := a.decode(t); a.status != 404 || body["code"] != 404.0 || body["status"] != "error" || !strings.Contains(body["error"].(string), id) {
				t.Errorf("%s %s/7: got %d %s, want 404 with the code 404 and the name of the service", method, path, a.status, a.body)
			}
		}
		if a := w.raw("POST", path, jsonType, "{}"); a.status != 501 {
			t.Errorf("POST %s: got %d %s, want 501", path, a.status, a.body)
		}
	}
	// Outside of the Storage API the code of every error is a number, which clients decode as one.
	for _, path := range []string{"/absent/stream", "/jobs/1/unknown", "/encrypt/unknown"} {
		if a := w.raw("GET", path, "", ""); a.status != 404 || a.decode(t)["code"] != 404.0 {
			t.Errorf("GET %s: got %d %s, want 404 with the code 404", path, a.status, a.body)
		}
	}
}
