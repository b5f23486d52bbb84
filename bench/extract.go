package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/extractor/feed"
	"github.com/forebay/forebay/mapping"
)

// Pages that the extractor pulls: so many records, of 1 KB of JSON.
const (
	pulledRecords = 1000
	pulledBytes   = 1024
)

func ofPulling() []scenario {
	return []scenario{
		{name: "extract/engine", group: "extract", run: pull(pages), goals: []goal{atLeast("mb_per_core_s", 100)}},
		{name: "extract/engine/fields", group: "extract", run: pull(pagesOfFields)},
	}
}

// pagesOfFields are pages whose records have 34 members of many kinds, as records of an API of orders have.
func pagesOfFields() []string {
	texts := make([]string, 8)
	for i := range texts {
		var b strings.Builder
		for n := range pulledRecords {
			sep := byte(',')
			if n == 0 {
				sep = '['
			}
			b.WriteByte(sep)
			begin := b.Len()
			fmt.Fprintf(&b, `{"id":%d,"page":%d,"number":"2026-%06d","created_at":"2026-11-23T12:%02d:%02dZ","updated_at":"2026-11-23T13:%02d:%02d+01:00",`, int64(7_000_000_000)+int64(n), i, n, n/60%60, n%60, n/60%60, n%60)
			fmt.Fprintf(&b, `"total":%d.%02d,"tax":%d.5,"discount":0,"currency":"EUR","paid":%v,"test":false,"note":null,"tags":["web","returning customer"],`, n, n%100, n/5, n%3 > 0)
			fmt.Fprintf(&b, `"customer":{"id":%d,"email":"customer.%d@example.com","name":"Ren\u00e9e Meyer","phone":"+420 555 %06d","locale":"cs-CZ"},`, n*7, n, n)
			fmt.Fprintf(&b, `"address":{"street":"Na Příkopě %d","city":"Praha","zip":"110 00","country":"CZ","location":{"lat":50.%06d,"lon":14.%06d}},`, n%90, n*31, n*17)
			fmt.Fprintf(&b, `"url":"https:\/\/shop.example.com\/orders\/%d","items":[{"sku":"A-%d","quantity":2,"price":9.99},{"sku":"B-%d","quantity":1,"price":%d}],"comment":"`, n, n, n, n)
			b.WriteString(strings.Repeat("x", pulledBytes-(b.Len()-begin)-3) + `"}`)
		}
		b.WriteByte(']')
		texts[i] = b.String()
	}
	return texts
}

// pages are responses that differ, because a page that equals the previous one ends a job.
func pages() []string {
	texts := make([]string, 8)
	for i := range texts {
		var b strings.Builder
		for n := range pulledRecords {
			sep := byte(',')
			if n == 0 {
				sep = '['
			}
			b.WriteByte(sep)
			head := fmt.Sprintf(`{"id":%d,"page":%d,"email":"user%d@example.com","active":true,"score":%d.25,"note":"`, n, i, n, n)
			b.WriteString(head + strings.Repeat("x", pulledBytes-len(head)-3) + `"}`)
		}
		b.WriteByte(']')
		texts[i] = b.String()
	}
	return texts
}

// pull returns a measurement of pages from a server in this process, over loopback, until they are synced in an engine. The processor time of the server
// counts too.
func pull(pages func() []string) func(context.Context, *env) (*sample, error) {
	return func(ctx context.Context, e *env) (*sample, error) { return pulled(ctx, e, pages()) }
}

func pulled(ctx context.Context, e *env, texts []string) (*sample, error) {
	var ending atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ending.Load() {
			_, _ = io.WriteString(w, "[]")
			return
		}
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		w.Header().Set("Content-Length", strconv.Itoa(len(texts[page%len(texts)])))
		_, _ = io.WriteString(w, texts[page%len(texts)])
	}))
	defer server.Close()
	cfg, err := extractor.ParseAt([]byte(`{"api": {"baseUrl": "http://unused/", "pagination": {"method": "pagenum"}}, "config": {"jobs": [{"endpoint": "u"}]}}`), server.URL)
	if err != nil {
		return nil, err
	}
	source := forebay.Source{Sinks: []forebay.Sink{{ID: sinkID, Table: forebay.Table{ID: "in.c-web.events", Columns: mapping.Columns{mapping.Body("record")}}}}}
	return setup{source: source}.measured(ctx, e, func(eng *forebay.Engine) (*sample, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stored := make(chan int)
		ended := make(chan error, 1)
		into := feed.Into(eng, func(context.Context, string) (string, error) { return sourceID, nil })
		go func() {
			_, err := extractor.Run(ctx, cfg, extractor.State{}, extractor.Options{Emit: func(ctx context.Context, p *extractor.Page) error {
				if err := into(ctx, p); err != nil || p.Len() == 0 {
					return err
				}
				select {
				case stored <- p.Len():
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}})
			ended <- err
		}()
		s, err := oneCore(ctx, e, pulledBytes, 1, func() (int, error) {
			select {
			case n := <-stored:
				return n, nil
			case err := <-ended:
				return 0, fmt.Errorf("the run ended: %w", err)
			}
		})
		if err != nil {
			cancel()
			return nil, err
		}
		ending.Store(true)
		for { // pages in transit when the measurement ended
			select {
			case n := <-stored:
				s.Total += int64(n)
				continue
			case err = <-ended:
			}
			break
		}
		if s.CPU > 0 {
			s.Figures = map[string]float64{"mb_per_core_s": float64(s.Bytes) / 1e6 / s.CPU.Seconds()}
		}
		return s, err
	})
}
