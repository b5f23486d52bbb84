package extractor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/synctest"
)

// A clockedAPI responds within the fake time of a bubble, and notes at which second it was asked.
type clockedAPI struct {
	t       testing.TB
	began   time.Time
	asked   []string
	answers []string
	// takes is the duration of a response.
	takes time.Duration
}

func (a *clockedAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := "404 nothing left"
	if n := len(a.asked); n < len(a.answers) {
		answer = a.answers[n]
	}
	a.asked = append(a.asked, fmt.Sprintf("%g %s", time.Since(a.began).Seconds(), r.URL.RequestURI()))
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(a.takes):
	}
	if answer == "cut" {
		return nil, io.EOF
	}
	w := httptest.NewRecorder()
	writeAnswer(w, answer)
	return w.Result(), nil
}

// clocked runs a configuration in a bubble, whose time begins at 2000-01-01 00:00:00 UTC.
func clocked(t *testing.T, cfg string, takes time.Duration, answers ...string) ([]string, error) {
	t.Helper()
	a := &clockedAPI{t: t, began: time.Now(), answers: answers, takes: takes}
	parsed, err := extractor.Parse([]byte(cfg))
	if err != nil {
		t.Fatal(err)
	}
	_, err = extractor.Run(t.Context(), parsed, extractor.State{}, extractor.Options{Transport: a})
	return a.asked, err
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	// Every response takes 4 s. The login is at 0, so it is there at 4, and the five jobs are asked one after another.
	const fives = `"jobs": [{"endpoint": "1"}, {"endpoint": "2"}, {"endpoint": "3"}, {"endpoint": "4"}]`
	never := []string{"0 /l", "4 /1", "8 /2", "12 /3", "16 /4"}
	// The session ends at 12. A request at this very moment still uses it. A time that the next login names again has
	// passed by then.
	atTwelve := []string{"0 /l", "4 /1", "8 /2", "12 /3", "16 /l", "20 /4"}
	for _, test := range []struct {
		name, expires, login string
		want                 []string
		err                  string
	}{
		{name: "never", expires: `null`, login: `{}`, want: never},
		{name: "seconds", expires: `8`, login: `{}`, want: atTwelve},
		{name: "seconds as text", expires: `"8"`, login: `{}`, want: atTwelve},
		{name: "a fraction over", expires: `7`, login: `{}`, want: []string{"0 /l", "4 /1", "8 /2", "12 /l", "16 /3", "20 /4"}},
		{name: "timestamp", expires: `{"response": "t"}`, login: `{"t": 946684812}`, want: atTwelve[:5], err: "has already passed"},
		{name: "timestamp as text", expires: `{"response": "t"}`, login: `{"t": "946684812"}`, want: atTwelve[:5], err: "has already passed"},
		{name: "date", expires: `{"response": "a.t", "relative": false}`, login: `{"a": {"t": "2000-01-01T00:00:12Z"}}`, want: atTwelve[:5], err: "has already passed"},
		{name: "phrase", expires: `{"response": "t"}`, login: `{"t": "+8 seconds"}`, want: atTwelve},
		{name: "relative", expires: `{"response": "t", "relative": true}`, login: `{"t": 8}`, want: atTwelve},
		{name: "relative as text", expires: `{"response": "t", "relative": true}`, login: `{"t": "8"}`, want: atTwelve},
		{name: "absent", expires: `{"response": "t"}`, login: `{}`, want: never},
		{name: "null", expires: `{"response": "t", "relative": true}`, login: `{"t": null}`, want: never},
		{name: "now", expires: `{"response": "t"}`, login: `{"t": 946684804}`, want: []string{"0 /l", "4 /1", "8 /l"}, err: "has already passed"},
		{name: "passed", expires: `{"response": "t"}`, login: `{"t": "2000-01-01 00:00:03"}`, want: []string{"0 /l"}, err: `login failed: GET http://h/l returned 200: the time of expiry at "t" in the response has already passed`},
		{name: "not understood", expires: `{"response": "t"}`, login: `{"t": "soon"}`, want: []string{"0 /l"}, err: "is not understood as a date"},
		{name: "not a number", expires: `{"response": "t", "relative": true}`, login: `{"t": "tomorrow"}`, want: []string{"0 /l"}, err: `at "t" in the response is not a number`},
		{name: "beyond all times", expires: `{"response": "t"}`, login: `{"t": 1e300}`, want: never},
		{name: "seconds beyond all times", expires: `{"response": "t", "relative": true}`, login: `{"t": 1e300}`, want: never},
		{name: "long ago", expires: `{"response": "t", "relative": true}`, login: `{"t": -1e300}`, want: []string{"0 /l"}, err: "has already passed"},
		{name: "a boolean", expires: `{"response": "t"}`, login: `{"t": true}`, want: []string{"0 /l"}, err: "is not a number"},
	} {
		synctestRun(t, test.name, func(t *testing.T) {
			cfg := config(`"authentication": {"type": "login", "loginRequest": {"endpoint": "l"}, "expires": `+test.expires+`}`, fives)
			answers := make([]string, len(test.want))
			for i, line := range test.want {
				answers[i] = `[]`
				if strings.HasSuffix(line, "/l") {
					answers[i] = test.login
				}
			}
			asked, err := clocked(t, cfg, 4*time.Second, answers...)
			same(t, "requests", asked, test.want)
			checkError(t, err, test.err)
		})
	}
}

