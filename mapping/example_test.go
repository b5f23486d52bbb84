package mapping_test

import (
	"fmt"

	"github.com/forebay/forebay/mapping"
)

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
	// missing  column "missing": path "nope": the body has no such field
}

func ExampleCompileTemplate() {
	_, err := mapping.CompileTemplate("local id = Body('id');\n'id-' + ident", mapping.Options{})
	fmt.Println(err)

	p, err := mapping.CompileTemplate(`{ id: Body("id"), tags: [std.asciiUpper(t) for t in Body("tags", [])] }`, mapping.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	value, err := p.Append(nil, mapping.JSON([]byte(`{"id": 9007199254740993, "tags": ["a", "b"]}`)), false)
	fmt.Println(string(value), err)
	// Output:
	// 2:9: Unknown variable: ident
	// {"id":9007199254740993,"tags":["A","B"]} <nil>
}
