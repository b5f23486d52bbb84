package extractor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/extractor"
)

// TestWideAnswers reads responses whose work must grow with their size, not with its square, which would be minutes.
func TestWideAnswers(t *testing.T) {
	t.Parallel()
	var pairs, fields, clashes strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&pairs, "&p%d[a]=1", i)
		fmt.Fprintf(&fields, `, "k%d": 1`, i)
		fmt.Fprintf(&clashes, `, "%c": 1`, rune(0x4e00+i%20_000))
	}
	pages := `"pagination": {"method": "response.url", "paramIsQuery": true}`
	for name, answer := range map[string]string{
		"link": `{"d": [1], "next_page": "?` + pairs.String() + `"}`, "fields": `[{"k": 1` + fields.String() + `}, {"x": 1` + fields.String() + `, "k": 2}]`,
		"names": `[{"a": 1` + clashes.String() + `}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := extractor.Parse([]byte(config(pages, `"jobs": [{"endpoint": "u"}]`)))
			checkError(t, err, "")
			a := newAPI(t, answer, `[]`)
			transport := a.transport()
			defer transport.CloseIdleConnections()
			began := time.Now()
			_, err = extractor.RunTables(t.Context(), cfg, extractor.State{}, t.TempDir(), extractor.Options{Transport: transport})
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			// The server refuses a line as long as that link. The URL of the request must not fill the error.
			if name != "link" {
				checkError(t, err, "")
			} else if err != nil && len(err.Error()) > 5000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestNestedLinks reads names with brackets in links, including meaningless ones.
func TestNestedLinks(t *testing.T) {
	t.Parallel()
	deep := "d" + strings.Repeat("[x]", 100_000)
	for link, want := range map[string]string{
		"a=1&a=2": `{"a":"2"}`, "a=1&a[b]=2": `{"a":{"b":"2"}}`, "a[b]=1&a=2": `{"a":"2"}`, "a[]=1&a[]=2": `["1","2"]`,
		"a[b][]=1&a[b][]=2&c=3": `{"a":{"b":["1","2"]},"c":"3"}`, "[x]=1&a[=2&b]=3": `{"[x]":"1","a[":"2","b]":"3"}`, deep + "=1": `{"` + deep + `":"1"}`,
	} {
		if link == "a[]=1&a[]=2" {
			want = `{"a":["1","2"]}`
		}
		story{
			name: link[:min(len(link), 30)], api: `"pagination": {"method": "response.url", "paramIsQuery": true}`, config: `"jobs": [{"endpoint": "u", "method": "POST"}]`,
			answers: []string{`{"d": [1], "next_page": "` + link + `"}`, `[]`}, requests: []string{"POST /u application/json []", "POST /u application/json " + want},
		}.run(t)
	}
}

// TestCancelTables ends the context while rows are gathered and while they are written.
func TestCancelTables(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped by the user")
	cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u"}]`)))
	checkError(t, err, "")
	var page *extractor.Page
	a := newAPI(t, `[1, 2]`)
	transport := a.transport()
	defer transport.CloseIdleConnections()
	_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: transport, Emit: func(_ context.Context, p *extractor.Page) error {
		page = p
		return nil
	}})
	checkError(t, err, "")
	tables, err := extractor.NewTables(cfg, extractor.State{}, nil)
	checkError(t, err, "")
	defer tables.Close()
	checkError(t, tables.Add(t.Context(), page), "")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	for what, err := range map[string]error{"Add": tables.Add(ctx, page), "Save": tables.Save(ctx, t.TempDir())} {
		if !errors.Is(err, stopped) {
			t.Errorf("%s: got error %v, want %v", what, err, stopped)
		}
	}
}

// TestRequestsInTheLog shows every request in the order in which they are sent, redirected ones too.
func TestRequestsInTheLog(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `{"t": 1}`, "302 Location: /v\n", `[]`)
	r := extract(t, a, config(`"authentication": {"type": "login", "loginRequest": {"endpoint": "in"}}`, `"jobs": [{"endpoint": "u"}]`), nil)
	checkError(t, r.err, "")
	var got []string
	for line := range strings.Lines(r.log) {
		if _, after, ok := strings.Cut(line, "msg=request "); ok {
			got = append(got, strings.TrimSpace(after))
		}
	}
	same(t, "log", got, []string{
		"method=GET url=http://h/in attempt=1 login=true", "method=GET url=http://h/u attempt=1 login=false", "method=GET url=http://h/v attempt=1 login=false",
	})
}

// TestUsersInURLs keeps the user and the password of a URL out of everything that is shown.
func TestUsersInURLs(t *testing.T) {
	t.Parallel()
	const login = `"authentication": {"type": "login", "loginRequest": {"endpoint": "in"}}`
	for name, test := range map[string]struct{ api, endpoint, answer, err string }{
		"answer of a login": {`"baseUrl": "http://joe:pw99@h/", ` + login, "u", "none", "login failed: GET http://***@h/in returned 200"},
		"refused":           {"", "http://joe:pw99@h/u", "400 no", "GET http://***@h/u returned 400"},
		"another scheme":    {"", "ftp://joe:pw99@h/u", "", "GET ftp://***@h/u: the URL must begin with http"},
		"no URL":            {"", "http://joe:pw99@h:x/u", "", "GET http://***@h:x/u: the endpoint is no URL"},
	} {
		r := extract(t, newAPI(t, test.answer), config(test.api, `"jobs": [{"endpoint": "`+test.endpoint+`"}]`), nil)
		checkError(t, r.err, test.err)
		if shown := r.log + fmt.Sprint(r.err); strings.Contains(shown, "pw99") || strings.Contains(shown, "joe") {
			t.Errorf("%s: got %s, want !strings.Contains(shown, \"pw99\") and !strings.Contains(shown, \"joe\")", name, shown)
		}
	}
}

// TestCancelBetween ends the context when a response has arrived. Nothing of it is emitted.
func TestCancelBetween(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped by the user")
	cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u"}]`)))
	checkError(t, err, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = extractor.Run(ctx, cfg, extractor.State{}, extractor.Options{
		Transport: roundTrip(func(*http.Request) string { cancel(stopped); return `[1]` }),
		Emit: func(context.Context, *extractor.Page) error {
			t.Error("a page is emitted")
			return nil
		},
	})
	if !errors.Is(err, stopped) {
		t.Errorf("error %v", err)
	}
}