// synctestRun runs a subtest in a bubble.
func synctestRun(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, f)
	})
}

func TestForceStopTime(t *testing.T) {
	t.Parallel()
	for limit, pages := range map[string]int{`8`: 2, `"9"`: 3, `"8 seconds"`: 2, `"1 minute"`: 15, `0`: 20} {
		synctestRun(t, limit, func(t *testing.T) {
			var answers []string
			for i := range 19 {
				answers = append(answers, fmt.Sprintf(`[%d]`, i))
			}
			asked, err := clocked(t, config(`"pagination": {"method": "pagenum", "forceStop": {"time": `+limit+`}}`, `"jobs": [{"endpoint": "u"}]`), 4*time.Second, append(answers, `[]`)...)
			if err != nil || len(asked) != pages {
				t.Errorf("got %d pages, error %v, want %d: %s", len(asked), err, pages, asked)
			}
		})
	}
}

// TestForceStopTimeWithoutDowntime stops a job by the time that it was at work, in two runs with a day between them.
func TestForceStopTimeWithoutDowntime(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{`20`, `"20 seconds"`} {
		synctestRun(t, limit, func(t *testing.T) {
			cfg, err := extractor.Parse([]byte(config(`"pagination": {"method": "pagenum", "forceStop": {"time": `+limit+`}}`, `"jobs": [{"endpoint": "u"}]`)))
			checkError(t, err, "")
			a := &clockedAPI{t: t, began: time.Now(), takes: 4 * time.Second, answers: []string{`[1]`, `[2]`, `[3]`, `400`}}
			state, err := extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: a})
			checkError(t, err, "returned 400")
			time.Sleep(24 * time.Hour)
			a = &clockedAPI{t: t, began: time.Now(), takes: 4 * time.Second, answers: []string{`[4]`, `[5]`, `[6]`, `[7]`}}
			_, err = extractor.Run(t.Context(), cfg, state, extractor.Options{Transport: a})
			checkError(t, err, "")
			same(t, "requests", a.asked, []string{"0 /u?page=4", "4 /u?page=5"})
		})
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	const job = `"jobs": [{"endpoint": "u"}]`
	at := func(seconds ...float64) []string {
		var out []string
		for _, s := range seconds {
			out = append(out, fmt.Sprintf("%g /u", s))
		}
		return out
	}
	for _, test := range []struct {
		name, api string
		answers   []string
		want      []string
		err       string
	}{
		{name: "delays", answers: []string{"500", "502", "503", "504", "408", "420", "429", "cut", "cut", "500", `[]`}, want: at(0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023)},
		{name: "11 attempts", answers: slices.Repeat([]string{"500 down"}, 20), want: at(0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023), err: "GET http://h/u returned 500 (attempt 11): down"},
		{name: "maxRetries", api: `"retryConfig": {"maxRetries": 1}`, answers: []string{"cut", "cut", `[]`}, want: at(0, 1), err: "GET http://h/u (attempt 2): network failure 52: EOF"},
		{name: "no retry", api: `"retryConfig": {"maxRetries": 0}`, answers: []string{"500", `[]`}, want: at(0), err: "returned 500"},
		{name: "a status that is not listed", answers: []string{"400", `[]`}, want: at(0), err: "returned 400"},
		{name: "codes replace the list", api: `"retryConfig": {"http": {"codes": [202, 404]}}`, answers: []string{"404", "202", "500"}, want: at(0, 1, 3), err: "returned 500"},
		{name: "old names", api: `"retryConfig": {"httpCodes": [404], "headerName": "Wait", "curlCodes": []}`, answers: []string{"404 Wait: 5\n", "cut"}, want: at(0, 5), err: "network failure 52"},
		{name: "seconds of the server", answers: []string{"503 Retry-After: 30\n", "503", `[]`}, want: at(0, 30, 32)},
		{name: "time of the server", answers: []string{"503 Retry-After: 946684860\n", "503 Retry-After: Sat, 01 Jan 2000 00:01:30 GMT\n", `[]`}, want: at(0, 60, 90)},
		{name: "a time that has passed", answers: []string{"503 Retry-After: 946684790\n", "503 Retry-After: Fri, 31 Dec 1999 00:00:00 GMT\n", `[]`}, want: at(0, 0, 0)},
		{name: "nonsense of the server", answers: []string{"503 Retry-After: soon\n", "503 Retry-After: 0\n", "503 Retry-After: -5\n", "503 Retry-After: inf\n", "503 Retry-After: nan\n", `[]`}, want: at(0, 1, 3, 7, 15, 31)},
		{name: "a duration of the server", answers: []string{"503 Retry-After: 1m30s\n", "503 Retry-After: 250ms\n", "503 Retry-After: 20 seconds\n", `[]`}, want: at(0, 90, 90.25, 111)},
		{name: "an ISO time of the server", answers: []string{"503 Retry-After: 2000-01-01T00:01:00Z\n", "503 Retry-After: 2000-01-01T01:01:30.5+01:00\n", `[]`}, want: at(0, 60, 90)},
		{name: "a reset with a unit", api: `"rateLimit": {"remaining": "Left", "reset": "Reset"}`, answers: []string{"429 Left: 0\nReset: 6m0s\n", "429 Left: 0\nReset: 2000-01-01T00:10:00Z\n", `[]`}, want: at(0, 360, 600)},
		{name: "403 with a pause is a rate limit", answers: []string{"403 Retry-After: 60\nslow down", `[]`}, want: at(0, 60)},
		{name: "403 when nothing remains is a rate limit", api: `"rateLimit": {"remaining": "X-RateLimit-Remaining", "reset": "X-RateLimit-Reset"}`, answers: []string{"403 X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946684920\n", `[]`}, want: at(0, 120)},
		{name: "403 is a refusal", api: `"rateLimit": {"remaining": "X-RateLimit-Remaining", "reset": "X-RateLimit-Reset"}`, answers: []string{"403 X-RateLimit-Remaining: 59\nX-RateLimit-Reset: 946684920\nno", `[]`}, want: at(0), err: "returned 403: no"},
		{name: "a time in milliseconds", answers: []string{"503 Retry-After: 1946684860000\n"}, want: at(0), err: "the server asks for a pause of 277777h46m40s"},
		{name: "a number beyond all times", answers: []string{"503 Retry-After: 1e300\n"}, want: at(0), err: "the server asks for a pause of 277777h46m40s"},
		{name: "another header", api: `"retryConfig": {"http": {"retryHeader": "X-Wait"}}`, answers: []string{"503 X-Wait: 3\n", "503 Retry-After: 60\n", `[]`}, want: at(0, 3, 5)},
		{name: "a pause that is too long", answers: []string{"503 Retry-After: 90000\n", `[]`}, want: at(0), err: "the server asks for a pause of 25h0m0s, more than 24h0m0s"},
		{
			name: "own pauses are bounded", api: `"retryConfig": {"maxRetries": 19}`, answers: slices.Repeat([]string{"500"}, 20), err: "returned 500 (attempt 20)",
			want: at(0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 8191, 16383, 32767, 65535, 131071, 217471, 303871),
		},
		{name: "an ignored status is retried first", api: `"http": {"ignoreErrors": [503]}, "retryConfig": {"maxRetries": 1}`, answers: []string{"503", `503 {"a": []}`}, want: at(0, 1)},
	} {
		synctestRun(t, test.name, func(t *testing.T) {
			asked, err := clocked(t, config(test.api, job), 0, test.answers...)
			same(t, "requests", asked, test.want)
			checkError(t, err, test.err)
		})
	}
}

