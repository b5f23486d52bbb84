package extractor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/forebay/forebay/extractor"
)

// shop is an API with a login and two pages of orders.
func shop(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/login" && r.FormValue("password") == "open sesame":
		fmt.Fprint(w, `{"session": {"token": "t0ken"}}`)
	case r.Header.Get("Authorization") != "Bearer t0ken":
		http.Error(w, "log in first", http.StatusUnauthorized)
	case r.URL.Query().Get("page") == "2":
		fmt.Fprint(w, `{"orders": [{"id": 3, "customer": {"name": "Edsger"}}]}`)
	default:
		fmt.Fprint(w, `{"orders": [{"id": 1, "customer": {"name": "Ada"}, "tags": ["new", "web"]}, {"id": 2, "customer": {"name": "Grace"}}], "next": "?page=2"}`)
	}
}

const shopConfig = `{
  "api": {
    "baseUrl": "https://shop.example.com/",
    "authentication": {
      "type": "login",
      "loginRequest": {"endpoint": "login", "method": "FORM", "params": {"password": {"attr": "#password"}}},
      "apiRequest": {"headers": {"Authorization": {"function": "concat", "args": ["Bearer ", {"response": "session.token"}]}}}
    },
    "pagination": {"method": "response.url", "urlKey": "next"}
  },
  "config": {"#password": "open sesame", "outputBucket": "shop", "jobs": [{"endpoint": "orders"}]}
}`

// Pull records and get them page by page.
func ExampleRun() {
	server := httptest.NewServer(http.HandlerFunc(shop))
	defer server.Close()

	cfg, err := extractor.ParseAt([]byte(shopConfig), server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = extractor.Run(context.Background(), cfg, extractor.State{}, extractor.Options{
		Emit: func(_ context.Context, p *extractor.Page) error {
			for rec := range p.Records() {
				fmt.Printf("%s, page %d: %s\n", p.DataType, p.Number, rec.JSON())
			}
			return nil
		},
	})
	fmt.Println("error:", err)
	// Output:
	// orders, page 1: {"id":1,"customer":{"name":"Ada"},"tags":["new","web"]}
	// orders, page 1: {"id":2,"customer":{"name":"Grace"}}
	// orders, page 2: {"id":3,"customer":{"name":"Edsger"}}
	// error: <nil>
}

// Pull records into CSV tables. The list of tags is a separate table, linked to the orders.
func ExampleRunTables() {
	server := httptest.NewServer(http.HandlerFunc(shop))
	defer server.Close()
	dir, err := os.MkdirTemp("", "tables-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	cfg, err := extractor.ParseAt([]byte(shopConfig), server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := extractor.RunTables(context.Background(), cfg, extractor.State{}, dir, extractor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"shop.orders", "shop.orders_tags", "shop.orders.manifest"} {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		fmt.Printf("%s:\n%s\n", name, text)
	}
	fmt.Println("a second run knows the first:", state.Time.PreviousStart > 0)
	// Output:
	// shop.orders:
	// "id","customer_name","tags"
	// "1","Ada","orders_823ca28cfc83fb4ea660b9c9c1232c9b"
	// "2","Grace",""
	// "3","Edsger",""
	//
	// shop.orders_tags:
	// "data","JSON_parentId"
	// "new","orders_823ca28cfc83fb4ea660b9c9c1232c9b"
	// "web","orders_823ca28cfc83fb4ea660b9c9c1232c9b"
	//
	// shop.orders.manifest:
	// {"destination":"in.c-shop.orders","incremental":false}
	// a second run knows the first: true
}

// All problems of a configuration are reported at once, each with the path of the value.
func ExampleParse() {
	_, err := extractor.Parse([]byte(`{
	  "api": {"baseUrl": "shop.example.com", "pagination": {"method": "offset", "limit": "all"}},
	  "config": {"jobs": [{"endpoint": "orders", "params": {"sig": {"function": "md5", "args": [{"attr": "#key"}]}}}]}
	}`))
	fmt.Println(err)
	fmt.Println("exit status:", extractor.ExitStatus(err))
	// Output:
	// the configuration cannot be used:
	//   api.baseUrl: must be an absolute http or https URL
	//   api.pagination.limit: must be a positive integer
	//   config.jobs[0].params.sig.args[0].attr: there is no attribute "#key" with a value in config
	// exit status: 1
}
