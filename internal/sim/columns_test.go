package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// field is a field of the records that sinks may have in a column, in addition to id and value.
type field struct {
	name string
	typ  datatype.Type
	// values are the JSON texts that clients send, each with the cell that it must become. The text "" leaves the field out.
	values [][2]string
}

// These stand for cells that are no text: NULL, and a value that rejects the record.
const (
	null    = "\x00"
	misfits = "\x01"
)

// typedFields are written by hand, because no code of the project says what becomes of a value.
var typedFields = []*field{
	{"n", datatype.Int64, [][2]string{{"", null}, {"null", null}, {"9007199254740993", "9007199254740993"}, {"1e3", "1000"}, {`"-0"`, "0"}, {"1.5", misfits}}},
	{"s", datatype.String, [][2]string{{"", null}, {"null", null}, {`""`, ""}, {`"null"`, "null"}, {`"a\n\"b\",\u0063"`, "a\n\"b\",c"}}},
	{"d", datatype.Decimal(6, 2), [][2]string{{"null", null}, {"1.5", "1.50"}, {`"-0.0"`, "0.00"}, {"12e2", "1200.00"}, {"1.005", misfits}}},
	{"t", datatype.Timestamp, [][2]string{{"", null}, {`"2026-11-22T00:30:00.1234567+01:00"`, "2026-11-21T23:30:00.123456Z"}}},
	{"j", datatype.JSON, [][2]string{{"null", null}, {`{"a": [1, null]}`, `{"a":[1,null]}`}, {`"null"`, `"null"`}, {`""`, `""`}}},
	{"u", datatype.Untyped, [][2]string{{"", noValue}, {"null", "null"}, {`""`, ""}, {`"x"`, "x"}}},
}

// value returns the field's text in the record of that name, and the cell that it must become.
func (f *field) value(seed uint64, name string) (text, cell string) {
	pair := f.values[int(share(seed, f.name+" of "+name)*float64(len(f.values)))]
	return pair[0], pair[1]
}

// column is a field in one version of a definition.
type column struct {
	*field
	as       string // its name, perhaps in another case
	required bool
	retyped  bool // as text, which the table cannot follow
}

// version is a definition's columns after the columns of the first releases.
type version []column

func (c column) inTable() datatype.Column {
	t := c.typ
	if c.retyped {
		t = datatype.String
	}
	return datatype.Column{Name: c.as, Type: t, Required: c.required}
}

func (v version) inTable(before []datatype.Column) []datatype.Column {
	for _, c := range v {
		before = append(before, c.inTable())
	}
	return before
}

func (v version) mapped(before mapping.Columns) mapping.Columns {
	for _, c := range v {
		m := mapping.Path(c.as, c.name, mapping.DataType(c.inTable().Type))
		if c.required {
			m.TypeOptions.Required = true
		}
		if c.typ == datatype.Untyped {
			m = mapping.Path(c.as, c.name, mapping.RawString(), mapping.Default(noValue))
		}
		before = append(before, m)
	}
	return before
}

func (v version) retyped() bool {
	return slices.ContainsFunc(v, func(c column) bool { return c.retyped })
}

// cells are the cells of a row as the buffer's clients write them.
func (v version) cells(seed uint64, name string) (out []byte) {
	for _, c := range v {
		switch _, cell := c.value(seed, name); cell {
		case null, misfits:
			out = append(out, ',')
		default:
			out = fmt.Appendf(out, `,"%s"`, strings.ReplaceAll(cell, `"`, `""`))
		}
	}
	return out
}

// made reports whether the version makes these cells of a record, which may have been in a quarantine. engine says that it was checked.
func (v version) made(seed uint64, x *row, name string, names, cells []string, engine bool) bool {
	if len(names) != len(v) || len(cells) != len(v) {
		return false
	}
	for i, c := range v {
		_, want := c.value(seed, name)
		if want == misfits && (!engine || x.edited != no) {
			want = null
		}
		if x.replayed && cells[i] == null && !x.columns[c.name] && !c.required && names[i] == c.as {
			continue // the target has refused a row without the column, and its record is gone
		}
		if names[i] != c.as || cells[i] != want || want == null && c.required && engine {
			return false
		}
	}
	return true
}

