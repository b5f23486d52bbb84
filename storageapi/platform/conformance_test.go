package platform_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// Each row is a call as a foreign client makes it, with the response that the API promises.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *platform.Options) {
		o.AnyComponent = false
		o.Components = []platform.Component{{Component: storageapi.Component{ID: component}}}
	})
	ctx := t.Context()
	w.table(ctx, "in.c-a.t", nil, "a")
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "r"}))(t)
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "gone", Name: "c"}))(t)
	check(t, w.DeleteConfiguration(ctx, component, "gone"))
	weak := must(w.CreateToken(ctx, storageapi.TokenCreate{ComponentAccess: []string{component}}))(t)
	const (
		base    = "/v2/storage"
		configs = base + "/components/" + component + "/configs"
		form    = formType
	)
	big := `{"name":"n","configuration":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
		code                     string
	}{
		{"GET", base, "", "", 200, ""},
		{"GET", base + "/", "", "", 200, ""},
		{"GET", base + "/nonsense", "", "", 404, "notFound"},
		{"PATCH", base + "/buckets", "", "", 404, "notFound"},
		{"GET", base + "/tokens/verify", "", "", 200, ""},
		{"GET", base + "/branch/default/tokens/verify", "", "", 200, ""},
		{"GET", base + "/branch/99/tokens/verify", "", "", 404, "storage.devBranch.notFound"},
		{"GET", base + "/dev-branches", "", "", 200, ""},
		{"POST", base + "/dev-branches", jsonType, `{"name":"b"}`, 202, ""},
		{"POST", base + "/dev-branches", jsonType, `{}`, 400, "storage.devBranch.validation"},

		{"GET", base + "/components", "", "", 200, ""},
		{"GET", base + "/components/" + component, "", "", 200, ""},
		{"GET", base + "/components/none", "", "", 404, "notFound"},
		{"GET", base + "/components/none/configs", "", "", 404, "notFound"},
		{"GET", configs, "", "", 200, ""},
		{"GET", configs + "?isDeleted=maybe", "", "", 400, "storage.validation"},
		{"POST", configs, jsonType, `{"name":"n"}`, 201, ""},
		{"POST", configs, form, `name=n`, 201, ""},
		{"POST", configs, "", `name=n`, 201, ""},
		{"POST", configs, jsonType, `{"name":"n","configurationId":""}`, 201, ""},
		{"POST", configs, jsonType, `{"name":"n","configurationId":"c"}`, 400, "configurationAlreadyExists"},
		{"POST", configs, jsonType, `{"name":"n","configurationId":"a/b"}`, 400, "storage.components.validation"},
		{"POST", configs, jsonType, `{}`, 400, "storage.components.validation"},
		{"POST", configs, jsonType, `{"name":""}`, 400, "storage.components.validation"},
		{"POST", configs, jsonType, `{"name":["n"]}`, 400, "storage.components.validation"},
		{"POST", configs, jsonType, `{"name":"n","isDisabled":"perhaps"}`, 400, "storage.components.validation"},
		{"POST", configs, jsonType, `{"name":"n","configuration":"{"}`, 400, "validation.invalidConfigurationFormat"},
		{"POST", configs, jsonType, `{"name":"n","configuration":7}`, 400, "validation.invalidConfigurationFormat"},
		{"POST", configs, form, `name=n&configuration=`, 400, "validation.invalidConfigurationFormat"},
		{"POST", configs, jsonType, `{"name":"n","state":"x"}`, 400, "validation.invalidStateFormat"},
		{"POST", configs, jsonType, big, 400, "storage.components.validation"},
		{"POST", configs, jsonType, `{`, 400, "validation.body"},
		{"POST", configs, jsonType, `[1]`, 400, "validation.body"},
		{"POST", configs, jsonType, "{\"name\":\"\xff\"}", 400, "validation.body"},
		{"POST", configs, form, `name=%zz`, 400, "validation.body"},
		{"POST", configs, form, `name=n&a=1&a[b]=2`, 400, "validation.body"},
		{"POST", configs, jsonType, strings.Repeat(" ", 33<<20), 413, "validation.bodyTooLarge"},
		{"GET", configs + "/c", "", "", 200, ""},
		{"GET", configs + "/none", "", "", 404, "storage.configuration.notFound"},
		{"GET", configs + "/gone", "", "", 404, "storage.configuration.notFound"},
		{"GET", configs + "/a%2Fb", "", "", 404, "storage.configuration.notFound"},
		{"PUT", configs + "/c", jsonType, `{"name":""}`, 400, "storage.components.validation"},
		{"POST", configs, jsonType, `{"name":"n","configuration":[],"state":[]}`, 201, ""},
		{"POST", configs, jsonType, `{"name":"n","configuration":null,"state":null}`, 201, ""},
		{"POST", configs, jsonType, `{"name":"n","configuration":[1]}`, 400, "validation.invalidConfigurationFormat"},
		{"POST", configs, form, `name=n&configuration=[{}]`, 400, "validation.invalidConfigurationFormat"},
		{"POST", configs, jsonType, `{"name":"n","state":[1]}`, 400, "validation.invalidStateFormat"},
		{"PUT", configs + "/c", jsonType, `{"configuration":[1]}`, 400, "validation.invalidConfigurationFormat"},
		{"PUT", configs + "/c", jsonType, `{"configuration":null}`, 400, "validation.invalidConfigurationFormat"},
		{"PUT", configs + "/c", jsonType, `{"state":null}`, 400, "validation.invalidStateFormat"},
		{"PUT", configs + "/c", form, `configuration=null&state=null`, 200, ""},
		{"PUT", configs + "/c/state", jsonType, `{"state":[1]}`, 400, "storage.components.validation"},
		{"POST", configs + "/c/rows", jsonType, `{"configuration":[1]}`, 400, "validation.invalidConfigurationFormat"},
		{"PUT", configs + "/c/rows/r", jsonType, `{"configuration":[1]}`, 400, "validation.invalidConfigurationFormat"},
		{"PUT", configs + "/c/rows/r", jsonType, `{"configuration":null}`, 400, "validation.invalidConfigurationFormat"},
		{"PUT", configs + "/none", jsonType, `{"name":"n"}`, 404, "storage.configuration.notFound"},
		{"PUT", configs + "/c/state", jsonType, `{"state":{"a":1}}`, 200, ""},
		{"PUT", configs + "/c/state", jsonType, `{"state":{},"name":"n"}`, 400, "storage.components.validation"},
		{"PUT", configs + "/c/state", jsonType, `{}`, 400, "storage.components.validation"},
		{"PUT", configs + "/c/state", jsonType, `{"state":""}`, 400, "storage.components.validation"},
		{"GET", configs + "/c/versions?include=configuration,nonsense", "", "", 200, ""},
		{"GET", configs + "/c/versions?limit=x", "", "", 400, "storage.validation"},
		{"GET", configs + "/c/versions/99", "", "", 404, "storage.configuration.version.notFound"},
		{"GET", configs + "/c/versions/x", "", "", 404, "storage.configuration.version.notFound"},
		{"POST", configs + "/c/versions/99/rollback", "", "", 404, "storage.configuration.version.notFound"},
		{"POST", configs + "/c/versions/1/create", jsonType, `{}`, 400, "storage.components.validation"},
		{"POST", configs + "/c/reset-to-default", "", "", 400, "storage.components.validation"},
		{"POST", configs + "/none/rows", jsonType, `{}`, 404, "storage.configuration.notFound"},
		{"POST", configs + "/c/rows", jsonType, `{}`, 201, ""},
		{"POST", configs + "/c/rows", jsonType, `[]`, 400, "validation.body"},
		{"POST", configs + "/c/rows", jsonType, `null`, 400, "validation.body"},
		{"POST", configs + "/c/rows", jsonType, `"text"`, 400, "validation.body"},
		{"PUT", configs + "/c", jsonType, ` [ ] `, 400, "validation.body"},
		{"POST", configs + "/gone/restore", jsonType, `[]`, 200, ""},
		{"DELETE", configs + "/gone", jsonType, `[]`, 204, ""},
		{"POST", base + "/tokens", form, `bucketPermissions={"in.c-a":"read"}`, 201, ""},
		{"POST", base + "/tokens", form, `bucketPermissions={"in.c-a":`, 400, "storage.tokens.validation"},
		{"POST", configs + "/c/rows", jsonType, `{"rowId":"r"}`, 400, "configurationRowAlreadyExists"},
		{"POST", configs + "/c/rows", jsonType, `{"isDisabled":"x"}`, 400, "storage.componentsRows.validation"},
		{"GET", configs + "/c/rows/none", "", "", 404, "storage.configuration.row.notFound"},
		{"PUT", configs + "/c/rows/r/state", jsonType, `{"state":"x"}`, 400, "validation.invalidStateFormat"},
		{"PUT", configs + "/c/rows/r/state", jsonType, `{"state":{},"x":1}`, 400, "storage.componentsRows.validation"},
		{"POST", configs + "/c/rows/r/versions/9/rollback", "", "", 404, "storage.configuration.row.version.notFound"},
		{"DELETE", configs + "/c/rows/none", "", "", 404, "storage.configuration.row.notFound"},
		{"DELETE", configs + "/c/rows/r", jsonType, `{"changeDescription":"d"}`, 204, ""},
		{"POST", configs + "/c/versions/1/rollback", jsonType, `[]`, 201, ""},
		{"POST", configs + "/c/versions/1/rollback", jsonType, `null`, 400, "validation.body"},
		{"DELETE", configs + "/c", "", "", 204, ""},
		{"GET", configs + "/c/metadata", "", "", 404, "notFound"}, // there is none without a branch

		{"GET", base + "/buckets", "", "", 200, ""},
		{"GET", base + "/buckets/in.c-a/tables", "", "", 200, ""},
		{"PUT", base + "/buckets/in.c-a?async=1", jsonType, `{"displayName":"d"}`, 202, ""},
		{"DELETE", base + "/buckets/in.c-a", "", "", 400, "buckets.deleteNotEmpty"},
		{"DELETE", base + "/buckets/in.c-none", "", "", 404, "storage.buckets.notFound"},
		{"POST", base + "/buckets/in.c-a/tables-async", jsonType, `{"name":"u","dataFileId":1}`, 404, "storage.files.notFound"},
		{"POST", base + "/buckets/in.c-a/tables-async", jsonType, `{"name":"u"}`, 400, "storage.tables.validation"},
		{"POST", base + "/buckets/in.c-a/tables-definition", jsonType, `{"name":"u.v","columns":[{"name":"a"}]}`, 400, "storage.tables.validation"},
		{"POST", base + "/buckets/in.c-a/tables-definition", form, `name=u&columns[0][name]=a`, 202, ""},
		{"GET", base + "/tables?include=columns,buckets,metadata", "", "", 200, ""},
		{"GET", base + "/tables/in.c-a.none", "", "", 404, "storage.tables.notFound"},
		{"PUT", base + "/tables/in.c-a.t", jsonType, `{"displayName":"_t"}`, 400, "storage.tables.validation"},
		{"GET", base + "/tables/in.c-a.t/data-preview?whereFilters[0][column]=a&whereFilters[0][operator]=like&whereFilters[0][values][0]=x", "", "", 400, "storage.tables.invalidSelection"},
		{"POST", base + "/tables/in.c-a.t/import-async", jsonType, `{"dataFileId":1,"delimiter":"::"}`, 404, "storage.files.notFound"},
		{"POST", base + "/tables/in.c-a.t/primary-key", jsonType, `{"columns":[]}`, 400, "storage.validation.primaryKey"},
		{"POST", base + "/tables/in.c-a.t/metadata", jsonType, `{"metadata":[{"key":"k","value":"v"}]}`, 400, "storage.metadata.validation"},
		{"DELETE", base + "/tables/in.c-a.t/metadata/999", "", "", 404, "storage.metadata.notFound"},
		{"DELETE", base + "/tables/in.c-a.t?async=1", "", "", 202, ""},
		{"POST", base + "/files/prepare", jsonType, `{}`, 400, "storage.files.validation"},
		{"POST", base + "/files/prepare", jsonType, `{"name":"n","federationToken":false}`, 400, "storage.files.validation"},
		{"POST", base + "/files/prepare", jsonType, `{"name":"n","tags":null,"federationToken":1,"isEncrypted":true}`, 201, ""},
		{"GET", base + "/files/1", "", "", 404, "storage.files.notFound"},
		{"DELETE", base + "/files/1", "", "", 404, "storage.files.notFound"},
		{"GET", base + "/jobs/x", "", "", 404, "storage.jobs.notFound"},
		{"GET", base + "/jobs?created_time_from=yesterday", "", "", 400, "storage.validation"},
		{"POST", base + "/tokens", jsonType, `{"description":"` + strings.Repeat("x", 256) + `"}`, 400, "storage.tokens.validation"},
		{"POST", base + "/tokens", jsonType, `{"expiresIn":-1}`, 400, "storage.tokens.validation"},
		{"GET", base + "/tokens/1", "", "", 404, "storage.tokens.notFound"},
		{"POST", base + "/events", jsonType, `{"message":"m"}`, 400, "storage.events.validation"},
		{"POST", base + "/events", jsonType, `{"message":"m","component":"c","params":"{\"a\":1}"}`, 201, ""},
		{"POST", base + "/tickets", "", "", 201, ""},
	} {
		a := w.raw(c.method, c.path, c.kind, c.body)
		what := c.method + " " + c.path + " " + c.body[:min(80, len(c.body))]
		if a.status != c.status {
			t.Errorf("%s: status %d, want %d: %.300s", what, a.status, c.status, a.body)
			continue
		}
		if a.status != 204 && !strings.HasPrefix(a.header.Get("Content-Type"), jsonType) {
			t.Errorf("%s: got content type %q, want %s", what, a.header.Get("Content-Type"), jsonType)
		}
		if c.status < 400 {
			continue
		}
		var body struct{ Error, Code, ExceptionID, Status string }
		if err := json.Unmarshal(a.body, &body); err != nil || body.Error == "" || body.Code != c.code || body.ExceptionID == "" || body.Status != "error" {
			t.Errorf("%s: error body %.300s, want code %s", what, a.body, c.code)
		}
	}
	// What a token without rights may not do.
	for _, c := range []struct{ method, path, body string }{
		{"POST", base + "/buckets", `{"name":"x"}`},
		{"DELETE", configs + "/gone", ""},
		{"POST", base + "/dev-branches", `{"name":"x"}`},
		{"GET", base + "/tables/in.c-a.t", ""},
		{"GET", base + "/tokens/1001", ""},
		{"GET", base + "/buckets/in.c-none", ""},
	} {
		a := w.raw(c.method, c.path, jsonType, c.body, storageapi.TokenHeader, string(weak.Token))
		if a.status != 403 || !strings.Contains(string(a.body), `"code":"accessDenied"`) {
			t.Errorf("%s %s with few rights: got %d %s, want 403 accessDenied", c.method, c.path, a.status, a.body)
		}
	}
}

// The index and the portal have every field, and need no token.
func TestIndexAndPortal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *platform.Options) {
		o.Components = []platform.Component{{
			Component: storageapi.Component{ID: component, Type: "extractor", Name: "Mine", Flags: []string{"deprecated"}},
			Runner:    &recorder{},
		}}
		o.Services = []platform.PortalService{
			{ID: "stream", Name: "Stream", URL: "https://stream.example.com", OpenAPISpecURL: "https://stream.example.com/openapi.yaml"},
			{ID: "hidden", URL: "https://hidden.example.com"},
		}
		o.Features, o.Stack = []string{"f"}, "local.example.com"
	})
	a := w.raw("GET", "/v2/storage", "", "", storageapi.TokenHeader, "")
	index := a.decode(t)
	for _, field := range []string{"host", "api", "version", "revision", "documentation", "components", "services", "urlTemplates", "features"} {
		if _, ok := index[field]; !ok {
			t.Errorf("the index has no %s", field)
		}
	}
	if index["api"] != "storage" || index["version"] != "v2" {
		t.Errorf("index %s", a.body)
	}
	components := index["components"].([]any)
	first := components[0].(map[string]any)
	for _, field := range []string{
		"id", "type", "name", "description", "longDescription", "version", "hasUI", "hasRun", "ico32", "ico64", "data", "flags",
		"configurationSchema", "emptyConfiguration", "uiOptions", "configurationDescription", "documentationUrl",
	} {
		if _, ok := first[field]; !ok {
			t.Errorf("the component has no %s", field)
		}
	}
	data := first["data"].(map[string]any)
	for _, field := range []string{
		"definition", "vendor", "configuration_format", "network", "memory", "forward_token", "forward_token_details", "default_bucket",
		"default_bucket_stage", "staging_storage",
	} {
		if _, ok := data[field]; !ok {
			t.Errorf("the data of the component has no %s", field)
		}
	}
	if region := data["definition"].(map[string]any)["repository"].(map[string]any)["region"]; region == nil {
		t.Error("no repository.region")
	}
	if first["hasRun"] != true || first["configurationDescription"] != nil || len(components) != 2 || components[1].(map[string]any)["id"] != platform.DefaultVariablesComponent {
		t.Errorf("component %v", first)
	}
	if got := must(w.Index(t.Context()))(t); got.Service("stream") != "https://stream.example.com" || got.Service("queue") != w.http.URL || got.Service("hidden") == "" {
		t.Errorf("services %+v", got.Services)
	}
	if got := must(w.Services(t.Context()))(t); len(got.Components) != 0 {
		t.Errorf("components that were excluded: %v", got.Components)
	}
	if a = w.raw("GET", "/v2/storage?exclude=componentDetails", "", ""); strings.Contains(string(a.body), "emptyConfiguration") || !strings.Contains(string(a.body), `"ico128"`) {
		t.Errorf("index without details %s", a.body)
	}

	portal := must(w.Portal(t.Context(), w.http.URL))(t)
	var ids []string
	for _, s := range portal.Services {
		ids = append(ids, s.ID)
		if s.Name == "" || s.APIURL == "" || !strings.HasSuffix(s.OpenAPISpecURL, ".json") && !strings.HasSuffix(s.OpenAPISpecURL, ".yaml") {
			t.Errorf("portal %+v", s)
		}
	}
	if portal.Stack != "local.example.com" || !slices.Equal(ids, []string{"storage", "queue", "encryption", "stream"}) {
		t.Errorf("portal %+v", portal)
	}
	for _, s := range portal.Services[:3] {
		spec := w.raw("GET", strings.TrimPrefix(s.OpenAPISpecURL, w.http.URL), "", "", storageapi.TokenHeader, "").decode(t)
		paths, _ := spec["paths"].(map[string]any)
		want := map[string]string{"storage": "/v2/storage/components/{component}/configs/{config}", "queue": "/jobs", "encryption": "/encrypt"}[s.ID]
		if _, ok := paths[want]; spec["openapi"] == nil || !ok {
			t.Errorf("the description of %s has no %s", s.ID, want)
		}
	}
}

// A public address of the server is the beginning of every address in a response.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *platform.Options) { o.PublicURL = "https://public.example.com/" })
	if index := must(w.Index(t.Context()))(t); index.Service("queue") != "https://public.example.com" || index.Host != "public.example.com" {
		t.Errorf("index %+v", index)
	}
	f := must(w.PrepareFile(t.Context(), storageapi.FilePrepare{Name: "n"}))(t)
	if !strings.HasPrefix(string(f.URL), "https://public.example.com/blob/") ||
		!strings.HasPrefix(string(f.AzureUpload.Credentials.SASConnectionString), "BlobEndpoint=https://public.example.com/blob;SharedAccessSignature=") {
		t.Errorf("file %q", string(f.URL))
	}
	if b := must(w.CreateBucket(t.Context(), storageapi.BucketCreate{Name: "a"}))(t); b.URI != "https://public.example.com/v2/storage/buckets/in.c-a" {
		t.Errorf("bucket %s", b.URI)
	}
}

func TestServerOptions(t *testing.T) {
	t.Parallel()
	_, err := platform.Open(t.TempDir(), platform.Options{
		Token: "short", ProjectID: -1, PublicURL: "x", Services: []platform.PortalService{{ID: "queue"}}, Components: []platform.Component{{}},
	})
	for _, part := range []string{"token", "ProjectID", "PublicURL", "service", "component"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not name the %s", err, part)
		}
	}
	if _, err = platform.Open(t.TempDir(), platform.Options{}); err == nil || !strings.Contains(err.Error(), "Options.Token is required") {
		t.Errorf("a new directory without a token: %v", err)
	}
	w := newWorld(t)
	w.opts.Token = "another-master-token"
	w.restart()
	if _, err := w.VerifyToken(t.Context()); !storageapi.IsUnauthorized(err) {
		t.Errorf("the master token before: %v", err)
	}
	must(w.client("another-master-token").VerifyToken(t.Context()))(t)
}
