package shadow

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

func compile(t testing.TB, columns mapping.Columns) *mapping.Mapper {
	t.Helper()
	m, err := mapping.Compile(columns, mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func comparison(t testing.TB, current, changed mapping.Columns) Comparison {
	t.Helper()
	c := Comparison{
		Live: compile(t, current), Current: compile(t, current), Changed: compile(t, changed), CurrentColumns: current, ChangedColumns: changed,
		MaxRowBytes: 1 << 20,
	}
	if ofCurrent, ofChanged := Differing(current, changed); len(ofChanged) > 0 {
		if c.PartOfChanged = compile(t, ofChanged); len(ofCurrent) > 0 {
			c.PartOfCurrent = compile(t, ofCurrent)
		}
	}
	return c
}

// offer gives a slot a record that the sink has mapped.
func offer(slot *Slot, live *mapping.Mapper, rec *mapping.Record) {
	row, err := live.AppendRow(nil, rec)
	rec.Release()
	slot.Offer(rec, len(row), err)
}

// compare returns the report about records with these bodies.
func compare(t *testing.T, current, changed mapping.Columns, opts Options, bodies ...string) Report {
	t.Helper()
	var slot Slot
	var group Group
	defer group.Close()
	s, err := group.Start(&slot, comparison(t, current, changed), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		offer(&slot, s.live, mapping.JSON([]byte(body)))
	}
	return s.Close()
}

func users() mapping.Columns {
	return mapping.Columns{mapping.Path("id", "id"), mapping.Path("user", "user.name", mapping.RawString())}
}

// While nothing is compared, callers copy no more than MaxBytes and continue.
func TestShadowIsBounded(t *testing.T) {
	columns := mapping.Columns{mapping.Body("body")}
	s := newShadow(new(Slot), comparison(t, columns, columns), Options{MaxBytes: 10 * (recordOverhead + 100)})
	small, large := mapping.JSON(make([]byte, 100)), mapping.JSON(make([]byte, 20000))
	for range 50 {
		s.offer(small, 110)
	}
	s.offer(large, 20010)
	// The size of structured data is known only after it is written.
	s.opts.MaxBytes += recordOverhead
	s.offer(mapping.From(string(large.Body)), 20010)
	s.offer(mapping.From("0123456789"), 15)
	r := s.Report()
	if r.Seen != 53 || r.Waiting != 10 || r.Dropped != 41 || r.TooLarge != 2 {
		t.Errorf("got %+v, want 53 seen, 10 waiting, 41 dropped, 2 too large", r)
	}
	go s.run()
	if r = s.Close(); r.Compared != 10 || r.Equal != 10 || r.Waiting != 0 || s.bytes != 0 || s.open != 0 {
		t.Errorf("got %+v, %d bytes, %d open, want 10 compared, all equal", r, s.bytes, s.open)
	}
}

type panicking struct{}

func (panicking) AppendRow([]byte, *mapping.Record) ([]byte, error) { panic("broken") }

// A mapping that panics ends the shadow, and nothing else. The records that wait are dropped.
func TestShadowThatPanics(t *testing.T) {
	s := newShadow(new(Slot), comparison(t, users(), users()), Options{})
	s.whole.changed.mapper = panicking{}
	for range 3 {
		s.offer(mapping.JSON([]byte("1")), -1)
	}
	go s.run()
	<-s.Done()
	if r := s.Report(); r.End != Failed || r.Failure != "broken" || r.Dropped != 3 || r.Waiting != 0 || s.bytes != 0 || s.open != 0 {
		t.Errorf("got %+v, %d bytes, %d open, want End %q, Failure broken and 3 dropped", r, s.bytes, s.open, Failed)
	}
}

// Values of secret columns are in no report, even if only one of the mappings has marked them.
func TestShadowHidesSecrets(t *testing.T) {
	current := users()
	current[1].Secret = true
	r := compare(t, current, mapping.Columns{
		mapping.Path("id", "id", mapping.Secret(), mapping.RawString()), mapping.Template("user", `"a " + Body("user.name")`),
		mapping.Path("number", "user.name", mapping.Secret(), mapping.DataType("int64"), mapping.Default("0")),
	}, Options{}, `{"id":"canary","user":{"name":"canary"}}`, `{"id":"canary","user":{"name":"3"}}`)
	if r.Different != 1 || r.OnlyCurrent != 1 || r.Columns[0].Examples[0].Current.Text != "***" || r.Columns[1].Examples[0].Changed.Text != "***" {
		t.Errorf("got %+v, want one different and one row only now, with examples as ***", r)
	}
	if strings.Contains(fmt.Sprintf("%+v", r), "canary") {
		t.Errorf("the report has a secret: %+v", r)
	}
}

// Examples are bounded in number and size, and a text is not cut inside a character.
func TestShadowExamplesAreBounded(t *testing.T) {
	body := `{"id":1,"user":{"name":"` + strings.Repeat("aé", 1000) + `"}}`
	changed := mapping.Columns{mapping.Path("id", "id"), mapping.Template("user", `Body("user.name") + "é"`, mapping.RawString())}
	r := compare(t, users(), changed, Options{}, body, body, body, body, body)
	examples := r.Columns[1].Examples
	if r.Different != 5 || r.Columns[1].Different != 5 || len(examples) != 3 || len(r.Columns[0].Examples) != 0 {
		t.Fatalf("got %+v, want 5 different rows in column 1 with 3 examples", r)
	}
	if text := examples[2].Current.Text; len(text) > 260 || len(text) < 250 || strings.ToValidUTF8(text, "?") != text {
		t.Errorf("an example has %d bytes: %q", len(text), text)
	}
}

// UUIDs are not compared, NULL is not the empty text, and a removed column is named.
func TestShadowCells(t *testing.T) {
	r := compare(t, mapping.Columns{
		mapping.UUID("uuid"), mapping.Path("gone", "id"), mapping.Path("user", "user", mapping.DataType("string"), mapping.Default("")),
	}, mapping.Columns{mapping.UUID("uuid"), mapping.Path("user", "user", mapping.DataType("string"))}, Options{}, `{"id":1,"user":"Ada"}`, `{"id":2}`)
	if r.Equal != 1 || r.Different != 1 || !r.Columns[0].Generated || r.Columns[2].Name != "gone" || !r.Columns[2].Missing {
		t.Fatalf("got %+v, want 1 equal and 1 different row, a generated and a missing column", r)
	}
	if x := r.Columns[1].Examples[0]; x.Current != (Cell{}) || x.Changed != (Cell{Null: true}) {
		t.Errorf("got %+v, want x.Current == (Cell{}) and x.Changed == (Cell{Null: true})", x)
	}
}

// A sample is drawn from the records.
func TestShadowSample(t *testing.T) {
	bodies := make([]string, 1000)
	for i := range bodies {
		bodies[i] = `{"id":1,"user":{"name":"Ada"}}`
	}
	r := compare(t, users(), users(), Options{Sample: 0.5}, bodies...)
	// Both are 500 on average, and further away than this once in 10^20 runs.
	if r.Seen != 1000 || r.Unsampled < 350 || r.Unsampled > 650 {
		t.Errorf("got %+v, want r.Seen == 1000 and r.Unsampled >= 350 and r.Unsampled <= 650", r)
	}
}

// A report says the same whether all columns are mapped or only the columns that differ.
func TestShadowOfPartsEqualsShadowOfRows(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Of(t), 0))
	pool := []func() mapping.Column{
		func() mapping.Column { return mapping.UUID("id") },
		func() mapping.Column { return mapping.Body("body") },
		func() mapping.Column { return mapping.Headers("h") },
		func() mapping.Column { return mapping.Datetime("at") },
		func() mapping.Column {
			return mapping.Template("t", []string{`Body("a") + 1`, `Header("X-Shop")`, `error "no"`}[r.IntN(3)])
		},
		func() mapping.Column { return mapping.Path("a", []string{"a", "b"}[r.IntN(2)], mapping.RawString()) },
		func() mapping.Column { return mapping.Path("B", "b", mapping.Default(`""`)) },
		func() mapping.Column { return mapping.Path("b", "b") },
		func() mapping.Column { return mapping.Path("n", "a", mapping.DataType("int64")) },
		func() mapping.Column { return mapping.Path("s", "b", mapping.DataType("string")) },
	}
	columns := func() (all mapping.Columns) {
		for len(all) == 0 {
			for _, i := range r.Perm(len(pool)) {
				if c := pool[i](); r.IntN(2) == 0 && find(all, c.Name) < 0 {
					all = append(all, c)
				}
			}
		}
		if all[0].DataType != "" && len(all) == 1 {
			all = append(all, mapping.Body("body"))
		}
		return all
	}
	bodies := []string{`{"a":1,"b":"x"}`, `{"a":1}`, `{"b":"` + strings.Repeat("y", 90) + `"}`, `{`, `[]`, `{"a":null,"b":null}`, `{"a":"7","b":2}`}
	parts := 0
	for range 300 {
		current := columns()
		changed := slices.Clone(current)
		if r.IntN(3) == 0 {
			changed = columns()
		} else {
			i := r.IntN(len(changed) + 1)
			if c := pool[r.IntN(len(pool))](); find(changed, c.Name) < 0 {
				changed = slices.Insert(changed, i, c)
			}
		}
		var reports [2]Report
		for i := range reports {
			c := comparison(t, current, changed)
			c.WholeRows, c.MaxRowBytes = i == 1, 120
			s := newShadow(new(Slot), c, Options{})
			slot := Slot{}
			slot.shadow.Store(s)
			s.slot = &slot
			for k := range 40 {
				rec := mapping.JSON([]byte(bodies[k%len(bodies)]))
				rec.Header, rec.Received = http.Header{"X-Shop": {"a"}, "Accept": {"*/*"}}, time.Unix(1e9+int64(k), 0).UTC()
				row, err := c.Live.AppendRow(nil, rec)
				rec.Release()
				if len(row) > c.MaxRowBytes {
					err = &mapping.RowTooLargeError{Size: len(row), Limit: c.MaxRowBytes}
				}
				slot.Offer(rec, len(row), err)
			}
			s.compareWaiting()
			if i == 0 && s.timed < 40 {
				parts++
			}
			reports[i] = s.Report()
			reports[i].Began, reports[i].CurrentTime, reports[i].ChangedTime = time.Time{}, 0, 0
		}
		if !reflect.DeepEqual(reports[0], reports[1]) {
			t.Fatalf("%+v\n%+v\ngot  %+v\nwant %+v", current, changed, reports[0], reports[1])
		}
	}
	if parts < 100 {
		t.Errorf("got %d shadows that mapped a part, want at least 100", parts)
	}
}

