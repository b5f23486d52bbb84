package postgres_test

import (
	"fmt"

	"github.com/forebay/forebay/drivers/postgres"
)

func ExampleOpen() {
	target, err := postgres.Open("postgres://forebay@db.example/analytics", postgres.Options{Schema: "events", JSONB: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer target.Close() // after the engine
	fmt.Println(target.Limits().NoNUL)
	// Output: true
}
