package templates

import (
	"os"
	"strings"
)

func Example() {
	event := strings.NewReader(`{"kind":"click","user":{"id":9007199254740993}}`)
	err := Run([]string{"-cost=false", "-header", "X-Env=prod", "-e", `Body("kind") + "/" + Header("X-Env") + "/" + Body("user.id")`}, event, os.Stdout, os.Stderr)
	if err != nil {
		panic(err)
	}
	// Output:
	// value       "click/prod/9007199254740993"
	// definition  {"type":"template","name":"value","rawString":false,"template":{"language":"jsonnet","content":"Body(\"kind\") + \"/\" + Header(\"X-Env\") + \"/\" + Body(\"user.id\")"}}
}

func Example_refused() {
	_ = Run([]string{"-e", "local id = Body('id');\n\"id \" + idd"}, strings.NewReader(`{}`), os.Stdout, os.Stderr)
	// Output:
	// 2:9: unknown variable: idd; declare it with local, quote it if it is a text, or write Body("idd") for a field of the event
	//     "id " + idd
	//             ^
}
