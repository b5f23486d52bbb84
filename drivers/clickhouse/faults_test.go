package clickhouse

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// roundTrip answers requests without a server.
type roundTrip func(*http.Request, string) (status int, header, body string)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	sql, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, header, body := f(r, string(sql))
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
	if name, value, found := strings.Cut(header, ": "); found {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

// A target that is printed shows neither a password nor a token.
func TestPrintedTargetHasNoSecret(t *testing.T) {
	token := func(context.Context) (string, error) { return "hunter2", nil }
	for address, o := range map[string]Options{"clickhouse://u:hunter2@host/db": {}, "clickhouse://host/db": {Token: token}} {
		target, err := Open(address, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := target.client.authorize(t.Context(), http.Header{}); err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(form, target); strings.Contains(text, "hunter2") {
				t.Errorf("%s of a target is %s", form, text)
			}
		}
	}
}
