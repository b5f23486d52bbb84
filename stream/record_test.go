package stream

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

func TestRecord(t *testing.T) {
	eng := newFake()
	var got struct {
		source, body string
		host         string
		header       http.Header
		ip           netip.Addr
		received     time.Time
		format       mapping.Format
	}
	eng.ingest = func(_ context.Context, source string, rec *mapping.Record) (forebay.Result, error) {
		got.source, got.body, got.header = source, string(rec.Body), maps.Clone(rec.Header)
		got.host = rec.Host
		got.ip, got.received, got.format = rec.ClientIP, rec.Received, rec.Format
		return forebay.Result{Sinks: []forebay.SinkResult{stored("a")}}, nil
	}
	h := newHandler(eng, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	before := time.Now()
	body := "\x1f\x8b not really gzip \x00\xff"
	r := post("/stream/1/web/"+secret, body)
	r.Host = "in.example.com"
	r.Header = http.Header{
		"Content-Language": {"en"}, "Authorization": {"Bearer x"}, "X-Twice": {"1", "2"}, "X-Forwarded-For": {"203.0.113.9"},
	}
	want := r.Header.Clone()
	if w := serve(h, r); w.Code != 200 {
		t.Fatalf("answer is %d %s", w.Code, w.Body)
	}
	if got.host != "in.example.com" || got.source != "web" || got.body != body || got.ip != netip.MustParseAddr("203.0.113.9") || got.format != mapping.FormatFromHeader {
		t.Errorf("record is %+v", got)
	}
	if !maps.EqualFunc(got.header, want, func(a, b []string) bool { return strings.Join(a, "|") == strings.Join(b, "|") }) {
		t.Errorf("headers are %v, want %v", got.header, want)
	}
	if _, ok := r.Header["Host"]; ok {
		t.Error("the request was changed")
	}
	if got.received.Before(before) || got.received.After(time.Now()) {
		t.Errorf("received at %v", got.received)
	}
	// Nothing of a request may be seen in the next one.
	if w := serve(h, post("/stream/1/web/"+secret, "")); w.Code != 200 {
		t.Fatalf("answer is %d %s", w.Code, w.Body)
	}
	if got.body != "" || len(got.header) != 0 || got.host != "example.com" {
		t.Errorf("second record is %+v", got)
	}
}

// Mappings see the headers of the request and its Host, even if they cannot be shared with it.
func TestRecordHost(t *testing.T) {
	for name, tt := range map[string]struct {
		host   string
		sent   http.Header
		hidden []string
		want   string
	}{
		"shared":      {"in.example.com", http.Header{"A": {"1"}, "X": {"2"}}, nil, `{"A":"1","Host":"in.example.com","X":"2"}`},
		"in both":     {"in.example.com", http.Header{"Host": {"other"}}, nil, `{"Host":"in.example.com"}`},
		"empty":       {"", http.Header{"A": {"1"}}, nil, `{"A":"1","Host":""}`},
		"one hidden":  {"in.example.com", http.Header{"A": {"1"}, "X": {"2"}}, []string{"x"}, `{"A":"1","Host":"in.example.com"}`},
		"host hidden": {"in.example.com", http.Header{"A": {"1"}}, []string{"host"}, `{"A":"1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			mapper, err := mapping.Compile(mapping.Columns{mapping.Headers("h")}, mapping.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var row []byte
			eng := newFake()
			eng.ingest = func(_ context.Context, _ string, rec *mapping.Record) (forebay.Result, error) {
				row, err = mapper.AppendRow(nil, rec)
				return forebay.Result{Sinks: []forebay.SinkResult{stored("a")}}, err
			}
			r := post("/stream/1/web/"+secret, "{}")
			r.Host, r.Header = tt.host, tt.sent
			before := r.Header.Clone()
			if w := serve(newHandler(eng, Options{HiddenHeaders: tt.hidden}), r); w.Code != 200 {
				t.Fatalf("answer is %d %s", w.Code, w.Body)
			}
			if got := strings.ReplaceAll(strings.Trim(string(row), "\"\n"), `""`, `"`); got != tt.want {
				t.Errorf("mappings see %s, want %s", got, tt.want)
			}
			if !maps.EqualFunc(r.Header, before, slices.Equal) {
				t.Errorf("the request was changed to %v", r.Header)
			}
		})
	}
}

// The memory of a request is free while its row waits for the disk, and is given back once.
func TestMemoryIsFreeDuringTheWait(t *testing.T) {
	eng := newFake(stored("a"))
	h := newHandler(&releasingEngine{eng, func(h *handler) {
		if n := h.bodies.Taken(); n != 0 {
			t.Errorf("%d bytes are taken during the wait, want 0", n)
		}
	}}, Options{})
	for range 3 {
		if w := serve(h, post("/stream/1/web/"+secret, "{}")); w.Code != 200 {
			t.Fatalf("answer is %d %s", w.Code, w.Body)
		}
		if n := h.bodies.Taken(); n != 0 {
			t.Fatalf("%d bytes are taken after the request, want 0", n)
		}
	}
}

// releasingEngine releases the memory as the real one does, and then waits.
type releasingEngine struct {
	*fakeEngine
	wait func(*handler)
}

func (e *releasingEngine) Ingest(ctx context.Context, source string, rec *mapping.Record, mem *memory) (forebay.Result, error) {
	res, err := e.fakeEngine.Ingest(ctx, source, rec, mem)
	h := mem.h
	mem.release()
	e.wait(h)
	return res, err
}
