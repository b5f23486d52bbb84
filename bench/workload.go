package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// A workload is a stream of webhook events of one size.
type workload struct {
	// name is the size as it appears in the names of scenarios.
	name string
	// bodyBytes is the size of a body, rowBytes the size of its CSV row within a few bytes.
	bodyBytes, rowBytes int
}

func workloads() []workload { return []workload{{"150B", 150, 395}, {"1KB", 1024, 1269}} }

// body returns a JSON event of exactly bodyBytes bytes. Events of different numbers differ in id, user and text.
func (w workload) body(n int) []byte {
	var b bytes.Buffer
	if w.bodyBytes < 120 {
		fmt.Fprintf(&b, `{"id":"evt_%08d","user":{"id":%d},"note":"`, n, n%9973)
	} else {
		fmt.Fprintf(&b, `{"id":"evt_%08d","type":"order.created","user":{"id":%d,"plan":"team"},"amount":%d.%02d,"note":"`,
			n, n%9973, n%500, n%100)
	}
	const words = "the gate opens when the basin is full and the water turns the wheel "
	for i := n % len(words); b.Len() < w.bodyBytes-2; i++ {
		b.WriteByte(words[i%len(words)])
	}
	b.WriteString(`"}`)
	return b.Bytes()
}

// header is the header that a webhook sender sends. It must not be changed.
func header() http.Header {
	return http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"billing-webhooks/2.4"},
		"X-Delivery":   {"3f1c9a52-7d0e-4f0b"},
	}
}

var (
	clientIP = netip.AddrFrom4([4]byte{203, 0, 113, 77})
	received = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
)

// columns is the mapping of all scenarios, one column of every kind but a template, with two paths.
func columns() mapping.Columns {
	return mapping.Columns{
		mapping.UUID("id"), mapping.Datetime("at"), mapping.IP("ip"), mapping.Headers("headers"), mapping.Body("body"),
		mapping.Path("event", "id", mapping.RawString()), mapping.Path("user", "user.id"),
	}
}

// typedColumns are the same columns with types.
func typedColumns() mapping.Columns {
	typed := columns()
	typed[len(typed)-1].DataType = datatype.Int64
	return typed.Typed()
}

// records returns n events of one caller. The records belong to that caller, but their headers are shared.
func (w workload) records(caller, n int) []*mapping.Record {
	shared := header()
	records := make([]*mapping.Record, n)
	for i := range records {
		records[i] = &mapping.Record{
			Body: w.body(caller*n + i), Format: mapping.FormatJSON, Header: shared, ClientIP: clientIP,
		}
	}
	return records
}

// again makes a record fit to be ingested once more, as if it had just been received. Nothing that was parsed of it
// before is kept.
func again(r *mapping.Record) *mapping.Record {
	body, header := r.Body, r.Header
	r.Reset()
	r.Body, r.Header, r.Format, r.ClientIP = body, header, mapping.FormatJSON, clientIP
	return r
}

// row returns the CSV row of one event as the mapping stores it. All rows have the same size within a few bytes.
func (w workload) row() []byte {
	mapper := must(mapping.Compile(columns(), mapping.Options{}))
	record := w.records(0, 1)[0]
	record.Received = received
	return must(mapper.AppendRow(nil, record))
}

// task is the mapping of all columns, typedTask that with types.
func (w workload) task() task { return task{columns: columns(), body: w.body, random: true} }

func (w workload) typedTask() task { return task{columns: typedColumns(), body: w.body, random: true} }
