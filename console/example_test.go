package console_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
)

// The console is a handler below any prefix. Numbers need no token here. Records and changes need one.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	eng, err := forebay.Open(dir, forebay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()

	c, err := console.New(eng, console.Options{
		Public: console.Numbers,
		Tokens: []console.Token{{Name: "ann", Secret: "a-secret-from-the-environment", Rights: console.AllRights}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close() // before the engine
	mux := http.NewServeMux()
	mux.Handle("/console/", c)

	server := httptest.NewServer(mux) // in a program: http.ListenAndServe("127.0.0.1:8090", mux)
	defer server.Close()
	page, err := http.Get(server.URL + "/console/")
	if err != nil {
		log.Fatal(err)
	}
	defer page.Body.Close()
	fmt.Println(page.StatusCode, page.Header.Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
