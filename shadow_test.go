package forebay_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// changed is the sink users of events with other columns.
func changed(columns ...mapping.Column) forebay.Sink {
	s := events().Sinks[0]
	s.Table.Columns = columns
	return s
}

func mustShadow(t *testing.T, e *forebay.Engine, s forebay.Sink, o forebay.ShadowOptions) *forebay.Shadow {
	t.Helper()
	shadow, err := e.Sink("web", s.ID).Shadow(t.Context(), s, o)
	must(t, err)
	return shadow
}

func shadowed(t *testing.T, e *forebay.Engine, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if _, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(body))); err != nil {
			var rejected *forebay.SinkError
			if !errors.As(err, &rejected) || rejected.Status != forebay.Rejected {
				t.Fatal(err)
			}
		}
	}
}

// balanced checks that each record that was seen is in one of the counters.
func balanced(t *testing.T, r forebay.ShadowReport) {
	t.Helper()
	if r.Seen != r.Unsampled+r.Dropped+r.TooLarge+r.Unreadable+r.Waiting+r.Compared {
		t.Errorf("%d records were seen, which is not the sum of the others: %+v", r.Seen, r)
	}
	if r.Compared != r.Equal+r.Different+r.OnlyCurrent+r.OnlyChanged+r.Neither {
		t.Errorf("%d records were compared, which is not the sum of the outcomes: %+v", r.Compared, r)
	}
}

// The report names the differences, and the live mapping continues as if there were no shadow.
func TestShadowReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t)
		mustDefine(t, e, events())
		began := time.Now()
		s := mustShadow(t, e, changed(
			mapping.Path("ID", "id", mapping.DataType("int64")),
			mapping.Path("user", "user.name", mapping.RawString(), mapping.Default("nobody")),
			mapping.Path("city", "user.city", mapping.Default("null")),
		), forebay.ShadowOptions{})
		shadowed(
			t, e,
			`{"id":1,"user":{"name":"Ada"}}`,        // equal
			`{"id":1.0,"user":{"name":"Bob"}}`,      // 1.0 becomes 1
			`{"id":2}`,                              // only the changed one takes it
			`{"id":"x","user":{"name":"Eve"}}`,      // only the current one
			`{"id":"y","user":{"name":"Eve"}}`,      // again
			`{"user":{"name":"Tom"},"id":[],"x":1}`, // only the current one: another reason or the same
			`{}`,                                    // only the changed one
			`{`,                                     // none, for the same reason
		)
		r := s.Close()
		balanced(t, r)
		if r.Seen != 8 || r.Compared != 8 || r.Equal != 1 || r.Different != 1 || r.OnlyChanged != 2 || r.OnlyCurrent != 3 || r.Neither != 1 {
			t.Errorf("counts: %+v", r)
		}
		if !r.Began.Equal(began) || r.End != forebay.ShadowClosed || r.Source != "web" || r.Sink != "users" {
			t.Errorf("frame: %+v", r)
		}
		want := []forebay.ShadowColumn{
			{Name: "ID", Different: 1, Examples: []forebay.ShadowExample{{
				Received: began, Current: forebay.ShadowCell{Text: "1.0"}, Changed: forebay.ShadowCell{Text: "1"},
			}}},
			{Name: "user"},
			{Name: "city", New: true},
		}
		if got := fmt.Sprintf("%+v", r.Columns); got != fmt.Sprintf("%+v", want) {
			t.Errorf("columns\n%s, want\n%+v", got, want)
		}
		var kinds []string
		for _, x := range r.Errors {
			kinds = append(kinds, fmt.Sprintf("%v %s %s %d", x.Changed, x.Column, x.Reason, x.Records))
			if !strings.Contains(x.Message, x.Column) {
				t.Errorf("message %q", x.Message)
			}
		}
		slices.Sort(kinds)
		if got := strings.Join(kinds, ", "); got != "false id missingValue 1, false user missingValue 1, true ID malformed 2, true ID wrongKind 1" {
			t.Errorf("errors %q", got)
		}
		must(t, e.Flush(t.Context(), "web"))
		if users, raw := len(mem.Rows("in.c-web.users")), len(mem.Rows("in.c-web.raw")); users != 5 || raw != 8 {
			t.Errorf("the tables have %d and %d rows", users, raw)
		}
		st := e.Stats().Sinks
		if n := st[1].Rejected["missingValue"]; n != 2 || len(st) != 2 {
			t.Errorf("the shadow is in the counters: %+v", st)
		}
	})
}

