package extractor_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// benchPage is a page of 1000 records with 10 fields, an object and a list each.
func benchPage() string {
	var b strings.Builder
	b.WriteString(`{"data": [`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"created_at":"2024-03-01T12:00:00Z","email":"user%d@example.com","active":true,"score":%d.25,"note":null,`+
			`"address":{"street":"Main Street %d","city":"Prague","zip":"11000"},"tags":["a","b"],"name":"User Number %d","country":"CZ"}`, i, i, i, i, i)
	}
	b.WriteString(`]}`)
	return b.String()
}

// BenchmarkRun takes pages without a network. It measures the cost of the extractor itself. "emit" only makes the JSON of records,
// "tables" writes them as CSV.
func BenchmarkRun(b *testing.B) {
	text := benchPage()
	cfg, err := extractor.Parse([]byte(config(`"pagination": {"method": "pagenum"}`, `"jobs": [{"endpoint": "u", "dataField": "data"}]`)))
	if err != nil {
		b.Fatal(err)
	}
	const pages = 10
	// The pages differ, or the second would end the job.
	all := make([]string, pages)
	for i := range all {
		all[i] = strings.Replace(text, `"id":0`, fmt.Sprintf(`"id":-%d`, i+1), 1)
	}
	b.Run("emit", func(b *testing.B) {
		b.SetBytes(int64(pages * len(text)))
		b.ReportAllocs()
		var line []byte
		for b.Loop() {
			a := answers(append([]string(nil), all...))
			_, err := extractor.Run(b.Context(), cfg, extractor.State{}, extractor.Options{Transport: http.RoundTripper(&a), Emit: emitLines(&line)})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tables", func(b *testing.B) {
		b.SetBytes(int64(pages * len(text)))
		b.ReportAllocs()
		dir := b.TempDir()
		for b.Loop() {
			a := answers(append([]string(nil), all...))
			_, err := extractor.RunTables(b.Context(), cfg, extractor.State{}, dir, extractor.Options{Transport: &a})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
