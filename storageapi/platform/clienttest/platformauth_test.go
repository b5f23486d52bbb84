package clienttest

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/platformauth"
	"github.com/forebay/forebay/stream/streamapi"
)

const (
	masterToken   = "1-1-master-token-of-the-project"
	personalToken = "kbc_pat_of-a-person"
)

// TestTokensOfStreamAPI puts the Stream API before a server of the platform.
func TestTokensOfStreamAPI(t *testing.T) {
	p, err := platform.Open(t.TempDir(), platform.Options{
		Token: masterToken, ProjectID: 7, ProgrammaticTokens: []storageapi.Secret{personalToken},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	storage := httptest.NewServer(p)
	defer storage.Close()
	client, err := storageapi.New(storageapi.Options{URL: storage.URL, Token: masterToken})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := client.CreateToken(t.Context(), storageapi.TokenCreate{Description: "limited"})
	if err != nil {
		t.Fatal(err)
	}

	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: buffertest.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	cat, err := catalog.Open(filepath.Join(t.TempDir(), "catalog"), eng, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	ask := func(project int, method, token, header string) (int, string) {
		t.Helper()
		auth, err := platformauth.New(client, platformauth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		api, err := streamapi.New(cat, streamapi.Options{Auth: auth, Ingest: stream.Options{ProjectID: project}, IngestURL: "http://in.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(method, "/v1/branches/default/sources", strings.NewReader(`{"type":"http","name":"Web"}`))
		req.Header.Set("X-StorageApi-Token", token)
		if header != "" {
			req.Header.Set("X-KBC-ProjectId", header)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	for _, tt := range []struct {
		project               int
		method, token, header string
		status                int
		part                  string
	}{
		{7, "GET", personalToken, "7", 200, `"projectId": 7`},
		{7, "POST", personalToken, "7", 202, "api.create.source"},
		{7, "GET", personalToken, "", 400, "stream.api.missingField"},
		{7, "GET", personalToken, "8", 401, "storage.tokenInvalid"},
		{8, "GET", personalToken, "8", 401, "storage.tokenInvalid"},
		{7, "GET", personalToken + "x", "7", 401, "storage.tokenInvalid"},
		{7, "GET", "kbc_at_" + strings.Repeat("x", 5000), "7", 401, "storage.tokenInvalid"},
		{7, "GET", masterToken, "", 200, `"projectId": 7`},
		{7, "POST", masterToken, "", 409, "stream.api."},
		{7, "GET", string(limited.Token), "", 401, "stream.api.masterTokenRequired"},
		{7, "GET", "1-1-unknown", "", 401, "storage.tokenInvalid"},
		{7, "GET", strings.Repeat("x", 5000), "", 401, "storage.tokenInvalid"},
		{8, "GET", masterToken, "", 401, "storage.tokenInvalid"},
	} {
		if status, body := ask(tt.project, tt.method, tt.token, tt.header); status != tt.status || !strings.Contains(body, tt.part) || strings.Contains(body, tt.token) {
			t.Errorf("project %d, %s with %.30q: %d %s, want %d %s", tt.project, tt.method, tt.token, status, body, tt.status, tt.part)
		}
	}
	for _, task := range cat.Tasks() {
		if _, err := task.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	source, err := cat.Source("web")
	if err != nil || source.Created.By.TokenID == "" || source.Created.By.UserName != "Admin" {
		t.Errorf("created by %+v, %v", source.Created.By, err)
	}
}