// A record that is compared allocates nothing, and costs little more than its own mapping.
func TestShadowCost(t *testing.T) {
	rec := record(1000)
	s := newShadow(new(Slot), comparison(t, sevenColumns(), append(sevenColumns(), mapping.Path("amount", "amount"))), Options{})
	row, err := s.live.AppendRow(nil, rec)
	if err != nil {
		t.Fatal(err)
	}
	size := len(row)
	mapped := func() {
		row, _ = s.live.AppendRow(row[:0], rec)
		rec.Release()
	}
	compared := func() {
		s.offer(rec, size)
		s.compareWaiting()
	}
	if compared(); testing.Short() { // the race detector makes pools forget, and one side slower than the other
		return
	}
	if n := testing.AllocsPerRun(1000, compared); n > 0 {
		t.Errorf("got %v allocations a record, want none", n)
	}
	fastest := func(f func()) time.Duration {
		began := time.Now()
		for range 500 {
			f()
		}
		return time.Since(began)
	}
	own, shadow := time.Hour, time.Hour
	for range 40 {
		own, shadow = min(own, fastest(mapped)), min(shadow, fastest(compared))
	}
	if ratio := float64(shadow) / float64(own); ratio > 2 { // 0.95 to 1.3 where nothing else runs
		t.Errorf("a shadow costs %.2f times the mapping of its records, want at most 2", ratio)
	}
	if r := s.Report(); r.Compared == 0 || r.Equal != r.Compared {
		t.Errorf("got %+v, want all compared and equal", r)
	}
}

