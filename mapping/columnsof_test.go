package mapping

import (
	"database/sql"
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forebay/forebay/datatype"
)

type embeddedOf struct {
	Inner  int    `json:"inner"`
	Hidden string `json:"Text"` // the outer one is less deep
}

type pointedOf struct{ Far bool }

type everythingOf struct {
	embeddedOf
	*pointedOf
	Bool     bool
	Text     string `json:"Text"`
	Int      int8
	Uint     uint32
	Big      uint64
	Float    float32
	At       time.Time       `json:"at"`
	Paid     *time.Time      `json:"paid" forebay:"paid_on,type=date,fromTimestamp"`
	Bytes    []byte          `json:"bytes"`
	ID       uuid.UUID       `json:"id"`
	Addr     netip.Addr      `json:"addr"`
	Total    json.Number     `json:"total" forebay:",type=decimal(10,2),required=false"`
	Raw      json.RawMessage `json:"raw"`
	Whole    *big.Int        `json:"whole" forebay:"whole,type=decimal(38,0),required"`
	Any      any             `json:"any"`
	List     []int           `json:"list"`
	Map      map[string]int  `json:"a.b"`
	Struct   struct{ X int } `json:"1"`
	Maybe    int             `json:"maybe,omitempty"`
	Quoted   int64           `json:"quoted,string"`
	Null     sql.Null[int64] `json:"null"`
	NullText *sql.NullString `json:"null text"`
	NullAt   sql.NullTime    `json:"nullAt" forebay:"null_at,type=date,fromTimestamp"`
	Skipped  string          `forebay:"-"`
	Left     string          `json:"-"`
	private  int
}

func TestColumnsOf(t *testing.T) {
	columns, err := ColumnsOf[*everythingOf]()
	must(t, err)
	m := mustCompile(t, columns...)
	at := time.Date(2026, 11, 22, 23, 0, 0, 500, time.FixedZone("", -3600))
	id := uuid.MustParse("0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b")
	full := everythingOf{
		embeddedOf: embeddedOf{Inner: 1}, pointedOf: &pointedOf{true}, Bool: true, Text: "t\"é", Int: -3, Uint: 4, Big: math.MaxUint64, Float: 1.5, At: at, Paid: &at, Bytes: []byte("\xff"), ID: id,
		Addr: netip.MustParseAddr("1.2.3.4"), Total: "1.5", Raw: json.RawMessage(`{"a": 1}`), Whole: new(big.Int).Lsh(big.NewInt(1), 100), Any: "x", List: []int{1},
		Map: map[string]int{"k": 1}, Maybe: 7, Quoted: 8, Null: sql.Null[int64]{V: math.MaxInt64, Valid: true}, NullText: &sql.NullString{String: "s", Valid: true}, NullAt: sql.NullTime{Time: at, Valid: true},
	}
	full.Struct.X, full.private = 5, 1
	null := everythingOf{Whole: new(big.Int), Addr: netip.MustParseAddr("::1")}
	want := []struct {
		column     datatype.Column
		full, null string
	}{
		{datatype.Column{Name: "inner", Type: datatype.Int64, Required: true}, "1", "0"},
		{datatype.Column{Name: "Far", Type: datatype.Bool}, "true", "NULL"},
		{datatype.Column{Name: "Bool", Type: datatype.Bool, Required: true}, "true", "false"},
		{datatype.Column{Name: "Text", Type: datatype.String, Required: true}, "t\"é", ""},
		{datatype.Column{Name: "Int", Type: datatype.Int64, Required: true}, "-3", "0"},
		{datatype.Column{Name: "Uint", Type: datatype.Int64, Required: true}, "4", "0"},
		{datatype.Column{Name: "Big", Type: "decimal(20,0)", Required: true}, "18446744073709551615", "0"},
		{datatype.Column{Name: "Float", Type: datatype.Float64, Required: true}, "1.5", "0"},
		{datatype.Column{Name: "at", Type: datatype.Timestamp, Required: true}, "2026-11-23T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z"},
		{datatype.Column{Name: "paid_on", Type: datatype.Date}, "2026-11-23", "NULL"},
		{datatype.Column{Name: "bytes", Type: datatype.Bytes}, "/w==", "NULL"},
		{datatype.Column{Name: "id", Type: datatype.UUID, Required: true}, id.String(), uuid.Nil.String()},
		{datatype.Column{Name: "addr", Type: datatype.String, Required: true}, "1.2.3.4", "::1"},
		{datatype.Column{Name: "total", Type: "decimal(10,2)"}, "1.50", "0.00"},
		{datatype.Column{Name: "raw", Type: datatype.JSON}, `{"a":1}`, "NULL"},
		{datatype.Column{Name: "whole", Type: "decimal(38,0)", Required: true}, "1267650600228229401496703205376", "0"},
		{datatype.Column{Name: "any", Type: datatype.JSON}, `"x"`, "NULL"},
		{datatype.Column{Name: "list", Type: datatype.JSON}, "[1]", "NULL"},
		{datatype.Column{Name: "a.b", Type: datatype.JSON}, `{"k":1}`, "NULL"},
		{datatype.Column{Name: "1", Type: datatype.JSON, Required: true}, `{"X":5}`, `{"X":0}`},
		{datatype.Column{Name: "maybe", Type: datatype.Int64}, "7", "NULL"},
		{datatype.Column{Name: "quoted", Type: datatype.Int64, Required: true}, "8", "0"},
		{datatype.Column{Name: "null", Type: datatype.Int64}, "9223372036854775807", "NULL"},
		{datatype.Column{Name: "null text", Type: datatype.String}, "s", "NULL"},
		{datatype.Column{Name: "null_at", Type: datatype.Date}, "2026-11-23", "NULL"},
	}
	got := m.Columns()
	if len(got) != len(want) {
		t.Fatalf("got %d columns, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		if got[i] != w.column {
			t.Errorf("got %v, want %v", got[i], w.column)
		}
	}
	for k, v := range []any{full, &null} {
		for i, cell := range m.Cells(From(v)) {
			value := cell.Value
			if cell.Null {
				value = "NULL"
			}
			if expected := []string{want[i].full, want[i].null}[k]; cell.Err != nil || value != expected {
				t.Errorf("%s: got %q %v, want %q", cell.Column, value, cell.Err, expected)
			}
		}
	}
}

