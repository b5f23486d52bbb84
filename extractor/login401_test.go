package extractor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/synctest"
)

// TestParallelRequestsShareANewLogin lets the login end while four requests are in progress. All get 401, one logs in, and each is sent once more.
func TestParallelRequestsShareANewLogin(t *testing.T) {
	for name, auth := range map[string]string{
		"login":  `"type": "login", "loginOn": [401], "loginRequest": {"endpoint": "in"}, "apiRequest": {"headers": {"Authorization": {"function": "concat", "args": ["Bearer ", {"response": "access_token"}]}}}`,
		"oauth2": `"type": "oauth2", "grant": "refresh_token", "tokenUrl": "in", "clientId": "c", "refreshToken": "rt-0"`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, err := extractor.Parse([]byte(config(`"authentication": {`+auth+`}`, `"jobs": [{"endpoint": "a", "parallelChildren": 4, "children": [{"endpoint": "c/{id}", "dataType": "c", "placeholders": {"id": "id"}}]}]`)))
				checkError(t, err, "")
				var mu sync.Mutex
				var asked []string
				logins := 0
				state, err := extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					w := httptest.NewRecorder()
					token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer at-")
					asked = append(asked, strings.TrimSpace(r.URL.Path+" "+token))
					switch {
					case r.URL.Path == "/in":
						logins++
						fmt.Fprintf(w, `{"access_token": "at-%d", "refresh_token": "rt-%[1]d"}`, logins)
					case r.URL.Path == "/a":
						fmt.Fprint(w, `[{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]`)
					case token != "2":
						w.WriteHeader(http.StatusUnauthorized)
					default:
						fmt.Fprint(w, `[1]`)
					}
					return w.Result(), nil
				})})
				checkError(t, err, "")
				slices.Sort(asked)
				same(t, "requests", asked, []string{"/a 1", "/c/1 1", "/c/1 2", "/c/2 1", "/c/2 2", "/c/3 1", "/c/3 2", "/c/4 1", "/c/4 2", "/in", "/in"})
				for _, token := range state.Tokens {
					if token != "rt-2" {
						t.Errorf("the state has the token %s", token)
					}
				}
			})
		})
	}
}