// BenchmarkShadow compares a record of 1 KB and of 150 B with its own mapping. "mapping" is one mapping of the same record.
func BenchmarkShadow(b *testing.B) {
	for _, size := range []int{150, 1000} {
		rec := record(size)
		b.Run(fmt.Sprintf("mapping/%d", size), func(b *testing.B) {
			m, row := compile(b, sevenColumns()), []byte(nil)
			b.ReportAllocs()
			for b.Loop() {
				row, _ = m.AppendRow(row[:0], rec)
				rec.Release()
			}
		})
		b.Run(fmt.Sprintf("shadow/%d", size), func(b *testing.B) {
			s := newShadow(new(Slot), comparison(b, sevenColumns(), append(sevenColumns(), mapping.Path("amount", "amount"))), Options{})
			row, err := s.live.AppendRow(nil, rec)
			if err != nil {
				b.Fatal(err)
			}
			rec.Release()
			b.ReportAllocs()
			for b.Loop() {
				s.offer(rec, len(row))
				s.compareWaiting()
			}
		})
	}
}

// sevenColumns are the columns of a webhook.
func sevenColumns() mapping.Columns {
	return mapping.Columns{
		mapping.UUID("id"), mapping.Datetime("at"), mapping.IP("ip"), mapping.Headers("headers"), mapping.Body("body"),
		mapping.Path("event", "event", mapping.RawString()), mapping.Path("user", "user.id"),
	}
}

func record(size int) *mapping.Record {
	rec := mapping.JSON(fmt.Appendf(nil, `{"event":"click","user":{"id":"u-1"},"amount":12.5,"text":"%s"}`, strings.Repeat("x", size-70)))
	rec.Header = http.Header{
		"Accept": {"*/*"}, "Content-Type": {"application/json; charset=utf-8"}, "Content-Length": {"190"}, "User-Agent": {"shop/1.2 (linux)"}, "X-Request-Id": {"0d5cd3a8b6ac"},
	}
	rec.Received, rec.ClientIP, rec.Host = time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC), netip.MustParseAddr("10.2.3.4"), "events.example.com"
	return rec
}
