package mapping

import (
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forebay/forebay/datatype"
)

type lineOf struct {
	SKU   string  `json:"sku"`
	Price float64 `json:"price,omitempty"`
	Notes []string
	Kids  []lineOf `json:"kids,omitempty"` // recursive
}

type shownOf struct {
	Depth *int16 `json:",omitempty"`
	Both  string
}

// encodedOf has a field of each kind, including the kinds that encoding/json writes.
type encodedOf struct {
	embeddedOf
	*pointedOf
	*shownOf `json:"named"`
	Both     int
	Flags    struct {
		A, B bool `json:",omitempty"`
	}
	I     int `json:"i,string"`
	I8    int8
	I16   int16           `json:",omitempty"`
	I32   int32           `json:",omitzero"`
	I64   int64           `json:"<i&>"`
	U     uint            `json:",string"`
	U8    uint8           `json:"é"`
	U16   uint16          `json:"a.b"`
	U32   uint32          `json:",omitempty"`
	U64   uint64          `json:"u64"`
	Ptr   uintptr         `json:",omitempty"`
	F32   float32         `json:",omitempty"`
	F64   float64         `json:"f64"`
	FP    *float64        `json:"fp,omitempty"`
	S     string          `json:"s"`
	SO    string          `json:"so,omitempty"`
	SZ    string          `json:"sz,omitzero"`
	B     []byte          `json:"b"`
	BO    []byte          `json:"bo,omitempty"`
	T     time.Time       `json:"t"`
	TZ    time.Time       `json:"tz,omitzero"`
	TP    *time.Time      `json:"tp"`
	PP    **string        `json:"pp"`
	Arr   [3]int16        `json:"arr"`
	Bytes [2]byte         `json:"bytes"`
	Empty [0]int          `json:"empty,omitempty"`
	L     []lineOf        `json:"l"`
	LP    []*shownOf      `json:"lp,omitempty"`
	LL    [][]bool        `json:"ll"`
	M     map[string]int  `json:"m,omitempty"`
	Any   any             `json:"any,omitempty"`
	Num   json.Number     `json:"num"`
	Raw   json.RawMessage `json:"raw"`
	Big   *big.Int        `json:"big"`
	ID    uuid.UUID       `json:"id"`
	Addr  netip.Addr      `json:"addr"`
	Null  sql.Null[int64] `json:"null"`
	By    byPointer       `json:"by"`
	Zero  lineOfZero      `json:"zero"`
	Left  chan int        `json:"-"`
}

// lineOfZero has a field that only encoding/json can write.
type lineOfZero struct {
	Text string   `json:"text,string"`
	Far  *float32 `json:"far,omitzero"`
}

var textsOf = []string{"", "a", "plain text of many words", "a \"<b>\" & é\n", "\u2028and\u2029", "\xff not UTF-8", "\x00\x7f\x1f", "日本語日本語", "tail\u2028"}

// fill sets every field to a random value, with bounds where not every value has JSON.
func fill(v reflect.Value, r *rand.Rand, depth int) {
	if !v.CanSet() {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<33)-1<<31, r.Int64N(1e9)).In(time.FixedZone("", (r.IntN(24)-12)*1800+r.IntN(2)*28))))
		return
	case json.Number:
		v.SetString([]string{"", "0", "-1.5e9", "12.340"}[r.IntN(4)])
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf([]json.RawMessage{nil, json.RawMessage(`{"a": [1, "<"]}`), json.RawMessage(`1`)}[r.IntN(3)]))
		return
	case *big.Int:
		v.Set(reflect.ValueOf(big.NewInt(r.Int64())))
		return
	case netip.Addr, chan int, sql.Null[int64], uuid.UUID:
		return
	case any:
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, r.Int64() >> r.IntN(63), math.MinInt64}[r.IntN(5)])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint([]uint64{0, 1, math.MaxUint64, r.Uint64() >> r.IntN(63)}[r.IntN(4)])
	case reflect.Float32, reflect.Float64:
		f := []float64{0, math.Copysign(0, -1), 1, 1e-6, 1e-7, 9.5e-9, 1e20, 1e21, -3.25, 1e38, r.NormFloat64() * math.Pow(10, float64(r.IntN(60)-30))}[r.IntN(11)]
		v.SetFloat(f)
	case reflect.String:
		v.SetString(textsOf[r.IntN(len(textsOf))])
	case reflect.Pointer:
		if v.SetZero(); r.IntN(3) > 0 && depth < 6 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), r, depth+1)
		}
	case reflect.Slice:
		if v.SetZero(); r.IntN(3) > 0 && depth < 5 {
			v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
			for i := range v.Len() {
				fill(v.Index(i), r, depth+1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), r, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]int{"b": 1, "a": 2}))
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{"<x>", 1.5, nil}))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r, depth+1)
		}
	}
}

