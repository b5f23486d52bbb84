package feed_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/extractor/feed"
	"github.com/forebay/forebay/mapping"
)

// residentPeak returns the most memory of this process that was in use since the last call, in bytes, and false where the system does not tell.
func residentPeak(t *testing.T) (int64, bool) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
		}
	}
	return 0, false
}

// countingTarget reads the rows of each file to the end, counts them and throws them away.
type countingTarget struct{ rows atomic.Int64 }

func (c *countingTarget) Ensure(context.Context, driver.Table) error { return nil }

func (c *countingTarget) Import(ctx context.Context, f *driver.File) error {
	rows := f.ReadRows(ctx)
	defer rows.Close()
	var n int64
	for rows.Next() {
		n++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	c.rows.Add(n)
	return nil
}

// TestMemoryIsFlat pulls many gigabytes over loopback into an engine on this disk, in pages of 1,000 records of 1 KB. Rows are on disk when a page
// counts, continue to a staging in a folder, and to a target that counts them and throws them away, so that the disk does not fill. The most
// memory that this process, with the server and the engine, has in any gigabyte is little more than in the first one.
//
//	FOREBAY_PULL_GB=10 go -C extractor test -v -run TestMemoryIsFlat -timeout 2h ./feed
func TestMemoryIsFlat(t *testing.T) {
	gigabytes, err := strconv.Atoi(os.Getenv("FOREBAY_PULL_GB"))
	if err != nil || gigabytes < 2 {
		t.Skip("set FOREBAY_PULL_GB to 2 or more")
	}
	const records, size = 1000, 1000
	rnd := rand.New(rand.NewPCG(1, 2))
	page := func(number int) []byte {
		var b bytes.Buffer
		noise := make([]byte, 300)
		for i := range records {
			fmt.Fprintf(&b, `,{"id":%d,"page":%d,"email":"user%d@example.com","active":true,"score":%d.25,"address":{"city":"Prague","zip":"110 00"},"tags":["a","b"],"note":"`, i, number, i, i)
			for k := range noise {
				noise[k] = byte(rnd.Uint32())
			}
			b.WriteString(base64.StdEncoding.EncodeToString(noise))
			b.WriteString(strings.Repeat(" ", max(0, (i+1)*(size+1)-b.Len()-3)) + `"}`)
		}
		text := b.Bytes()
		text[0] = '['
		return append(text, ']')
	}
	const different = 16 // a page that equals the one before would end the job
	var texts [different][]byte
	for i := range texts {
		texts[i] = page(i)
	}
	pages := int64(gigabytes) * 1e9 / (records * size)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, _ := strconv.ParseInt(r.URL.Query().Get("page"), 10, 64)
		if number > pages {
			_, _ = io.WriteString(w, "[]")
			return
		}
		_, _ = w.Write(texts[number%different])
	}))
	defer srv.Close()
	cfg, err := extractor.ParseAt([]byte(`{"api":{"baseUrl":"http://x/","pagination":{"method":"pagenum"}},"config":{"jobs":[{"endpoint":"orders"}]}}`), srv.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	target := new(countingTarget)
	eng, err := forebay.Open(filepath.Join(t.TempDir(), "data"), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = eng.Define(t.Context(), forebay.Source{ID: "orders", Sinks: []forebay.Sink{{
		ID: "rows", Table: forebay.Table{ID: "in.c-shop.orders", Columns: mapping.Columns{mapping.Path("id", "id"), mapping.Body("record")}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	if _, ok := residentPeak(t); !ok {
		t.Skip("the system does not say how much memory is in use")
	}
	var got, next, first, most int64 = 0, 1e9, 0, 0
	into := feed.Into(eng, orders)
	_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Emit: func(ctx context.Context, p *extractor.Page) error {
		if err := into(ctx, p); err != nil {
			return err
		}
		if got += int64(p.Len()) * size; got >= next {
			peak, _ := residentPeak(t)
			t.Logf("%d GB: at most %d MB in memory, %d rows are in the table", got/1e9, peak>>20, target.rows.Load())
			if next += 1e9; first == 0 {
				first = peak
			}
			most = max(most, peak)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := target.rows.Load(); rows != pages*records {
		t.Errorf("%d rows are in the table, want %d", rows, pages*records)
	}
	if most > first+first/4+32<<20 {
		t.Errorf("%d MB were in memory, and %d MB in the first gigabyte", most>>20, first>>20)
	}
}
