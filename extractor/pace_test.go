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

// TestRateOfParallelRequests lets the server say that nothing remains while other requests wait for their turn. They wait for the reset too, and
// the rate holds after it. A login counts.
func TestRateOfParallelRequests(t *testing.T) {
	const login = `"authentication": {"type": "login", "loginRequest": {"endpoint": "in"}}, `
	for name, test := range map[string]struct {
		api  string
		want []string
	}{
		"a rate, and headers": {`"rateLimit": {"requests": 1, "remaining": "Left", "reset": "Reset"}`, []string{"0", "30", "31", "32", "33"}},
		"headers only":        {`"rateLimit": {"remaining": "Left", "reset": "Reset"}`, []string{"0", "0", "0", "0", "30"}}, // four are in progress
		"a burst":             {`"rateLimit": {"requests": 1, "burst": 2, "remaining": "Left", "reset": "Reset"}`, []string{"0", "0", "30", "30", "31"}},
		"a login":             {login + `"rateLimit": {"requests": 1, "remaining": "Left", "reset": "Reset"}`, []string{"0 /in", "30", "31", "32", "33", "34"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var mu sync.Mutex
				var asked []string
				cfg, err := extractor.Parse([]byte(config(test.api, `"parallelJobs": 4, "jobs": [{"endpoint": "1"}, {"endpoint": "2"}, {"endpoint": "3"}, {"endpoint": "4"}, {"endpoint": "5"}]`)))
				checkError(t, err, "")
				_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
					at := fmt.Sprintf("%g", time.Since(began).Seconds())
					mu.Lock()
					if r.URL.Path == "/in" {
						at += " /in"
					}
					asked = append(asked, at)
					first := len(asked) == 1
					mu.Unlock()
					w := httptest.NewRecorder()
					if time.Sleep(time.Second / 2); first {
						writeAnswer(w, "Left: 0\nReset: 946684830\n{}")
					} else {
						time.Sleep(time.Second)
						writeAnswer(w, "Left: 9\nReset: 946684830\n[]")
					}
					return w.Result(), nil
				})})
				checkError(t, err, "")
				same(t, "requests", asked, test.want)
			})
		})
	}
}

// TestJitterIsBounded has a bound of pauses that jitter would exceed. Neither own pauses nor the server's do, and no request fails for it.
func TestJitterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			cfg, err := extractor.Parse([]byte(config(`"retryConfig": {"jitter": 1}`, `"jobs": [{"endpoint": "u"}]`)))
			checkError(t, err, "")
			a := &clockedAPI{t: t, began: time.Now(), answers: append(slices.Repeat([]string{"500 down", "503 Retry-After: 9\n"}, 5), `[]`)}
			_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: a, MaxRetryDelay: 10 * time.Second})
			checkError(t, err, "")
			before := 0.0
			for i, line := range a.asked {
				var at float64
				_, err := fmt.Sscanf(line, "%g", &at)
				checkError(t, err, "")
				if pause := at - before; pause > 10.001 || i > 0 && i%2 == 0 && pause < 8.999 {
					t.Fatalf("requests %s", strings.Join(a.asked, ", "))
				}
				before = at
			}
		}
	})
}

// TestRateOfAttempts counts retries, redirects and logins as requests.
func TestRateOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const api = `"rateLimit": {"requests": 1, "seconds": 10}, "authentication": {"type": "login", "loginOn": [401], "loginRequest": {"endpoint": "in"}}`
		asked, err := clocked(t, config(api, `"jobs": [{"endpoint": "u"}, {"endpoint": "v"}]`), 0, `{}`, "500 ", "302 Location: /w\n", `[]`, "401 ", `{}`, `[]`)
		checkError(t, err, "")
		same(t, "requests", asked, []string{"0 /in", "10 /u", "20 /u", "30 /w", "40 /v", "50 /in", "60 /v"})
	})
}
