package mysql_test

import (
	"fmt"

	"github.com/forebay/forebay/drivers/mysql"
)

func ExampleOpen() {
	target, err := mysql.Open("mysql://forebay:password@db.example:3306/analytics", mysql.Options{Keys: map[string][]string{"orders": {"id"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer target.Close() // after the engine
	fmt.Println(target.Limits().NoNaN)
	// Output: true
}
