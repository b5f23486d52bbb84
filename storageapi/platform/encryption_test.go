package platform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// encrypt calls the encryption as a client without a token does.
func (w *world) encrypt(query, contentType, body string) response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", w.http.URL+"/encrypt?"+query, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	return w.do(req)
}

// runError runs a separate configuration and returns the message of the job, which must fail.
func (w *world) runError(in storageapi.QueueJobCreate) string {
	w.t.Helper()
	_, err := w.runJob(in)
	var failed *storageapi.QueueJobError
	if !errors.As(err, &failed) {
		w.t.Fatalf("the job with %s ended with %v", in.ConfigData, err)
	}
	return failed.Job.Result.Value.Message
}

// An encrypted value can be read by runs of its scope, in the clear, and by no other run. It survives a restart.
func TestEncryptedValuesReachTheRunner(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	for name, query := range map[string]string{
		"component":     "componentId=" + component,
		"project":       "componentId=" + component + "&projectId=1",
		"project alone": "projectId=1",
		"configuration": "componentId=" + component + "&projectId=1&configId=mine",
	} {
		t.Run(name, func(t *testing.T) {
			text := string(w.encrypt(query, "text/plain", `s3cr"t {{ x }}`).body)
			if !strings.HasPrefix(text, "KBC::") || strings.Contains(text, "s3cr") {
				t.Fatalf("the encrypted value is %q", text)
			}
			w.restart()
			content := `{"parameters":{"#password":"` + text + `","plain":"` + text + `","list":[{"#a":"not encrypted"}]}}`
			rec.set(nil)
			must(w.runJob(storageapi.QueueJobCreate{Config: "mine", ConfigData: raw(content)}))(t)
			want := `{"action":"run","image_parameters":{"i":1},"parameters":{"#password":"s3cr\"t {{ x }}","plain":"` + text + `","list":[{"#a":"not encrypted"}]}}`
			expectJSON(t, "configuration of the run", rec.runs[0].Configuration, want)
		})
	}
}

func TestEncryptedValuesOfOthersFailTheJob(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	mine := string(w.encrypt("componentId="+component+"&projectId=1&configId=mine", "text/plain", "secret").body)
	for name, text := range map[string]string{
		"another configuration": mine,
		"another project":       string(w.encrypt("projectId=2", "text/plain", "secret").body),
		"component elsewhere":   string(w.encrypt("componentId="+component+"&projectId=2", "text/plain", "secret").body),
		"another component":     string(w.encrypt("componentId=other", "text/plain", "secret").body),
		"another installation":  "KBC::ProjectSecure::AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA",
		"a cut value":           mine[:len(mine)-2],
		"no base64":             "KBC::ComponentSecure::?",
		"an empty value":        "KBC::ConfigSecure::",
		"another key store":     "KBC::ProjectSecureKV::eJxLtDK2qs60MrAutjI1",
		"a project elsewhere":   "KBC::ProjectWideSecure::eJxLtDK2qs60MrAutjI1",
		"an unknown scope":      "KBC::ProjectWideBranchTypeSecure::eJxLtDK2qs60MrAutjI1",
		"an old form":           "KBC::ComponentProjectEncrypted==eJxLtDK2qs60MrAutjI1==",
	} {
		t.Run(name, func(t *testing.T) {
			rec.set(nil)
			message := w.runError(storageapi.QueueJobCreate{Config: "yours", ConfigData: raw(`{"parameters":{"db":[{"#password":"` + text + `"}]}}`)})
			if !strings.HasPrefix(text, "KBC::") {
				t.Fatalf("the value to read is %q, want an encrypted one", text)
			}
			if !strings.Contains(message, "parameters.db[0].#password") || !strings.Contains(message, "encrypt it again") || strings.Contains(message, text[5:]) {
				t.Errorf("the job says %q", message)
			}
			if len(rec.rows()) != 0 {
				t.Error("the program ran")
			}
		})
	}
}

