package component_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/extractor/component"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

const token = "master-token-of-the-tests"

// world is the platform with the extractor as its only component, and an API to pull from.
type world struct {
	*storageapi.Client
	t   *testing.T
	api *httptest.Server
	mu  sync.Mutex
	// since are the values of the parameter "since" that the API has seen.
	since []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.api = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.since = append(w.since, r.URL.Query().Get("since"))
		w.mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		page := r.URL.Query().Get("page")
		switch {
		case r.Header.Get("X-Token") != "s3cret":
			rw.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/orders" && page == "":
			fmt.Fprintf(rw, `{"items":[{"id":1,"customer":{"name":"Ann"}},{"id":2,"customer":{"name":"Bob"}}],"next":"http://%s/orders?page=2"}`, r.Host)
		case r.URL.Path == "/orders":
			fmt.Fprint(rw, `{"items":[{"id":3,"customer":{"name":"Cid"}}]}`)
		case r.URL.Path == "/users":
			fmt.Fprint(rw, `{"items":[{"id":"u1"}]}`)
		default:
			rw.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(w.api.Close)
	server, err := platform.Open(t.TempDir(), platform.Options{Token: token, Components: []platform.Component{{
		Component: storageapi.Component{ID: "generic-extractor", Type: "extractor"}, Runner: component.New(component.Options{}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server)
	t.Cleanup(func() {
		front.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if w.Client, err = storageapi.New(storageapi.Options{URL: front.URL, QueueURL: front.URL, Token: token}); err != nil {
		t.Fatal(err)
	}
	return w
}

// root is the configuration that all rows share.
func (w *world) root(secret string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"parameters":{"api":{"baseUrl":%q,"pagination":{"method":"response.url","urlKey":"next"},
		"http":{"headers":{"X-Token":{"attr":"#token"}}}},
		"config":{"#token":%q,"outputBucket":"shop","incrementalOutput":false}}}`, w.api.URL+"/", secret))
}

func row(endpoint string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"parameters":{"config":{"jobs":[{"endpoint":%q,"dataField":"items","params":{"since":{"time":"previousStart"}}}]}}}`, endpoint))
}

// run waits for a job and returns its error.
func (w *world) run(config string) error {
	w.t.Helper()
	job, err := w.CreateQueueJob(w.t.Context(), storageapi.QueueJobCreate{Component: "generic-extractor", Config: config})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.WaitForQueueJob(w.t.Context(), job.ID)
	return err
}

func (w *world) table(id string) string {
	w.t.Helper()
	body, err := w.Preview(w.t.Context(), id, storageapi.RowQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// TestJobPullsTables runs a configuration with two rows twice. Each row has its tables and its state.
func TestJobPullsTables(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	config, err := w.CreateConfiguration(ctx, "generic-extractor", storageapi.ConfigurationCreate{Name: "Shop", Configuration: w.root("s3cret")})
	if err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range []string{"orders", "users"} {
		if _, err := w.CreateRow(ctx, "generic-extractor", string(config.ID), storageapi.RowCreate{RowID: endpoint, Name: endpoint, Configuration: row(endpoint)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.run(string(config.ID)); err != nil {
		t.Fatal(err)
	}
	orders := w.table("in.c-shop.orders")
	for _, name := range []string{"Ann", "Bob", "Cid"} {
		if strings.Count(orders, name) != 1 {
			t.Errorf("%s is not in the orders once:\n%s", name, orders)
		}
	}
	if users := w.table("in.c-shop.users"); !strings.Contains(users, "u1") {
		t.Errorf("users:\n%s", users)
	}
	first := len(w.since)
	if err := w.run(string(config.ID)); err != nil {
		t.Fatal(err)
	}
	if w.since[0] != "0" || w.since[first] == "0" || w.since[first] == "" {
		t.Errorf("the API was asked for records since %q: the state was not kept", w.since)
	}
	if again := w.table("in.c-shop.orders"); strings.Count(again, "Ann") != 1 {
		t.Errorf("rows of a full load are there twice:\n%s", again)
	}
}

// TestUserSeesTheMistake runs configurations that cannot work. The user sees the mistake, without the secret.
func TestUserSeesTheMistake(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for name, c := range map[string]struct {
		content json.RawMessage
		want    string
	}{
		"no api":        {json.RawMessage(`{"parameters":{"config":{}}}`), "api"},
		"refused token": {w.root("wr0ng"), "401"},
	} {
		config, err := w.CreateConfiguration(ctx, "generic-extractor", storageapi.ConfigurationCreate{Name: name, Configuration: c.content})
		if err != nil {
			t.Fatal(err)
		}
		if name == "refused token" {
			if _, err := w.CreateRow(ctx, "generic-extractor", string(config.ID), storageapi.RowCreate{Name: "x", Configuration: row("orders")}); err != nil {
				t.Fatal(err)
			}
		}
		text := fmt.Sprint(w.run(string(config.ID)))
		if !strings.Contains(text, c.want) || strings.Contains(text, "wr0ng") {
			t.Errorf("%s: got %s, want strings.Contains(text, c.want) and !strings.Contains(text, \"wr0ng\")", name, text)
		}
	}
}
