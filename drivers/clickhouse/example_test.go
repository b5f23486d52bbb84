package clickhouse_test

import (
	"fmt"

	"github.com/forebay/forebay/drivers/clickhouse"
)

func ExampleOpen() {
	target, err := clickhouse.Open("clickhouse://forebay:password@db.example:8443/analytics?tls=true", clickhouse.Options{
		OrderBy: []string{"tenant", "at"}, PartitionBy: "toYYYYMM(at)", TTL: "at + INTERVAL 90 DAY",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer target.Close() // after the engine
	fmt.Println(target.Limits().MinYear)
	// Output: 1900
}