// grown is the known state of the columns of a sink.
type grown struct {
	rng *rand.Rand
	// accepted are the versions of which one was accepted last, in the table that they were for.
	accepted []version
	table    string
	// extends says that the table certainly grows.
	extends bool
	// kept are the fields that the table certainly keeps from earlier definitions.
	kept map[string]bool
	past []version
	// open says that the outcome of the last definition is not known. The table may have grown, and the sink may not know of it.
	open bool
}

// typed tells whether the sinks of the run have typed columns.
func (s scenario) typed() bool { return !s.plain && !s.untyped && chance(s.seed, 0.6, "typed") }

// grows tells whether the table of a sink grows. The third one is frozen.
func (r *run) grows(id string) bool { return r.typed() && letter(id) != "c" }

// drawVersion draws the columns of a sink. Its first definition may be frozen, and of a first release.
func (r *run) drawVersion(id string) {
	if !r.typed() {
		return
	}
	p, first := r.plans[id], r.grown[id] == nil
	if first {
		r.grown[id] = &grown{rng: rand.New(rand.NewPCG(r.seed, uint64(letter(id)[0]))), kept: map[string]bool{}}
	}
	g := r.grown[id]
	p.extend = r.grows(id) && !(first && chance(r.seed, 0.3, "frozen first "+id))
	if !first && !p.extend || first && r.opts.KeepFormat {
		p.extend = false
		return
	}
	p.version = nil
	if len(g.past) > 0 && g.rng.IntN(4) == 0 { // a rollback
		p.version = pick(g.rng, g.past...)
		return
	}
	for _, i := range g.rng.Perm(len(typedFields))[:g.rng.IntN(len(typedFields))] {
		c := column{field: typedFields[i], as: typedFields[i].name}
		if p.extend && g.rng.IntN(4) == 0 {
			c.as = strings.ToUpper(c.as)
		}
		c.required = c.typ == datatype.String && g.rng.IntN(3) == 0
		p.version = append(p.version, c)
	}
	g.past = append(g.past, p.version)
}

// retype gives a field that the table certainly keeps another type, and reports whether there is one.
func (r *run) retype(id string) bool {
	p, g := r.plans[id], r.grown[id]
	if g == nil || !p.extend || g.table != p.conf.Table.ID {
		return false
	}
	var kept []*field
	for _, f := range typedFields {
		if g.kept[f.name] && f.typ != datatype.String && f.typ != datatype.Untyped {
			kept = append(kept, f)
		}
	}
	if kept == nil {
		return false
	}
	f := pick(g.rng, kept...)
	v := slices.DeleteFunc(slices.Clone(p.version), func(c column) bool { return c.field == f })
	p.version = append(v, column{field: f, as: pick(g.rng, f.name, strings.ToUpper(f.name)), retyped: true})
	r.sum.add("columns: retyped", 1)
	return true
}

// offers notes that a definition of a sink is about to be made, and returns the versions that may be effective until its outcome
// is known. Called with mu held.
func (r *run) offers(id string) []version {
	p, g := r.plans[id], r.grown[id]
	if g == nil {
		return []version{nil}
	}
	if g.table != p.conf.Table.ID {
		g.table, g.extends = p.conf.Table.ID, false
		clear(g.kept)
	}
	return append(slices.Clone(g.accepted), p.version)
}

// verdict is what became of a definition of a sink.
type verdict uint8

const (
	unclear   verdict = iota
	effective         // in the store too
	keptLast          // the last accepted columns stay in use
	turnedDown
)

