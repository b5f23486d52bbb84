package mapping

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-jsonnet"
	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/datatype"
)

// The benchmarks run with
//
//	go test ./mapping -run '^$' -bench . -benchmem -count 6
//
// On a noisy machine compare the ratios within one run, map/template to its engine=reference, map/paths to its
// engine=gjson.

const smallBody = `{"id":12345,"user":{"id":"u-77","name":"Ann"},"kind":"click","ok":true}`

// kilobyte is a JSON object of 1 KB with 20 named fields and some structure.
func kilobyte() []byte {
	var b bytes.Buffer
	b.WriteString(`{"meta":{"source":"web","version":3,"tags":["alpha","beta","gamma"]},"items":[{"sku":"A-1","qty":2},{"sku":"B-2","qty":5}]`)
	for i := range 20 {
		fmt.Fprintf(&b, `,"field_%02d":`, i)
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, `"the value of %d is text"`, i)
		case 1:
			fmt.Fprintf(&b, `%d.%d`, i*1234567, i)
		case 2:
			fmt.Fprintf(&b, `{"name":"inner %d","flag":true}`, i)
		case 3:
			fmt.Fprintf(&b, `[%d,%d,"%d"]`, i, i*2, i*3)
		}
	}
	n := 1024 - b.Len() - len(`,"pad":""}`)
	fmt.Fprintf(&b, `,"pad":"%s"}`, strings.Repeat("x", max(n, 0)))
	return b.Bytes()
}

func benchHeader() http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"bench/1.0"}, "Host": {"in.example.com"},
		"Content-Length": {"1024"}, "X-Env": {"prod"},
	}
}

func mustCompile(tb testing.TB, cols ...Column) *Mapper {
	tb.Helper()
	m, err := Compile(cols, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// benchRow maps one body again and again on a reused record, its construction included.
func benchRow(b *testing.B, m *Mapper, body []byte) {
	header, ip, now := benchHeader(), netip.MustParseAddr("203.0.113.7"), time.Date(2024, 2, 29, 13, 4, 5, 67e6, time.UTC)
	r := new(Record)
	var row []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		r.Body, r.Format, r.Header, r.ClientIP, r.Received = body, FormatJSON, header, ip, now
		var err error
		if row, err = m.AppendRow(row[:0], r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(row)), "bytes/row")
}

func twentyPaths() (cols []Column, paths []string) {
	for i := range 20 {
		p := fmt.Sprintf("field_%02d", i)
		switch i % 4 {
		case 2:
			p += ".name"
		case 3:
			p += "[1]"
		}
		cols = append(cols, Path("c"+p, p))
		paths = append(paths, strings.NewReplacer("[", ".", "]", "").Replace(p))
	}
	return cols, paths
}

func BenchmarkPath(b *testing.B) {
	benchRow(b, mustCompile(b, Path("user", "user.id")), []byte(smallBody))
}

func BenchmarkPaths(b *testing.B) {
	body := kilobyte()
	cols, paths := twentyPaths()
	b.Run("engine=mapping", func(b *testing.B) { benchRow(b, mustCompile(b, cols...), body) })
	b.Run("engine=gjson", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			for _, p := range paths {
				if !gjson.GetBytes(body, p).Exists() {
					b.Fatal(p)
				}
			}
		}
	})
}

func BenchmarkRow(b *testing.B) {
	benchRow(b, mustCompile(b, UUID("id"), Datetime("at"), IP("ip"), Body("body"), Headers("headers"),
		Path("name", "field_02.name"), Template("label", `Body('field_00') + '-' + Header('X-Env', 'n')`)), kilobyte())
}

func BenchmarkRowOfPaths(b *testing.B) {
	benchRow(b, mustCompile(b, UUID("id"), Datetime("at"), IP("ip"), Path("a", "field_00"), Path("b", "field_01"),
		Path("c", "field_02"), Path("d", "meta.version")), kilobyte())
}

