package recipes

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestService(t *testing.T) {
	eng, rows := open(t, Requests(), Orders())
	mux := http.NewServeMux()
	mux.Handle("POST /orders", PlaceOrder(eng))
	mux.HandleFunc("/broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	service := LogRequests(eng, slog.New(slog.DiscardHandler))(mux)
	for _, c := range []struct {
		path, key, body string
		want            int
	}{
		{"/orders", "k1", `{"number":"A-1"}`, http.StatusCreated},
		{"/orders", "k1", `{"number":"A-1"}`, http.StatusCreated}, // the client has lost the response
		{"/orders", "k1", `{"number":"A-2"}`, http.StatusUnprocessableEntity},
		{"/orders", "k2", `{}`, http.StatusUnprocessableEntity},
		{"/orders", "", `{"number":"A-3"}`, http.StatusBadRequest},
		{"/nowhere", "k3", `{}`, http.StatusNotFound},
	} {
		req := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
		req.Header.Set("Idempotency-Key", c.key)
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, req)
		if answer.Code != c.want {
			t.Errorf("%s %s: got %d %s, want %d", c.key, c.body, answer.Code, answer.Body, c.want)
		}
	}
	func() {
		defer func() {
			if failed := recover(); failed != http.ErrAbortHandler {
				t.Errorf("the panic of a handler became %v", failed)
			}
		}()
		service.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/broken", nil))
	}()
	if got := rows("in.c-shop.orders"); len(got) != 1 || got[0][1] != "A-1" {
		t.Errorf("orders %q", got)
	}
	var statuses []string
	for _, row := range rows("in.c-shop.requests") {
		statuses = append(statuses, row[2])
	}
	if got := strings.Join(statuses, " "); got != "201 201 422 422 400 404 500" {
		t.Errorf("requests with status %s", got)
	}
}

// While the engine is closed, requests still get a response, and an order is not accepted.
func TestServiceWithoutEngine(t *testing.T) {
	eng, _ := open(t, Requests(), Orders())
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	service := LogRequests(eng, slog.New(slog.NewTextHandler(&log, nil)))(PlaceOrder(eng))
	req := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"number":"A-1"}`))
	req.Header.Set("Idempotency-Key", "k")
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, req)
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(log.String(), "not recorded") {
		t.Errorf("got %d %s, log %q, want 503 and \"not recorded\"", answer.Code, answer.Body, &log)
	}
}
