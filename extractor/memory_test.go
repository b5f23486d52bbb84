package extractor_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/casetest"
)

// A heapContext looks at the heap when its caller asks whether it has ended, which every long work does now and then.
type heapContext struct {
	context.Context
	asked int
	most  uint64
}

func (c *heapContext) Err() error {
	if c.asked++; c.asked%64 == 0 {
		c.look()
	}
	return c.Context.Err()
}

func (c *heapContext) look() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > c.most+1<<20 { // garbage does not count, and a busy processor may leave it for long
		runtime.GC()
		runtime.ReadMemStats(&m)
	}
	c.most = max(c.most, m.HeapAlloc)
}

// TestMemoryOfPages reads large pages of every shape. While one is at work, at most three times its size is held.
func TestMemoryOfPages(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(25)) // so that the heap is little more than the live memory
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	const size = 8 << 20
	for name, page := range map[string]struct{ begin, item, end string }{
		"brackets":           {"[", "[]", "]"},
		"brackets in a list": {`{"d": {"l": [`, "[[],[]]", `]}, "next": null}`},
		"one record":         {`[{"l": [`, `{"a":1}`, "]}]"},
		"records":            {"[", `{"id":1,"name":"a name","tags":["a","b"],"box":{"x":1.5,"y":true}}`, "]"},
	} {
		if !casetest.All() && (name == "brackets in a list" || name == "one record") {
			continue
		}
		for _, known := range []bool{true, false} {
			if known == (name == "brackets") { // the rest is alike
				continue
			}
			t.Run(fmt.Sprintf("%s, length known: %v", name, known), func(t *testing.T) {
				n := (size - len(page.begin) - len(page.end)) / (len(page.item) + 1)
				length := int64(len(page.begin) + n*(len(page.item)+1) - 1 + len(page.end))
				cfg, err := extractor.Parse([]byte(config(`"pagination": {"method": "pagenum", "forceStop": {"pages": 1, "volume": 1}}`, `"jobs": [{"endpoint": "u", "dataField": "`+dataOf(page.begin)+`"}]`)))
				checkError(t, err, "")
				runtime.GC()
				ctx := &heapContext{Context: t.Context()}
				ctx.look()
				before := ctx.most
				_, err = extractor.Run(ctx, cfg, extractor.State{}, extractor.Options{
					Transport: roundTripper(func(*http.Request) *http.Response {
						body := io.MultiReader(strings.NewReader(page.begin), &repeated{text: page.item + ",", left: n - 1}, strings.NewReader(page.item+page.end), looking{ctx})
						resp := &http.Response{StatusCode: 200, Body: io.NopCloser(body), ContentLength: -1}
						if known {
							resp.ContentLength = length
						}
						return resp
					}),
					Emit: func(ctx context.Context, p *extractor.Page) error {
						var text []byte
						for rec := range p.Records() {
							if ctx.Err() != nil {
								return ctx.Err()
							}
							if name == "records" {
								text = rec.AppendJSON(text[:0])
							}
						}
						return nil
					},
				})
				checkError(t, err, "")
				if held := int64(ctx.most - before); held > 3*length || ctx.asked == 0 {
					t.Errorf("a page of %d MB holds %d MB", length>>20, held>>20)
				} else {
					t.Logf("a page of %d MB holds %d MB", length>>20, held>>20)
				}
			})
		}
	}
}

// looking is the end of a body, at which all of it is held.
type looking struct{ ctx *heapContext }

func (l looking) Read([]byte) (int, error) {
	l.ctx.look()
	return 0, io.EOF
}

// dataOf returns the path of the list that a page begins with.
func dataOf(begin string) string {
	switch {
	case begin == "[" || strings.HasPrefix(begin, "[{"):
		return "."
	case strings.Contains(begin, `"l"`):
		return "d.l"
	}
	return "d"
}

// repeated is a text many times over.
type repeated struct {
	text string
	left int
	rest string
}

func (r *repeated) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if r.rest == "" {
			if r.left == 0 {
				break
			}
			r.left--
			r.rest = r.text
		}
		k := copy(p[n:], r.rest)
		n, r.rest = n+k, r.rest[k:]
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestTooManyMembers refuses an object that takes more memory than is allowed.
func TestTooManyMembers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 170_000 {
		fmt.Fprintf(&b, `,"%d":[]`, i)
	}
	r := extract(t, newAPI(t, `[{"a":1`+b.String()+`}]`), config("", `"jobs": [{"endpoint": "u"}]`), func(_ *extractor.State, o *extractor.Options) { o.MaxResponseBytes = 2 << 20 })
	checkError(t, r.err, "objects with more members than fit the memory that is allowed")
}