// The caller may reuse the memory of its record at once, whatever kind of record it is.
func TestShadowOwnsItsRecords(t *testing.T) {
	e, _ := openMemory(t)
	columns := mapping.Columns{
		mapping.Path("id", "id"), mapping.Template("shop", `Header("X-Shop")`), mapping.Datetime("at"), mapping.IP("ip"),
	}
	mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks[0].Table.Columns = columns }))
	other := slices.Clone(columns)
	other[1] = mapping.Template("shop", `std.toString(Body("id"))`) // which says the same
	s := mustShadow(t, e, changed(other...), forebay.ShadowOptions{})
	body, value, header := make([]byte, 0, 64), map[string]any{}, http.Header{}
	var rec mapping.Record
	var shop []byte
	const n = 500
	for i := range n {
		rec.Reset()
		shop = fmt.Append(shop[:0], i)
		header["X-Shop"] = []string{unsafe.String(&shop[0], len(shop))} // as a server that reuses its memory
		rec.Header = header
		if i%2 == 0 {
			body = fmt.Appendf(body[:0], `{"id":%d}`, i)
			rec.Body, rec.Format = body, mapping.FormatJSON
		} else {
			value["id"] = i
			rec.Document = mapping.From(value).Document
		}
		p, err := e.Submit(t.Context(), "web", &rec)
		must(t, err)
		copy(body, `{"id":"overwritten"}`)
		shop[0] = '-'
		header["X-Shop"][0] = "overwritten"
		value["id"] = "overwritten"
		if _, err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := s.Close()
	balanced(t, r)
	if r.Equal != n || r.Seen != n {
		t.Errorf("got %+v, want r.Equal == %v and r.Seen == %v", r, n, n)
	}
}

type faultyDocument struct{ panics bool }

func (d faultyDocument) AppendJSON(dst []byte) ([]byte, error) {
	if d.panics {
		panic("no")
	}
	return dst, errors.New("no")
}

// Data that the live mapping does not read cannot fail it because of the shadow.
func TestShadowOfUnreadableData(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(func(s *forebay.Source) {
		s.Sinks = s.Sinks[:1]
		s.Sinks[0].Table.Columns = mapping.Columns{mapping.Datetime("at")}
	}))
	s := mustShadow(t, e, changed(mapping.Body("body")), forebay.ShadowOptions{})
	for _, panics := range []bool{false, true} {
		if _, err := e.Ingest(t.Context(), "web", &mapping.Record{Document: faultyDocument{panics}}); err != nil {
			t.Error(err)
		}
	}
	r := s.Close()
	balanced(t, r)
	if r.Unreadable != 2 || r.Compared != 0 {
		t.Errorf("got %+v, want r.Unreadable == 2 and r.Compared == 0", r)
	}
}

