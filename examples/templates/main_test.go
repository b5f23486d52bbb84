package main

import (
	"os"
	"strings"
)

func Example() {
	event := strings.NewReader(`{"kind":"click","user":{"id":9007199254740993}}`)
	err := run([]string{"-cost=false", "-header", "X-Env=prod", "-e", `Body("kind") + "/" + Header("X-Env") + "/" + Body("user.id")`}, event, os.Stdout)
	if err != nil {
		panic(err)
	}
	// Output:
	// value       "click/prod/9007199254740993"
	// definition  {"type":"template","name":"value","rawString":false,"template":{"language":"jsonnet","content":"Body(\"kind\") + \"/\" + Header(\"X-Env\") + \"/\" + Body(\"user.id\")"}}
}

func Example_refused() {
	_ = run([]string{"-e", "local id = Body('id');\n\"id \" + idd"}, strings.NewReader(`{}`), os.Stdout)
	// Output:
	// 2:9: unknown variable: idd
	//     "id " + idd
	//             ^
}
