package recipes

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/stream"
)

// A tenant cannot write rows of another tenant, by a header, by the other's key, or without its own key.
func TestTenants(t *testing.T) {
	eng, rows := open(t, SharedEvents("secret"))
	keys := map[string]string{"key-a": "acme", "key-b": "bolt"}
	handler := Tenants(stream.Ingest(eng, stream.Options{}), "/stream/1/app/secret", func(r *http.Request) (string, bool) {
		tenant, ok := keys[r.Header.Get("X-Api-Key")]
		return tenant, ok
	})
	send := func(key, body string, header ...string) int {
		r := httptest.NewRequest(http.MethodPost, "/events", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Api-Key", key)
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	for i, got := range []int{
		send("key-a", `{"kind":"paid"}`), send("key-b", `{"kind":"paid"}`, "X-Tenant", "acme"), send("wrong", `{"kind":"paid"}`, "X-Tenant", "acme"),
		send("key-a", `{"kind":"once"}`, "Idempotency-Key", "1"), send("key-b", `{"kind":"once"}`, "Idempotency-Key", "1"), send("key-b", `{"kind":"once"}`, "Idempotency-Key", "1"),
	} {
		if want := []int{200, 200, 401, 200, 200, 200}[i]; got != want {
			t.Errorf("request %d: status %d, want %d", i, got, want)
		}
	}
	var got []string
	for _, row := range rows("events") {
		got = append(got, row[0]+" "+row[2])
	}
	slices.Sort(got)
	if want := []string{"acme once", "acme paid", "bolt once", "bolt paid"}; !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
}