// settles notes the outcome of a definition, and returns the versions that may be effective now. Called with mu held.
func (r *run) settles(id string, v verdict) []version {
	p, g := r.plans[id], r.grown[id]
	if g == nil {
		return []version{nil}
	}
	g.open = v == unclear
	switch v {
	case effective:
		if p.version.retyped() {
			r.t.Errorf("sink %s: a definition was accepted with another type for a column that its table keeps: %+v", id, p.conf.Table)
		}
		g.accepted, g.extends = []version{p.version}, p.extend
		for _, c := range p.version {
			g.kept[c.name] = true
		}
		r.sum.add("columns: definitions accepted", 1)
	case unclear:
		g.accepted = append(slices.Clone(g.accepted), p.version)
	case keptLast:
		r.sum.add("columns: definitions that kept the last columns", 1)
	case turnedDown:
		r.sum.add("columns: definitions refused", 1)
	}
	return g.accepted
}

// verdictOf reads the outcome from the error of a definition. kept says that the earlier columns stay in use.
func verdictOf(err error, kept bool) verdict {
	var schema *driver.SchemaError
	var change *buffer.ChangeError
	switch {
	case err == nil && kept:
		return keptLast
	case err == nil:
		return effective
	case errors.As(err, &schema), errors.As(err, &change):
		return turnedDown
	}
	return unclear
}

// fit compares a table with the columns of a file or definition, as a target must. Called with mu held.
func (o *outside) fit(have *table, t driver.Table) error {
	refuse := &driver.SchemaError{Table: t.ID, Want: slices.Clone(t.Columns), Got: slices.Clone(have.columns)}
	if !t.Extend {
		if !slices.EqualFunc(have.columns, t.Columns, func(h, c datatype.Column) bool { return h.Name == c.Name && h.Type == c.Type }) {
			return refuse
		}
		return nil
	}
	more := slices.Clone(have.columns)
	for _, c := range t.Columns {
		switch i := have.find(c.Name); {
		case i < 0:
			more = append(more, datatype.Column{Name: c.Name, Type: c.Type})
		case have.columns[i].Type != c.Type:
			return refuse
		}
	}
	have.columns = more
	return nil
}

func (t *table) find(name string) int {
	return slices.IndexFunc(t.columns, func(c datatype.Column) bool { return strings.EqualFold(c.Name, name) })
}

// meddle gives the column n of a table another type, as an administrator may, or an engine with a different definition. It
// changes it back the next time, and at the end.
func (r *run) meddle(t *table) {
	i := t.find("n")
	switch {
	case i < 0:
		r.tell("another engine gives the table n as bool")
		t.columns = append(t.columns, datatype.Column{Name: "n", Type: datatype.Bool})
	case t.columns[i].Type == datatype.Bool:
		r.tell("the table has n as int64 again")
		t.columns[i].Type = datatype.Int64
	default:
		r.tell("somebody makes n of the table bool")
		t.columns[i].Type = datatype.Bool
	}
}

// extends tells whether the table of a sink certainly grows. Others may give it columns then.
func (r *run) extends(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.grown[id]
	return g != nil && g.extends && g.table == r.plans[id].conf.Table.ID
}

// another lets another engine, with another version of a definition, add its columns to the table. Then this one gets another
// version too.
func (r *run) another() {
	id := pick(r.extra, sortedKeys(r.plans)...)
	if !r.extends(id) {
		return
	}
	r.extend(id)
	p := r.plans[id]
	r.drawVersion(id)
	p.shape()
	r.tell("define %s: %v", id, p.conf.Table.Columns)
	r.define(id)
}

func (r *run) extend(id string) {
	t := driver.Table{ID: r.plans[id].conf.Table.ID, Extend: true, Columns: datatype.UntypedColumns("id", "value")}
	if r.engine() && letter(id) == "b" {
		t.Columns = append(t.Columns, datatype.Column{Name: "label"})
	}
	for _, i := range r.extra.Perm(len(typedFields))[:1+r.extra.IntN(3)] {
		t.Columns = append(t.Columns, datatype.Column{Name: strings.ToUpper(typedFields[i].name), Type: typedFields[i].typ})
	}
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if have := r.out.tables[t.ID]; have != nil && r.extra.IntN(2) == 0 {
		r.meddle(have)
		return
	}
	r.tell("another engine extends %s: %v", id, r.out.ensure(t))
	r.sum.add("columns: another engine extends the table", 1)
}