// The document of an Encoder equals the output of encoding/json, for every kind of field.
func TestEncoderWritesWhatEncodingJSONWrites(t *testing.T) {
	enc, err := NewEncoder[encodedOf]()
	must(t, err)
	var record Record
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		v := new(encodedOf)
		if i > 0 {
			fill(reflect.ValueOf(v).Elem(), r, 0)
			v.Inner, v.Hidden, v.By.n = r.IntN(3), "x", r.IntN(3)
			if r.IntN(2) == 0 {
				v.pointedOf = &pointedOf{Far: r.IntN(2) == 0}
			}
			v.ID, v.Null.Valid = uuid.UUID{byte(i)}, i%2 == 0
		}
		want, err := goValue{v}.AppendJSON(nil)
		must(t, err)
		enc.Set(&record, v)
		got, err := record.Document.AppendJSON([]byte("x"))
		if err != nil || string(got) != "x"+string(want) {
			t.Fatalf("value %d: %v\ngot  %s\nwant x%s", i, err, got, want)
		}
	}
	pointers, err := NewEncoder[*encodedOf]()
	must(t, err)
	var nothing *encodedOf
	pointers.Set(&record, &nothing)
	if got, err := record.Document.AppendJSON(nil); err != nil || string(got) != "null" {
		t.Errorf("a nil pointer is %s %v, want null", got, err)
	}
}

// The row of a value equals the row of its JSON, for all columns and limits of the target. Rejected records are rejected for the same reason.
func TestEncoderGivesTheRowsOfFrom(t *testing.T) {
	enc, err := NewEncoder[encodedOf]()
	must(t, err)
	own, err := ColumnsOf[encodedOf]()
	must(t, err)
	text := make(Columns, 0, len(own))
	for _, c := range own { // other types, most of which reject some values
		if c.Type == TypePath {
			text = append(text, Path("s "+c.Name, c.Path, DataType(datatype.String), With(TypeOptions{AnyKind: true, EmptyIsNull: true})))
		}
	}
	var mappers []*Mapper
	for _, limits := range []*datatype.Limits{nil, {UTF8: true, NoNUL: true}, {MaxCell: 12}} {
		options := Options{}
		if limits != nil {
			options.Limits = *limits
		}
		for _, columns := range []Columns{own, text} {
			m, err := Compile(columns, options)
			must(t, err)
			mappers = append(mappers, m)
		}
		for _, c := range own { // alone, so that each column is the first to reject
			if c.Type != TypePath {
				continue
			}
			for _, other := range []Column{
				c, Path(c.Name, c.Path, DataType(datatype.JSON)), Path(c.Name, c.Path, DataType(datatype.JSON), With(TypeOptions{ParseText: true})), Path(c.Name, c.Path),
				Path(c.Name, c.Path, RawString()), Path(c.Name, c.Path+"[0]", Default("none"), DataType(datatype.String)),
				Path(c.Name, c.Path, DataType(datatype.Int64), Default(7)), Path(c.Name, c.Path, DataType(datatype.Timestamp), With(TypeOptions{Epoch: "ns", ElsePath: "t"})),
			} {
				m, err := Compile(Columns{UUID("row id"), other}, options)
				must(t, err)
				mappers = append(mappers, m)
			}
		}
	}
	var record Record
	r := rand.New(rand.NewPCG(3, 4))
	stored, rejected := 0, 0
	for i := range 400 {
		v := new(encodedOf)
		fill(reflect.ValueOf(v).Elem(), r, 0)
		if i%2 == 0 {
			v.pointedOf = &pointedOf{Far: true}
		}
		enc.Set(&record, v)
		from := From(v)
		for _, m := range mappers {
			got, err := m.AppendRow(nil, &record)
			want, wantErr := m.AppendRow(nil, from)
			if m.cells[0].typ == TypeUUID && len(got) > 38 && len(want) > 38 {
				got, want = got[38:], want[38:]
			}
			if string(got) != string(want) || reasonOf(err) != reasonOf(wantErr) {
				t.Fatalf("value %d, columns %v:\ngot  %s %v\nwant %s %v", i, m.Columns(), got, err, want, wantErr)
			}
			if err == nil {
				stored++
			} else {
				rejected++
			}
		}
	}
	if stored < 10_000 || rejected < 10_000 {
		t.Errorf("%d rows are stored and %d rejected: the test needs many of both", stored, rejected)
	}
}

