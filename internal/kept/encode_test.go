package kept

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// The encoder writes what encoding/json writes of the same head, or leaves the record to it.
func TestHeadEncoder(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Of(t), 0))
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	value := func() string {
		return pick("", "application/json; charset=utf-8", "a\"b\\<>&", "\u2028é", "\xff", "x=1; token=abc", "https://u:p@h/?sig=1&a=2", "q=%73ecret-of-source", "secret-of-source", "tab\t\x01", "*/*")
	}
	e, encoded, left := new(Encoder), 0, 0
	for range 20_000 {
		rec := &mapping.Record{Format: mapping.Format(r.IntN(4)), Host: value(), Request: mapping.RequestLine{Method: value(), Path: value(), Query: value()}}
		for range r.IntN(4) {
			if rec.Header == nil {
				rec.Header = http.Header{}
			}
			name := pick("Content-Type", "content-type", "User-Agent", "X-Shop", "Authorization", "X-\xff", "X-Forwarded-For", "Ce-Id", "Cookie")
			rec.Header[name] = [][]string{nil, {}, {value()}, {value(), value()}}[r.IntN(4)]
		}
		switch r.IntN(5) {
		case 0:
		case 1:
			rec.Received = time.Date(r.IntN(10_001), 2, 3, 4, 5, 6, r.IntN(1e9), time.FixedZone("", 60*r.IntN(700)))
		default:
			rec.Received = time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC()
		}
		rec.ClientIP = []netip.Addr{{}, netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("::ffff:1.2.3.4")}[r.IntN(4)]
		if r.IntN(4) == 0 {
			rec.Document = document(`{}`)
		}
		by := NewRedactor([]string{"secret-of-source", "a b/c&d=e+f"}, []string{"X-Shop", "*"}[:1+r.IntN(2)])
		signal := []string{"", "logs"}[r.IntN(2)]
		got, ok := e.encode(archiveVersion, signal, rec, by)
		head := archivedHead{Version: archiveVersion, Signal: signal, head: headOf(rec, by).encodable()}
		want, err := json.Marshal(head)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			left++
			if head.Raw == nil && head.RawHeader == nil && head.Unix == nil && !bytes.Contains(want, []byte(`\ufffd`)) {
				t.Fatalf("a record is left to encoding/json: %s", want)
			}
			continue
		}
		if encoded++; !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	if encoded < 3000 || left < 3000 {
		t.Errorf("%d heads were compared and %d left", encoded, left)
	}
}

type document string

func (d document) AppendJSON(dst []byte) ([]byte, error) { return append(dst, d...), nil }

// archivedRecord is a request of a webhook.
func archivedRecord(size int) *mapping.Record {
	return &mapping.Record{
		Body: fmt.Appendf(nil, `{"id":"a1","kind":"click","text":"%s"}`, bytes.Repeat([]byte("x"), size)),
		Header: http.Header{
			"Accept": {"*/*"}, "Content-Type": {"application/json; charset=utf-8"}, "Content-Length": {"190"}, "User-Agent": {"shop/1.2 (linux)"}, "X-Request-Id": {"0d5cd3a8b6ac"},
		},
		Host: "events.example.com", ClientIP: netip.MustParseAddr("10.2.3.4"), Received: time.Date(2026, 11, 29, 1, 2, 3, 456789, time.UTC),
		Request: mapping.RequestLine{Method: "POST", Path: "/stream/1/web/3f0a9c8e5d7b", Query: "shop=12"},
	}
}

// Archiving a record allocates no memory.
func TestArchivedRowAllocatesNothing(t *testing.T) {
	rec, by := archivedRecord(100), NewRedactor([]string{"3f0a9c8e5d7c", "secret-of-source"}, nil)
	e, row := new(Encoder), []byte(nil)
	n := testing.AllocsPerRun(100, func() {
		var err error
		if row, err = e.AppendRow(row[:0], rec, "", by); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("got %v allocations for a record, want none", n)
	}
}

func BenchmarkArchivedRow(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			rec, by := archivedRecord(size), NewRedactor([]string{"3f0a9c8e5d7c", "secret-of-source"}, nil)
			e, row := new(Encoder), []byte(nil)
			b.ReportAllocs()
			for b.Loop() {
				row, _ = e.AppendRow(row[:0], rec, "", by)
			}
		})
	}
}

// A sender that always uses new header names fills the table of names. After that, no name is copied.
func TestNamesOfHeadersAreBounded(t *testing.T) {
	by := NewRedactor(nil, []string{"X-Shop"})
	for i := range 2 * maxDecided {
		by.keeps(fmt.Sprint("X-Name-", i))
	}
	if n := len(*by.decided.Load()); n != maxDecided {
		t.Errorf("got %d names, want %d", n, maxDecided)
	}
	if n := testing.AllocsPerRun(100, func() { by.keeps("X-Other") }); n > 4 {
		t.Errorf("got %v allocations for a name that is not remembered, want at most 4", n)
	}
	if !by.keeps("X-Shop") || by.keeps("X-Other") {
		t.Error("a name beyond the bound is decided otherwise")
	}
}
