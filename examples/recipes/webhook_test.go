package recipes

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/stream"
)

func TestWebhook(t *testing.T) {
	eng, rows := open(t, Deliveries("secret"))
	key := []byte("key of the provider")
	handler := Webhook(stream.Ingest(eng, stream.Options{}), "/stream/1/hooks/secret", key)
	deliver := func(id, body string, sent time.Time, signed string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
		stamp := fmt.Sprint(sent.Unix())
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "." + signed))
		req.Header.Set("Webhook-Id", id)
		req.Header.Set("Webhook-Timestamp", stamp)
		req.Header.Set("Webhook-Signature", "v1,bm8= v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, req)
		return answer
	}
	const body = `{"order": 7}`
	for try := range 2 { // the provider has lost the first response
		answer := deliver("d-1", body, time.Now(), body)
		if answer.Code != http.StatusOK || (answer.Header().Get("Idempotent-Replayed") == "true") != (try == 1) {
			t.Errorf("try %d: %d %s %v", try, answer.Code, answer.Body, answer.Header())
		}
	}
	for _, refused := range []*httptest.ResponseRecorder{
		deliver("d-2", `{"order": 8}`, time.Now(), body),
		deliver("", body, time.Now(), body),
		deliver("d-3", body, time.Now().Add(-time.Hour), body),
		deliver("d-4", body, time.Now().Add(time.Hour), body),
	} {
		if refused.Code != http.StatusUnauthorized {
			t.Errorf("got %d %s, want 401", refused.Code, refused.Body)
		}
	}
	if got := rows("in.c-hooks.deliveries"); len(got) != 1 || got[0][0] != "d-1" || got[0][2] != body {
		t.Errorf("the table has %q", got)
	}
}
