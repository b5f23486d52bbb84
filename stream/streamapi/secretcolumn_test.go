package streamapi

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/stream"
)

// TestSecretColumn checks that a value of a secret column is in no response, log or statistics, and the same value of another column is.
func TestSecretColumn(t *testing.T) {
	const value = "hunter2"
	for _, secret := range []bool{false, true} {
		var seen, log bytes.Buffer // everything written outside the table
		t.Run(fmt.Sprint("secret ", secret), func(t *testing.T) {
			logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			s := newService(t, serviceOptions{engine: forebay.Options{Logger: logger}, ingest: stream.Options{Logger: logger}})
			column := `{"type":"path","name":"%s","path":"v","dataType":"%s","secret":` + fmt.Sprint(secret) + `}`
			s.done("POST", b+"/sources", `{"type":"http","name":"Web","sinks":[{"type":"table","name":"A","table":{"type":"`+DefaultTableType+
				`","tableId":"in.c-web.a","mapping":{"columns":[{"type":"uuid","name":"id"},`+fmt.Sprintf(column, "n", "int64")+`,`+fmt.Sprintf(column, "s", "string")+`]}}}]}`)
			if got, want := s.get(b+"/sources/web/sinks/a").at("table.mapping.columns.1.secret"), any(true); secret != (got == want) {
				t.Errorf("the sink has the mark %v", got)
			}
			url := s.get(b + "/sources/web").at("http.url").(string)
			for _, to := range []string{url, s.server.URL + b + "/sources/web/test"} {
				req, err := http.NewRequest("POST", to, strings.NewReader(`{"v":"`+value+`"}`))
				must(t, err)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set(tokenHeader, testToken)
				resp, err := http.DefaultTransport.RoundTrip(req)
				must(t, err)
				defer resp.Body.Close()
				if _, err := io.Copy(&seen, resp.Body); err != nil || resp.StatusCode != 422 {
					t.Errorf("%s: got status %d, %v, want 422, no error", to, resp.StatusCode, err)
				}
			}
			fmt.Fprintf(&seen, "%+v %s", s.eng.Stats(), s.get(b+"/aggregation/sources").text)
		})
		seen.Write(log.Bytes()) // the service has ended
		if text := seen.String(); strings.Contains(text, value) == secret || !strings.Contains(text, "malformed") || strings.Contains(text, `"value": "***"`) != secret {
			t.Errorf("secret %t: %s", secret, text)
		}
	}
}
