package shadow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/mapping"
)

func compile(t *testing.T, columns mapping.Columns) *mapping.Mapper {
	t.Helper()
	m, err := mapping.Compile(columns, mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func comparison(t *testing.T, current, changed mapping.Columns) Comparison {
	t.Helper()
	return Comparison{
		Live: compile(t, current), Current: compile(t, current), Changed: compile(t, changed), CurrentColumns: current, ChangedColumns: changed,
		MaxRowBytes: 1 << 20,
	}
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
		slot.Offer(mapping.JSON([]byte(body)))
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
		s.offer(small)
	}
	s.offer(large)
	// The size of structured data is known only after it is written.
	s.opts.MaxBytes += recordOverhead
	s.offer(mapping.From(string(large.Body)))
	s.offer(mapping.From("0123456789"))
	r := s.Report()
	if r.Seen != 53 || r.Waiting != 10 || r.Dropped != 41 || r.TooLarge != 2 {
		t.Errorf("got %+v, want 53 seen, 10 waiting, 41 dropped, 2 too large", r)
	}
	go s.run()
	if r = s.Close(); r.Compared != 10 || r.Equal != 10 || r.Waiting != 0 || s.bytes != 0 || s.copying != 0 {
		t.Errorf("got %+v, %d bytes, want 10 compared and equal, nothing waiting, 0 bytes", r, s.bytes)
	}
}

// A mapping that panics ends the shadow, and nothing else.
func TestShadowThatPanics(t *testing.T) {
	var slot Slot
	var group Group
	defer group.Close()
	c := comparison(t, users(), users())
	c.Changed = nil
	s, err := group.Start(&slot, c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	slot.Offer(mapping.JSON([]byte("1")))
	<-s.Done()
	if r := s.Report(); r.End != Failed || r.Failure == "" || r.Dropped != 1 {
		t.Errorf("got %+v, want r.End == %v and r.Failure != \"\" and r.Dropped == 1", r, Failed)
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