// TestFailedLoginIsNotRetriedTwice lets the connection of the login fail. It has its retries, and the API request, which
// was never sent, has none.
func TestFailedLoginIsNotRetriedTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config(`"retryConfig": {"maxRetries": 2}, "authentication": {"type": "login", "loginRequest": {"endpoint": "l"}}`, `"jobs": [{"endpoint": "u"}]`)
		asked, err := clocked(t, cfg, 0, slices.Repeat([]string{"cut"}, 20)...)
		same(t, "requests", asked, []string{"0 /l", "1 /l", "3 /l"})
		checkError(t, err, "login failed: GET http://h/l (attempt 3): network failure 52: EOF")
	})
}

func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	for api, want := range map[string]string{
		`"retryConfig": {"maxRetries": 1}`:                                     "0 /u, 301 /u",
		`"http": {"requestTimeout": 2.5}, "retryConfig": {"maxRetries": 1}`:    "0 /u, 3.5 /u",
		`"http": {"requestTimeout": 0}, "retryConfig": {"maxRetries": 0}`:      "0 /u",
		`"http": {"requestTimeout": 1}, "retryConfig": {"curl": {"codes":[]}}`: "0 /u",
	} {
		synctestRun(t, api, func(t *testing.T) {
			asked, err := clocked(t, config(api, `"jobs": [{"endpoint": "u"}]`), time.Hour, `[]`)
			if got := strings.Join(asked, ", "); got != want {
				t.Errorf("requests %s, want %s", got, want)
			}
			checkError(t, err, "network failure 28: context deadline exceeded")
			if extractor.ExitStatus(err) != 1 {
				t.Errorf("exit status %d, want 1", extractor.ExitStatus(err))
			}
		})
	}
}

