package forebay_test

import (
	"context"
	"log"
	"os"

	"github.com/forebay/forebay"
)

// exampleEngine opens an engine in a temporary folder, which the returned function removes.
func exampleEngine() (context.Context, *forebay.Engine, func()) {
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	e, err := forebay.Open(dir, forebay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return context.Background(), e, func() {
		_ = e.Close()
		_ = os.RemoveAll(dir)
	}
}
