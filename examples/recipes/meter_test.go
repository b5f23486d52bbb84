package recipes

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func TestMeter(t *testing.T) {
	eng, rows := open(t, Usage())
	meter := Meter(eng, func(r *http.Request) (string, bool) {
		who, _, ok := r.BasicAuth()
		return who, ok
	})
	send := func(who, key, units string) (int, string) {
		req := httptest.NewRequest(http.MethodPost, "/usage", strings.NewReader(units))
		if who != "" {
			req.SetBasicAuth(who, "")
		}
		req.Header.Set("Idempotency-Key", key)
		answer := httptest.NewRecorder()
		meter.ServeHTTP(answer, req)
		return answer.Code, strings.TrimSpace(answer.Body.String())
	}
	for _, c := range []struct {
		who, key, units string
		status          int
		answer          string
	}{
		{"ada", "1", "3", http.StatusOK, "counted"},
		{"ada", "1", "3", http.StatusOK, "counted before"},
		{"ada", "1", "4", http.StatusConflict, "the key was used for other units"},
		{"bob", "1", "5", http.StatusOK, "counted"}, // the key of another customer is another key
		{"ada", "", "3", http.StatusBadRequest, ""},
		{"ada", "2", "many", http.StatusBadRequest, ""},
		{"", "3", "3", http.StatusUnauthorized, ""},
	} {
		if status, answer := send(c.who, c.key, c.units); status != c.status || c.answer != "" && answer != c.answer {
			t.Errorf("%s %s %s: got %d %q, want %d %q", c.who, c.key, c.units, status, answer, c.status, c.answer)
		}
	}
	var wg sync.WaitGroup
	for range 20 { // an impatient client
		wg.Go(func() { send("eve", "1", "7") })
	}
	wg.Wait()
	sums := make(map[string]string)
	for _, row := range rows("usage") {
		sums[row[0]] += row[2]
	}
	if sums["ada"] != "3" || sums["bob"] != "5" || sums["eve"] != "7" {
		t.Errorf("the table has %v", sums)
	}
}