// TestCancel ends the context while a request is in progress, and during the pause before a retry.
func TestCancel(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped by the user")
	for name, a := range map[string]*clockedAPI{
		"request": {takes: time.Hour}, "pause": {answers: []string{"503 Retry-After: 3600\n"}},
	} {
		synctestRun(t, name, func(t *testing.T) {
			a.t, a.began = t, time.Now()
			cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u"}]`)))
			checkError(t, err, "")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Second, func() { cancel(stopped) })
			_, err = extractor.Run(ctx, cfg, extractor.State{}, extractor.Options{Transport: a})
			if !errors.Is(err, stopped) || time.Since(a.began) != 10*time.Second {
				t.Errorf("error %v after %s", err, time.Since(a.began))
			}
			if extractor.ExitStatus(err) != 2 {
				t.Errorf("exit status %d, want 2", extractor.ExitStatus(err))
			}
		})
	}
}

func TestTimeReferences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u", "params": {"p": {"time": "previousStart"}, "c": {"time": "currentStart"}, "n": {"function": "date", "args": ["H:i:s", {"function": "strtotime", "args": ["-1 hour", {"time": "currentStart"}]}]}}}, {"endpoint": "v", "params": {"t": {"function": "time"}, "c": {"time": "currentStart"}}}]`)))
		checkError(t, err, "")
		a := &clockedAPI{t: t, began: time.Now(), takes: 5 * time.Second, answers: []string{`[]`, `[]`, `500`}}
		state, err := extractor.Run(t.Context(), cfg, extractor.State{Time: extractor.StateTime{PreviousStart: 7}}, extractor.Options{Transport: a})
		checkError(t, err, "")
		same(t, "requests", a.asked, []string{"0 /u?p=7&c=946684800&n=23%3A00%3A00", "5 /v?t=946684805&c=946684800"})
		if state.Time.PreviousStart != 946684800 || state.Checkpoint != nil {
			t.Errorf("state %+v", state)
		}
	})
}

// TestHeadersOfARun takes the time of the run for headers that are computed, not the time of Parse.
func TestHeadersOfARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := extractor.Parse([]byte(config(`"http": {"headers": {"At": {"function": "time"}}}`, `"jobs": [{"endpoint": "u"}]`)))
		checkError(t, err, "")
		for _, want := range []string{"946684860", "946684920"} {
			time.Sleep(time.Minute)
			_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: roundTrip(func(r *http.Request) string {
				if got := r.Header.Get("At"); got != want {
					t.Errorf("header %s, want %s", got, want)
				}
				return `[]`
			})})
			checkError(t, err, "")
		}
	})
}

// A roundTrip responds with a text.
type roundTrip func(r *http.Request) string

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	writeAnswer(w, f(r))
	return w.Result(), nil
}
