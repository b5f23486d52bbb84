package otlpflat_test

import (
	"fmt"
	"log"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// One row for each log record of a batch. No column needs the record as JSON, so none is written.
func Example() {
	batch := plog.NewLogs()
	resource := batch.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "shop")
	records := resource.ScopeLogs().AppendEmpty().LogRecords()
	for _, text := range []string{"cart opened", "paid"} {
		records.AppendEmpty().Body().SetStr(text)
	}

	mapper, err := mapping.Compile(mapping.Columns{
		mapping.Path("service", `resource["service.name"]`, mapping.RawString()),
		mapping.Path("message", "body", mapping.RawString()),
		mapping.Template("label", `Body("severity_text") + "/" + Body("body")`, mapping.RawString()),
	}, mapping.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var rows []byte
	var rec mapping.Record
	for doc := range otlpflat.Logs(batch) {
		rec.Reset()
		rec.Document = doc
		if rows, err = mapper.AppendRow(rows, &rec); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("%s", rows)
	// Output:
	// "shop","cart opened","/cart opened"
	// "shop","paid","/paid"
}
