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