func BenchmarkTemplate(b *testing.B) {
	const body = `{"a":{"b":"text"},"n":5}`
	for _, tc := range []struct{ name, content string }{
		{"concat", `Body('a.b') + '-' + Header('X','n')`},
		{"constant", `'x'`},
		{"object", `{id: Body('n'), env: Header('X-Env', 'dev'), at: Now('%Y-%m-%d')}`},
		{"format", `'%s/%05d' % [Body('a.b'), Body('n')]`},
		{"library", `std.join(',', std.map(function(x) std.asciiUpper(x), std.split(Body('a.b'), 'x')))`},
		{"comprehension", `[x * 2 for x in std.range(1, 20) if x % 2 == 0]`},
	} {
		b.Run("template="+tc.name+"/engine=mapping", func(b *testing.B) {
			benchRow(b, mustCompile(b, Template("t", tc.content)), []byte(body))
		})
		b.Run("template="+tc.name+"/engine=reference", func(b *testing.B) {
			o, err := newOracle(tc.content)
			if err != nil {
				b.Fatal(err)
			}
			r := JSON([]byte(body))
			r.Header, r.Received = benchHeader(), time.Now()
			o.r = r
			b.ReportAllocs()
			for b.Loop() {
				if _, err := o.vm.Evaluate(o.node); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("engine=reference/constant-only", func(b *testing.B) {
		node, _ := jsonnet.SnippetToAST("t", `'x'`)
		vm := jsonnet.MakeVM()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := vm.Evaluate(node); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkUUID(b *testing.B) {
	var s uuidSource
	s.begin()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = s.appendText(buf[:0])
	}
}

func BenchmarkUUIDRow(b *testing.B) { benchRow(b, mustCompile(b, UUID("id")), nil) }

// webhook is an event as the benchmarks of the project store it, with few fields and one long text.
func webhook(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"id":"evt_00001234","type":"order.created","user":{"id":1234,"plan":"team"},"amount":234.34,"note":"`)
	const words = "the gate opens when the basin is full and the water turns the wheel "
	for b.Len() < size-2 {
		b.WriteByte(words[b.Len()%len(words)])
	}
	b.WriteString(`"}`)
	return b.Bytes()
}

func BenchmarkWebhook(b *testing.B) {
	for _, size := range []int{150, 1024} {
		body := webhook(size)
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			benchRow(b, mustCompile(b, UUID("id"), Datetime("at"), IP("ip"), Headers("headers"), Body("body"),
				Path("event", "id", RawString()), Path("user", "user.id")), body)
		})
	}
}

// BenchmarkHeaders writes the headers that a browser sends.
func BenchmarkHeaders(b *testing.B) {
	m := mustCompile(b, Headers("h"))
	r := &Record{Header: http.Header{
		"Accept": {"*/*"}, "Accept-Encoding": {"gzip, deflate, br"}, "Accept-Language": {"cs,en-US;q=0.7,en;q=0.3"},
		"Connection": {"keep-alive"}, "Content-Length": {"1024"}, "Content-Type": {"application/json"}, "Host": {"in.example.com"},
		"Origin": {"https://example.com"}, "Referer": {"https://example.com/"},
		"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"},
	}}
	header := r.Header
	var row []byte
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		r.Header = header
		row, _ = m.AppendRow(row[:0], r)
	}
}

// BenchmarkRowsOfManyRecords maps records in turn, as many as callers wait for the disk. Each has its own body, like a
// record that was just received.
func BenchmarkRowsOfManyRecords(b *testing.B) {
	m := mustCompile(b, UUID("id"), Body("body"), Path("name", "field_02.name"), Path("number", "field_01"))
	for _, release := range []bool{false, true} {
		b.Run(fmt.Sprintf("release=%v", release), func(b *testing.B) {
			records := make([]*Record, 1024)
			for i := range records {
				records[i] = JSON(kilobyte())
			}
			var row []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r := records[i%len(records)]
				body := r.Body
				r.Reset()
				r.Body, r.Format = body, FormatJSON
				var err error
				if row, err = m.AppendRow(row[:0], r); err != nil {
					b.Fatal(err)
				}
				if release {
					r.Release()
				}
			}
		})
	}
}

// typedBody is an event of 1 KB with a value of each scalar type.
func typedBody() []byte {
	const body = `{"order":{"id":1700000123456,"ref":"0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b","total":1234.5,"paid":true},"at":"2026-11-22T23:00:00.123Z",` +
		`"ratio":0.1234,"kind":"order.created","note":"`
	return []byte(body + strings.Repeat("x", 1024-len(body)-2) + `"}`)
}

func typedPaths() Columns {
	return Columns{
		Path("id", "order.id", DataType(datatype.Int64)), Path("ref", "order.ref", DataType(datatype.UUID)),
		Path("total", "order.total", DataType(datatype.Decimal(10, 2))), Path("paid", "order.paid", DataType(datatype.Bool)),
		Path("at", "at", DataType(datatype.Timestamp)), Path("ratio", "ratio", DataType(datatype.Float64)), Path("kind", "kind", DataType(datatype.String)),
	}
}

// BenchmarkTyped maps the same events to untyped and typed columns.
func BenchmarkTyped(b *testing.B) {
	var untyped Columns
	for _, c := range typedPaths() {
		c.DataType, c.RawString = "", true
		untyped = append(untyped, c)
	}
	kinds := Columns{
		UUID("id"), Datetime("at"), IP("ip"), Headers("headers"), Body("body"), Path("event", "id", RawString()), Path("user", "user.id", DataType(datatype.Int64)),
	}
	for _, tc := range []struct {
		name           string
		untyped, typed Columns
		body           []byte
	}{{"paths", untyped, typedPaths(), typedBody()}, {"kinds", append(kinds[:6:6], Path("user", "user.id")), kinds.Typed(), webhook(1024)}} {
		b.Run(tc.name+"/typed=false", func(b *testing.B) { benchRow(b, mustCompile(b, tc.untyped...), tc.body) })
		b.Run(tc.name+"/typed=true", func(b *testing.B) { benchRow(b, mustCompile(b, tc.typed...), tc.body) })
	}
}