// What a program writes of its secrets, in a log or in its error, cannot be read.
func TestDecryptedValuesAreMasked(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(error) error{
		"an error for the user": platform.UserError, "an internal error": func(err error) error { return err },
	} {
		t.Run(name, func(t *testing.T) {
			rec, log := &recorder{}, &sharedText{}
			w := newWorld(t, func(o *platform.Options) {
				o.Components = []platform.Component{{Component: storageapi.Component{ID: component}, Runner: rec}}
				o.Logger = slog.New(slog.NewJSONHandler(log, nil))
			})
			const secret = `s3cr"t, and long`
			cipher := string(w.encrypt("componentId="+component, "text/plain", secret).body)
			rec.set(func(_ context.Context, run *platform.Run) error {
				run.Logger.With("config", run.Configuration).Info("logging in with "+secret, "password", secret, "error", errors.New("denied: "+secret),
					"all", map[string]any{"list": []string{secret}})
				return mark(errors.New("login with " + secret + " was refused"))
			})
			message := w.runError(storageapi.QueueJobCreate{ConfigData: raw(`{"parameters":{"#password":"` + cipher + `"}}`)})
			events := w.raw("GET", "/v2/storage/events", "", "").body
			for where, text := range map[string]string{"the result": message, "the events": string(events), "the log": log.text()} {
				if strings.Contains(text, "s3cr") || strings.Contains(text, "and long") {
					t.Errorf("%s: got %s, want !strings.Contains(text, \"s3cr\") and !strings.Contains(text, \"and long\")", where, text)
				}
			}
			if !bytes.Contains(events, []byte("logging in with ***")) {
				t.Errorf("events %s", events)
			}
		})
	}
}

// sharedText collects what several goroutines write.
type sharedText struct {
	mu      sync.Mutex
	written []byte
}

func (s *sharedText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, p...)
	return len(p), nil
}

func (s *sharedText) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.written)
}

// In JSON the members whose names begin with # are encrypted, once, and the rest stays byte by byte.
func TestEncryptJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const query = "componentId=any&projectId=1"
	once := w.encrypt(query, "application/json; charset=utf-8", `{"z":1.0,"#b":"x","a":{"#c":"y","d":["#"]},"#n":1}`)
	var out struct {
		B string `json:"#b"`
		A struct {
			C string `json:"#c"`
		} `json:"a"`
	}
	check(t, json.Unmarshal(once.body, &out))
	const prefix = "KBC::ProjectSecure::"
	if !strings.HasPrefix(out.B, prefix) || !strings.HasPrefix(out.A.C, prefix) || once.header.Get("Content-Type") != "application/json" {
		t.Fatalf("answer %s", once.body)
	}
	rest := strings.NewReplacer(out.B, "x", out.A.C, "y").Replace(string(once.body))
	if rest != `{"z":1.0,"#b":"x","a":{"#c":"y","d":["#"]},"#n":1}` {
		t.Errorf("the rest is %s", rest)
	}
	if twice := w.encrypt(query, "application/json", string(once.body)); string(twice.body) != string(once.body) {
		t.Errorf("encrypted twice: %s", twice.body)
	}
}

func TestEncryptRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *platform.Options) { o.AnyComponent = false })
	for _, c := range []struct {
		query, contentType, body string
		status                   int
		want                     string
	}{
		{"", "text/plain", "x", 400, "componentId"},
		{"projectId=one", "text/plain", "x", 400, "projectId"},
		{"projectId=1&configId=c", "text/plain", "x", 400, "componentId"},
		{"componentId=unknown", "text/plain", "x", 400, "not found"},
		{"componentId=" + platform.DefaultVariablesComponent + "&configId=c", "text/plain", "x", 400, "projectId"},
		{"componentId=" + platform.DefaultVariablesComponent, "text/plain", "", 400, "empty"},
		{"componentId=" + platform.DefaultVariablesComponent, "application/json", "{", 400, "no JSON"},
		{"componentId=" + platform.DefaultVariablesComponent, "application/xml", "x", 415, "Content-Type"},
		{"componentId=" + platform.DefaultVariablesComponent, "text/plain", strings.Repeat("x", 1<<20+1), 413, "more than"},
	} {
		a := w.encrypt(c.query, c.contentType, c.body)
		if a.status != c.status || !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s with %.20q as %s: got %d %s, want %d and %q", c.query, c.body, c.contentType, a.status, a.body, c.status, c.want)
		}
	}
}

// A key of the wrong length is refused, because with another key no value could be read.
func TestDamagedEncryptionKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.dir, "encryption.key")
	key := must(os.ReadFile(path))(t)
	if info := must(os.Stat(path))(t); info.Mode().Perm() != 0o600 || len(key) != 32 {
		t.Errorf("the key has %d bytes and mode %s", len(key), info.Mode())
	}
	check(t, w.server.Close())
	check(t, os.WriteFile(path, key[:31], 0o600))
	if _, err := platform.Open(w.dir, w.opts); err == nil || !strings.Contains(err.Error(), "encryption.key") {
		t.Errorf("opened with a damaged key: %v", err)
	}
	check(t, os.WriteFile(path, key, 0o600))
	w.open()
}