// Columns are the members that encoding/json writes, in their order.
func TestColumnsOfAreTheMembers(t *testing.T) {
	type deep struct{ A, B, C int }
	type other struct {
		B int
		C int `json:"C"`
	}
	type outer struct {
		deep
		other
		A string `json:"A,omitempty"`
		D int    `json:"x y"`
	}
	columns, err := ColumnsOf[outer]()
	must(t, err)
	text, err := json.Marshal(outer{A: "a"})
	must(t, err)
	dec := json.NewDecoder(strings.NewReader(string(text)))
	var members []string
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		must(t, err)
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
		members = append(members, name.(string))
	}
	if got := datatype.Names(mustCompile(t, columns...).Columns()); !reflect.DeepEqual(got, members) {
		t.Errorf("columns %v, members %v", got, members)
	}
}

func TestColumnsOfFaults(t *testing.T) {
	check := func(_ Columns, err error) func(want string) {
		return func(want string) {
			t.Helper()
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	check(ColumnsOf[int]())("mapping: int is not a struct with fields in JSON")
	check(ColumnsOf[time.Time]())("mapping: time.Time is not a struct with fields in JSON")
	type bad struct {
		C chan int
		T int `forebay:"t,type=int32"`
		O int `forebay:"o,requried"`
		E int `forebay:"e,epoch=true"`
		S int `forebay:"s,secret=true"`
	}
	check(ColumnsOf[bad]())("mapping: field C of mapping.bad: encoding/json cannot write a chan int\n" +
		`mapping: field T of mapping.bad: "int32" is not a data type; use string, bool, int64, float64, decimal(p,s), timestamp, date, uuid, json or bytes` + "\n" +
		`mapping: field O of mapping.bad: the option "requried" of its tag: json: unknown field "requried"` + "\n" +
		`mapping: field E of mapping.bad: the option "epoch" of its tag: json: cannot unmarshal bool into Go struct field TypeOptions.epoch of type mapping.EpochUnit` + "\n" +
		`mapping: field S of mapping.bad: the option "secret" of its tag: json: unknown field "secret"`)
	type promoted struct {
		time.Time
		ID int
	}
	check(ColumnsOf[promoted]())("mapping: mapping.promoted is not a struct with fields in JSON: it writes itself with MarshalJSON or MarshalText, perhaps of an embedded type")
	check(ColumnsOf[netip.Addr]())("mapping: netip.Addr is not a struct with fields in JSON: it writes itself with MarshalJSON or MarshalText, perhaps of an embedded type")
	type hidden struct{ id int }
	check(ColumnsOf[hidden]())("mapping: mapping.hidden has no field that encoding/json writes")
	_ = hidden{}.id
	type tags struct {
		private int `forebay:"private"`
		Left    int `json:"-" forebay:"left"`
		//lint:ignore SA5008 the mistake that ColumnsOf has to name
		Comma string `json:"a\"b"`
		Won   int    `json:"Lost"`
		Lost  int
		Total int    `json:"total"`
		Sum   int    `json:"sum" forebay:"TOTAL"`
		Text  string `json:"text,string"`
		Empty int    `json:"empty" forebay:"empty,type="`
		Space int    `json:"space" forebay:"space, type=string"`
		Open  int    `json:"open" forebay:"open,type=decimal(10,2"`
	}
	_ = tags{}.private
	check(ColumnsOf[tags]())(strings.Join([]string{
		"mapping: field private of mapping.tags: it has a tag forebay, but encoding/json does not write it",
		"mapping: field Left of mapping.tags: it has a tag forebay, but encoding/json does not write it",
		`mapping: field Comma of mapping.tags: encoding/json does not take the name "a\"b" of its tag, and would write "Comma"`,
		`mapping: field Sum of mapping.tags: field Total has a column of the same name "TOTAL", perhaps in another case`,
		"mapping: field Text of mapping.tags: the option string of its tag json would store the text with quotes and escapes",
		"mapping: field Empty of mapping.tags: the option type of its tag has no type",
		`mapping: field Space of mapping.tags: the option " type" of its tag: json: unknown field " type"`,
		`mapping: field Open of mapping.tags: "decimal(10,2" is not a data type; use string, bool, int64, float64, decimal(p,s), timestamp, date, uuid, json or bytes`,
	}, "\n"))
	twice := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
	})
	if _, err := columnsOf(twice); err == nil || !strings.Contains(err.Error(), `encoding/json writes neither it nor field B, because both have the name "x"`) {
		t.Error(err)
	}
}

