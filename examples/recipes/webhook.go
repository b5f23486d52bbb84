package recipes

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// Deliveries is a source for signed webhooks. The id of the delivery is a column, because providers repeat deliveries for days.
func Deliveries(secret string) forebay.Source {
	return forebay.Source{ID: "hooks", Secret: secret, Sinks: []forebay.Sink{{
		ID: "deliveries",
		Table: forebay.Table{ID: "in.c-hooks.deliveries", Columns: mapping.Columns{
			mapping.Template("delivery", `Header("Webhook-Id")`, mapping.RawString()), mapping.Datetime("at"), mapping.Body("event"),
		}},
	}}}
}

// Webhook checks the signature of each delivery and hands it to events, the handler of package stream, at the path of a source.
func Webhook(events http.Handler, path string, key []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body is incomplete or too large", http.StatusBadRequest)
			return
		}
		if err := verify(r.Header, body, key, time.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		event := r.Clone(r.Context())
		event.URL = &url.URL{Path: path}
		event.Body, event.ContentLength, event.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		event.Header.Set("Idempotency-Key", r.Header.Get("Webhook-Id"))
		events.ServeHTTP(w, event)
	})
}

// verify checks the signature over the bytes as they were sent. A signature is valid for five minutes around its time.
func verify(h http.Header, body, key []byte, now time.Time) error {
	id, sent := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if id == "" || err != nil {
		return errors.New("Webhook-Id or Webhook-Timestamp is missing or malformed")
	}
	if age := now.Sub(time.Unix(seconds, 0)); age.Abs() > 5*time.Minute {
		return errors.New("the signature is too old, or from the future")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + sent + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	for signature := range strings.FieldsSeq(h.Get("Webhook-Signature")) { // several while the key is changed
		encoded, ok := strings.CutPrefix(signature, "v1,")
		got, err := base64.StdEncoding.DecodeString(encoded)
		if ok && err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return errors.New("the signature is wrong")
}
