package mapping_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/forebay/forebay/mapping"
)

// A mapper is made once. A record is filled for each event, and may be reused.
func Example() {
	m, err := mapping.Compile(mapping.Columns{
		mapping.Datetime("at"),
		mapping.IP("ip"),
		mapping.Headers("headers"),
		mapping.Body("event"),
		mapping.Path("user", "user.id"),
		mapping.Path("plan", "user.plan", mapping.Default("free"), mapping.RawString()),
		mapping.Template("day", `Body("kind") + " on " + Now("%A")`, mapping.RawString()),
	}, mapping.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var record mapping.Record
	var row []byte
	for _, body := range []string{`{"kind": "login", "user": {"id": 42}}`, `{"kind": "logout"}`} {
		record.Reset()
		record.Body = []byte(body)
		record.Header = http.Header{"Content-Type": {"application/json; charset=utf-8"}}
		record.ClientIP = netip.MustParseAddr("203.0.113.7")
		record.Received = time.Date(2024, 2, 29, 13, 4, 5, 67_000_000, time.UTC)

		row, err = m.AppendRow(row[:0], &record)
		var rejected *mapping.Error
		if errors.As(err, &rejected) {
			fmt.Println(rejected.Reason, rejected)
			continue
		}
		fmt.Printf("%s", row)
	}
	// Output:
	// "2024-02-29T13:04:05.067Z","203.0.113.7","{""Content-Type"":""application/json; charset=utf-8""}","{""kind"": ""login"", ""user"": {""id"": 42}}","42","free","login on Thursday"
	// missingValue column "user": path "user.id": the body has no member "user"; set a default if it may be missing
}

// Columns and rows can come from a Go struct.
func ExampleColumnsOf() {
	type order struct {
		ID       int64       `json:"id"`
		Total    json.Number `json:"total" forebay:"total,type=decimal(10,2)"`
		Paid     *time.Time  `json:"paid"`
		Comments []string    `json:"comments"`
	}
	columns, err := mapping.ColumnsOf[order]()
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := mapping.Compile(columns, mapping.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range m.Columns() {
		fmt.Println(c)
	}
	paid := time.Date(2026, 11, 22, 23, 0, 0, 0, time.FixedZone("", 3600))
	for _, o := range []order{{ID: 1, Total: "12.5", Paid: &paid, Comments: []string{"fast"}}, {ID: 2, Total: "0.125"}, {ID: 3, Total: "7"}} {
		row, err := m.AppendRow(nil, mapping.From(o))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s", row)
	}
	// Output:
	// "id" int64 required
	// "total" decimal(10,2) required
	// "paid" timestamp
	// "comments" json
	// "1","12.50","2026-11-22T22:00:00.000000Z","[""fast""]"
	// column "total": decimal(10,2): tooPrecise: "0.125" has more digits after the point than the type holds
	// "3","7.00",,
}

func ExampleParsePath() {
	for _, s := range []string{`attributes["user.id"]`, `items[0].name`, `items[x]`} {
		p, err := mapping.ParsePath(s)
		fmt.Println(p, p.Len(), err)
	}
	// Output:
	// attributes["user.id"] 2 <nil>
	// items[0].name 3 <nil>
	//  0 no index or quoted key at position 7; write an index or a quoted key, like [0] or ["a.b"]; a bracket in a name is \[
}

func ExampleCompile() {
	m, err := mapping.Compile(mapping.Columns{
		mapping.Path("user", "user.id"),
		mapping.Path("city", "user.city", mapping.Default("unknown"), mapping.RawString()),
		mapping.Template("label", `Body("kind") + "/" + Header("X-Env", "prod")`, mapping.RawString()),
	}, mapping.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	row, err := m.AppendRow(nil, mapping.JSON([]byte(`{"kind": "click", "user": {"id": 9007199254740993}}`)))
	fmt.Printf("%s%v\n", row, err)
	// Output:
	// "9007199254740993","unknown","click/prod"
	// <nil>
}

func ExampleMapper_Cells() {
	m, err := mapping.Compile(mapping.Columns{
		mapping.Path("service", `resource["service.name"]`),
		mapping.Path("missing", "nope"),
	}, mapping.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range m.Cells(mapping.JSON([]byte(`{"resource": {"service.name": "web"}}`))) {
		fmt.Println(c.Column, c.Value, c.Err)
	}
	// Output:
	// service "web" <nil>
	// missing  column "missing": path "nope": the body has no member "nope"; set a default if it may be missing
}

// A template that cannot work is refused with the place of each fault.
func ExampleTemplate() {
	_, err := mapping.Compile(mapping.Columns{mapping.Template("key", "local id = Body('id');\n'id-' + ident")}, mapping.Options{})
	fmt.Println(err)

	m, err := mapping.Compile(mapping.Columns{
		mapping.Template("tags", `{ id: Body("id"), tags: [std.asciiUpper(t) for t in Body("tags", [])] }`),
	}, mapping.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cell, err := m.AppendCell(nil, 0, mapping.JSON([]byte(`{"id": 9007199254740993, "tags": ["a", "b"]}`)))
	fmt.Println(string(cell), err)
	// Output:
	// mapping: column 1 ("key"): template.content:2:9: unknown variable: ident; declare it with local, quote it if it is a text, or write Body("ident") for a field of the event
	// {"id":9007199254740993,"tags":["A","B"]} <nil>
}
