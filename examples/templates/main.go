// Command templates evaluates a jsonnet template over one JSON event, and shows the value, the definition of the column
// as the Stream API has it, and its cost per record:
//
//	cd examples
//	go run ./templates -template label.jsonnet -event event.json -header X-Env=prod
//	echo '{"a":{"b":1}}' | go run ./templates -e "Body('a.b') + 1"
//
// A template that cannot be compiled is shown with the place of each fault.
//
// The verb templates of cmd/forebay is the same program. Its code is in internal/program/templates.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/forebay/forebay/internal/program/templates"
)

func main() {
	if err := templates.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) { // the flags were shown
		fmt.Fprintln(os.Stderr, "templates:", err)
		os.Exit(1)
	}
}