// The Encoder refuses the values that encoding/json refuses, with the same errors. The next record is not affected.
func TestEncoderRefusesWhatEncodingJSONRefuses(t *testing.T) {
	type row struct {
		F  float64     `json:"f"`
		At time.Time   `json:"at"`
		N  json.Number `json:"n"`
		W  *wrongOf    `json:"w"`
	}
	enc, err := NewEncoder[row]()
	must(t, err)
	m := mustCompile(t, Path("f", "f"), Path("at", "at"), Path("n", "n"))
	var r Record
	for _, v := range []row{{F: math.NaN()}, {F: math.Inf(-1)}, {At: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, {N: "1x"}, {W: &wrongOf{}}, {W: &wrongOf{bad: true}}} {
		_, want := m.AppendRow(nil, From(&v))
		enc.Set(&r, &v)
		row, got := m.AppendRow(nil, &r)
		if want == nil || got == nil || got.Error() != want.Error() || reasonOf(got) != InvalidBody || len(row) != 0 {
			t.Errorf("%+v: got %v, want %v", v, got, want)
		}
		var unsupported *json.UnsupportedValueError
		if v.N == "" && v.W == nil && v.At.IsZero() && !errors.As(got, &unsupported) {
			t.Errorf("%+v: got %v, want an error of encoding/json", v, got)
		}
	}
	enc.Set(&r, &row{F: 1})
	if out, err := m.AppendRow(nil, &r); err != nil || string(out) != `"1","""0001-01-01T00:00:00Z""","0"`+"\n" {
		t.Errorf("got %s %v", out, err)
	}
	if _, err := NewEncoder[struct{ C chan int }](); err == nil || !strings.Contains(err.Error(), "encoding/json cannot write a chan int") {
		t.Errorf("got %v for a field without JSON", err)
	}
}

// jsonOf, textOf and their pointers write themselves, without memory.
type (
	jsonOf  struct{ text []byte }
	textOf  [4]byte
	jsonAt  struct{ text []byte }
	wrongOf struct{ bad bool }
)

func (v jsonOf) MarshalJSON() ([]byte, error)  { return v.text, nil }
func (v *jsonAt) MarshalJSON() ([]byte, error) { return v.text, nil }
func (v *textOf) MarshalText() ([]byte, error) { return v[:], nil }

func (v wrongOf) MarshalJSON() ([]byte, error) {
	if v.bad {
		return []byte("{"), nil
	}
	return nil, errors.New("no JSON today")
}

// A type with its own MarshalJSON or MarshalText costs no reflection, which would allocate, and no memory but that of its method.
func TestEncoderCallsMethodsWithoutReflection(t *testing.T) {
	type row struct {
		JSON    jsonOf   `json:"json"`
		At      *jsonOf  `json:"at"`
		Ptr     jsonAt   `json:"ptr"`
		Text    textOf   `json:"text"`
		List    []jsonAt `json:"list"`
		TextAt  *textOf  `json:"text_at"`
		Nothing *jsonAt  `json:"nothing"`
	}
	columns, err := ColumnsOf[row]()
	must(t, err)
	enc, err := NewEncoder[row]()
	must(t, err)
	text := []byte(`{"a": [1, 2]}`)
	v := &row{JSON: jsonOf{text}, At: &jsonOf{text}, Ptr: jsonAt{text}, Text: textOf{'a', 'b', '"', 'd'}, List: []jsonAt{{text}, {text}}, TextAt: &textOf{'a', 'b', 'c', 'd'}}
	for name, m := range map[string]*Mapper{"columns": mustCompile(t, columns...), "body": mustCompile(t, Body("body"))} {
		want, err := m.AppendRow(nil, From(v))
		must(t, err)
		var r Record
		var got []byte
		run := func() {
			enc.Set(&r, v)
			if got, err = m.AppendRow(got[:0], &r); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if string(got) != string(want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if n := testing.AllocsPerRun(200, run); n != 0 && !raceEnabled {
			t.Errorf("%s: got %v allocations per row, want none", name, n)
		}
	}
}

// Check names the columns that no value can fill, and no other columns.
func TestEncoderCheck(t *testing.T) {
	type item struct{ SKU string }
	type row struct {
		ID   int64                `json:"id"`
		OK   bool                 `json:"ok"`
		At   time.Time            `json:"at"`
		Text string               `json:"text"`
		Item item                 `json:"item"`
		Maps map[string]any       `json:"maps"`
		Null sql.Null[bool]       `json:"null"`
		Kept string               `json:"kept" forebay:"-"`
		Opt  *int                 `json:"opt,omitempty"`
		List []map[string]float64 `json:"list"`
	}
	enc, err := NewEncoder[row]()
	must(t, err)
	own, err := ColumnsOf[row]()
	must(t, err)
	typed := func(name, path string, typ datatype.Type, opts ...ColumnOption) Column {
		return Path(name, path, append(opts, DataType(typ))...)
	}
	fine := append(own, UUID("u"), Datetime("d"), Body("b"), Path("whole", ""), Path("kept", "kept"), Path("deep", "maps.a.b"), Path("d2", "none", Default("x")),
		typed("as_text", "id", datatype.String), typed("parsed", "text", datatype.Int64), typed("late", "id", datatype.Timestamp, func(c *Column) { c.Epoch = EpochMillis }),
		typed("else", "none", datatype.Timestamp, func(c *Column) { c.ElseArrival = true }))
	if err := enc.Check(fine); err != nil {
		t.Errorf("got %v for columns that can be filled", err)
	}
	err = enc.Check(Columns{
		Path("price", "price"), typed("t", "txet", datatype.String), typed("ok", "ok", datatype.Timestamp), typed("id", "id", datatype.Timestamp),
		typed("item", "item", datatype.Int64), Path("fine", "id"),
	})
	want := strings.Join([]string{
		`column "price": path "price": no field of mapping.row writes "price"; add the field, or give the column a default`,
		`column "t": path "txet": no field of mapping.row writes "txet"; add the field, or give the column a default`,
		`column "ok": path "ok": field OK has the type bool, and a column of type timestamp never accepts it (wrongKind)`,
		`column "id": path "id": field ID has the type int64, and a column of type timestamp never accepts it (needsUnit)`,
		`column "item": path "item": field Item has the type mapping.item, and a column of type int64 never accepts it (wrongKind)`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// BenchmarkEncoder compares the row of a value with the row of its JSON, a hundred rows of each in turn, and reports the ratios of the medians:
//
//	go test ./mapping -run '^$' -bench Encoder -count 5
func BenchmarkEncoder(b *testing.B) {
	type line struct {
		SKU   string  `json:"sku"`
		Price float64 `json:"price"`
	}
	type row struct {
		ID      int64     `json:"id"`
		Shop    string    `json:"shop"`
		At      time.Time `json:"at"`
		Paid    bool      `json:"paid"`
		Cents   uint32    `json:"cents"`
		Country string    `json:"country"`
		Coupon  *string   `json:"coupon"`
		Lines   []line    `json:"lines"`
	}
	columns, err := ColumnsOf[row]()
	if err != nil {
		b.Fatal(err)
	}
	enc, err := NewEncoder[row]()
	if err != nil {
		b.Fatal(err)
	}
	m := mustCompile(b, columns...)
	v := &row{ID: 12345, Shop: "north", At: time.Date(2026, 11, 29, 10, 0, 1, 5000, time.UTC), Paid: true, Cents: 99, Country: "CZ", Lines: []line{{"A-1", 2.5}, {`B "2"`, 7}}}
	text, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	var r Record
	var out []byte
	ways := []struct {
		name string
		set  func()
		took []time.Duration
	}{
		{name: "json", set: func() { r.Reset(); r.Body, r.Format = text, FormatJSON }},
		{name: "typed", set: func() { enc.Set(&r, v) }},
		{name: "from", set: func() { r.Reset(); r.Document = goValue{v} }},
	}
	const rows = 100
	for b.Loop() {
		for k := range ways {
			w := &ways[k]
			begin := time.Now()
			for range rows {
				w.set()
				if out, err = m.AppendRow(out[:0], &r); err != nil {
					b.Fatal(err)
				}
			}
			w.took = append(w.took, time.Since(begin))
		}
	}
	median := func(k int) float64 {
		slices.Sort(ways[k].took)
		return float64(ways[k].took[len(ways[k].took)/2].Nanoseconds()) / rows
	}
	for k, w := range ways {
		b.ReportMetric(median(k), w.name+"-ns/row")
		if k > 0 {
			b.ReportMetric(median(k)/median(0), w.name+"/json")
		}
	}
}
