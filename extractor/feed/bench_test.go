package feed_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/extractor/feed"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/mapping"
)

// Pages that the benchmark pulls: so many records, of 1 KB of JSON.
const (
	pulledRecords = 1000
	pulledBytes   = 1024
)

// fewMembers begins a record with six members, of which one is long.
func fewMembers(page, n int) string {
	return fmt.Sprintf(`{"id":%d,"page":%d,"email":"user%d@example.com","active":true,"score":%d.25,"note":"`, n, page, n, n)
}

// manyMembers begins a record with 34 members of many kinds, as records of an API of orders have.
func manyMembers(page, n int) string {
	return fmt.Sprintf(`{"id":%d,"page":%d,"number":"2026-%06d","created_at":"2026-11-23T12:%02d:%02dZ","updated_at":"2026-11-23T13:%02d:%02d+01:00",`, int64(7_000_000_000)+int64(n), page, n, n/60%60, n%60, n/60%60, n%60) +
		fmt.Sprintf(`"total":%d.%02d,"tax":%d.5,"discount":0,"currency":"EUR","paid":%v,"test":false,"note":null,"tags":["web","returning customer"],`, n, n%100, n/5, n%3 > 0) +
		fmt.Sprintf(`"customer":{"id":%d,"email":"customer.%d@example.com","name":"Ren\u00e9e Meyer","phone":"+420 555 %06d","locale":"cs-CZ"},`, n*7, n, n) +
		fmt.Sprintf(`"address":{"street":"Na Příkopě %d","city":"Praha","zip":"110 00","country":"CZ","location":{"lat":50.%06d,"lon":14.%06d}},`, n%90, n*31, n*17) +
		fmt.Sprintf(`"url":"https:\/\/shop.example.com\/orders\/%d","items":[{"sku":"A-%d","quantity":2,"price":9.99},{"sku":"B-%d","quantity":1,"price":%d}],"comment":"`, n, n, n, n)
}

// pagesOf returns pages that differ, because a page that equals the previous one ends a job. A record ends with the text that head has begun.
func pagesOf(head func(page, n int) string) []string {
	texts := make([]string, 8)
	for i := range texts {
		records := make([]string, pulledRecords)
		for n := range records {
			begin := head(i, n)
			records[n] = begin + strings.Repeat("x", pulledBytes-len(begin)-3) + `"}`
		}
		texts[i] = "[" + strings.Join(records, ",") + "]"
	}
	return texts
}

// BenchmarkPull pulls pages from a server in this process, over loopback, until their rows are synced in an engine. An operation is a page. The
// processor time of the server counts too.
func BenchmarkPull(b *testing.B) {
	for name, head := range map[string]func(page, n int) string{"few": fewMembers, "many": manyMembers} {
		b.Run(name, func(b *testing.B) { pull(b, pagesOf(head)) })
	}
}

func pull(b *testing.B, texts []string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		if page > b.N {
			_, _ = io.WriteString(w, "[]")
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(texts[page%len(texts)])))
		_, _ = io.WriteString(w, texts[page%len(texts)])
	}))
	defer server.Close()
	cfg, err := extractor.ParseAt([]byte(`{"api": {"baseUrl": "http://unused/", "pagination": {"method": "pagenum"}}, "config": {"jobs": [{"endpoint": "u"}]}}`), server.URL)
	if err != nil {
		b.Fatal(err)
	}
	eng, err := forebay.Open(b.TempDir(), forebay.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close()
	source := forebay.Source{ID: "orders", Sinks: []forebay.Sink{{ID: "rows", Table: forebay.Table{ID: "in.c-web.events", Columns: mapping.Columns{mapping.Body("record")}}}}}
	if err := eng.Define(b.Context(), source); err != nil {
		b.Fatal(err)
	}
	into, stored := feed.Into(eng, orders), 0
	b.SetBytes(pulledRecords * pulledBytes)
	b.ReportAllocs()
	b.ResetTimer()
	before := cputime.Process()
	_, err = extractor.Run(b.Context(), cfg, extractor.State{}, extractor.Options{Emit: func(ctx context.Context, p *extractor.Page) error {
		stored += p.Len()
		return into(ctx, p)
	}})
	b.StopTimer()
	if err != nil || stored != b.N*pulledRecords {
		b.Fatalf("got %d records and %v, want %d", stored, err, b.N*pulledRecords)
	}
	if used := cputime.Process() - before; used > 0 {
		b.ReportMetric(float64(b.N*pulledRecords*pulledBytes)/1e6/used.Seconds(), "MB/core-s")
	}
}