// byPointer writes itself, if it can be addressed.
type byPointer struct{ n int }

func (p *byPointer) MarshalText() ([]byte, error) { return []byte(strings.Repeat("x", p.n)), nil }

// encoding/json calls a method with a pointer receiver only for addressable values.
func TestColumnsOfPointerReceivers(t *testing.T) {
	type row struct {
		ID int       `json:"id"`
		P  byPointer `json:"p"`
	}
	columns, err := ColumnsOf[row]()
	must(t, err)
	m := mustCompile(t, columns...)
	if c := m.Cells(From(&row{P: byPointer{3}}))[1]; c.Value != "xxx" || c.Type != datatype.String {
		t.Errorf("got %+v, want c.Value == \"xxx\" and c.Type == %v", c, datatype.String)
	}
	if c := m.Cells(From(row{P: byPointer{3}}))[1]; reasonOf(c.Err) != WrongKind {
		t.Errorf("got %+v, want reasonOf(c.Err) == %v", c, WrongKind)
	}
}

// A value that JSON does not have rejects the record, in a sql.Null as in a plain field. It is never NULL.
func TestColumnsOfNaN(t *testing.T) {
	type plain struct {
		F *float64 `json:"f"`
	}
	type null struct {
		F sql.Null[float64] `json:"f"`
	}
	nan := math.NaN()
	for _, of := range []struct {
		columns  func() (Columns, error)
		nan, nil any
	}{
		{ColumnsOf[plain], plain{&nan}, plain{}},
		{ColumnsOf[null], null{sql.Null[float64]{V: nan, Valid: true}}, null{}},
	} {
		columns, err := of.columns()
		must(t, err)
		m := mustCompile(t, append(columns, UUID("id"))...)
		if c := m.Cells(From(of.nan))[0]; reasonOf(c.Err) != InvalidBody || c.Null {
			t.Errorf("got %T: %+v, want reasonOf(c.Err) == %v and !c.Null", of.nan, c, InvalidBody)
		}
		for _, v := range []any{of.nil, nil} {
			if c := m.Cells(From(v))[0]; !c.Null || c.Err != nil {
				t.Errorf("got %T: %+v, want c.Null and c.Err == nil", v, c)
			}
		}
	}
}