// A shadow ends for each reason, and a sink without one can get another.
func TestShadowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openMemory(t)
		mustDefine(t, e, events())
		same := changed(events().Sinks[0].Table.Columns...)
		begin := func(o forebay.ShadowOptions) *forebay.Shadow {
			t.Helper()
			s := mustShadow(t, e, same, o)
			if _, err := e.Sink("web", same.ID).Shadow(t.Context(), same, forebay.ShadowOptions{}); !errors.Is(err, forebay.ErrShadowed) {
				t.Errorf("a second shadow: %v", err)
			}
			shadowed(t, e, good)
			return s
		}
		ends := func(s *forebay.Shadow, want forebay.ShadowEnd) {
			t.Helper()
			<-s.Done()
			shadowed(t, e, good) // is not seen
			r := s.Report()
			balanced(t, r)
			if r.End != want || r.Seen != 1 || r.Equal != 1 || !r.Ended.Equal(time.Now()) || s.Close().End != want {
				t.Errorf("the end is %+v, want %q", r, want)
			}
		}
		began := time.Now()
		s := begin(forebay.ShadowOptions{})
		if r := s.Report(); r.End != forebay.ShadowRuns || !r.Ended.IsZero() {
			t.Errorf("while it runs: %+v", r)
		}
		ends(s, forebay.ShadowTime)
		if d := time.Since(began); d != 10*time.Minute {
			t.Errorf("it ran for %v", d)
		}
		ends(begin(forebay.ShadowOptions{Records: 1}), forebay.ShadowRecords)

		s = begin(forebay.ShadowOptions{})
		mustDefine(t, e, events(func(s *forebay.Source) { s.Secret, s.Sinks[1].Disabled = "x", true }))
		synctest.Wait()
		if r := s.Report(); r.End != forebay.ShadowRuns {
			t.Errorf("the definition of another sink has ended it: %+v", r)
		}
		mustDefine(t, e, events(lenient))
		<-s.Done()
		if r := s.Report(); r.End != forebay.ShadowRedefined {
			t.Errorf("got %+v, want r.End == %v", r, forebay.ShadowRedefined)
		}
		s = begin(forebay.ShadowOptions{})
		mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks[0].Disabled = true }))
		<-s.Done()
		mustDefine(t, e, events())
		s = begin(forebay.ShadowOptions{})
		must(t, e.Remove(t.Context(), "web"))
		<-s.Done()
		mustDefine(t, e, events())
		s = begin(forebay.ShadowOptions{})
		must(t, e.Close())
		if r := s.Report(); r.End != forebay.ShadowClosed {
			t.Errorf("got %+v, want r.End == %v", r, forebay.ShadowClosed)
		}
		if _, err := e.Sink("web", same.ID).Shadow(t.Context(), same, forebay.ShadowOptions{}); !errors.Is(err, forebay.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestShadowRefuses(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, manySinks(10))
	refused := func(source string, s forebay.Sink, o forebay.ShadowOptions, want string) {
		t.Helper()
		if _, err := e.Sink(source, s.ID).Shadow(t.Context(), s, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	def := manySinks(10)
	refused("none", def.Sinks[0], forebay.ShadowOptions{}, "unknown source")
	refused("many", changed(), forebay.ShadowOptions{}, "unknown sink")
	broken := def.Sinks[0]
	broken.Table.Columns = mapping.Columns{mapping.Template("t", "(")}
	refused("many", broken, forebay.ShadowOptions{}, "s0")
	err := forebay.ShadowOptions{For: 25 * time.Hour, Records: -1, Sample: 2, MaxBytes: 1 << 30}.Validate()
	for _, field := range []string{"For", "Records", "Sample", "MaxBytes"} {
		if err == nil || !strings.Contains(err.Error(), "ShadowOptions."+field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	refused("many", def.Sinks[0], forebay.ShadowOptions{Sample: -1}, "Sample")
	for i := range 8 {
		if _, err := e.Sink("many", def.Sinks[i].ID).Shadow(t.Context(), def.Sinks[i], forebay.ShadowOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Sink("many", def.Sinks[8].ID).Shadow(t.Context(), def.Sinks[8], forebay.ShadowOptions{}); !errors.Is(err, forebay.ErrTooManyShadows) {
		t.Errorf("a ninth shadow: %v", err)
	}
}

// Callers, shadows that begin and end, and definitions do not disturb each other. Every record that was seen is counted.
func TestShadowsBesideCallers(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	same := changed(events().Sinks[0].Table.Columns...)
	var callers sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	stored := 0
	for range 4 {
		callers.Go(func() {
			n := 0
			for ; ; n++ {
				select {
				case <-stop:
					mu.Lock()
					stored += n
					mu.Unlock()
					return
				default:
				}
				if _, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(good))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	seen := int64(0)
	for i := 0; i < 40 || seen == 0; i++ {
		s := mustShadow(t, e, same, forebay.ShadowOptions{MaxBytes: 2000, Records: int64(i % 3 * 10)})
		for range 20 {
			s.Report()
		}
		if i%4 == 3 {
			mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks[0].Disabled = true }))
			mustDefine(t, e, events())
		}
		r := s.Close()
		balanced(t, r)
		if seen += r.Compared; r.Waiting != 0 || r.Different+r.Neither+r.OnlyChanged+r.OnlyCurrent > 0 {
			t.Errorf("got %+v, want r.Waiting == 0 and r.Different+r.Neither+r.OnlyChanged+r.OnlyCurrent <= 0", r)
		}
	}
	close(stop)
	callers.Wait()
	must(t, e.FlushAll(t.Context()))
	if got := len(mem.Rows("in.c-web.raw")); got != stored {
		t.Errorf("the table has %d rows of %d", got, stored)
	}
}
