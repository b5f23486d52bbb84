package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// openShop opens an engine with a source shop. Its sink orders stores an int64 id and a text note. end closes the engine and removes its data.
func openShop(onReject forebay.OnReject) (eng *forebay.Engine, tables *dir.TableDir, end func()) {
	data, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	tables = dir.Tables(filepath.Join(data, "tables"))
	eng, err = forebay.Open(data, forebay.Options{Target: tables})
	if err != nil {
		log.Fatal(err)
	}
	err = eng.Define(context.Background(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders", OnReject: onReject,
		Table: forebay.Table{ID: "orders", Columns: mapping.Columns{
			mapping.Path("id", "id", mapping.DataType(datatype.Int64)),
			mapping.Path("note", "note", mapping.Default(""), mapping.RawString()),
		}},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	return eng, tables, func() {
		_ = eng.Close()
		_ = os.RemoveAll(data)
	}
}

// countRows counts the rows in the table orders.
func countRows(tables *dir.TableDir) (n int) {
	for _, err := range tables.Rows("orders") {
		if err != nil {
			log.Fatal(err)
		}
		n++
	}
	return n
}

// A batch waits for the disk once. Its error names each cause once, with the records that have it. The other records are stored.
func ExampleEngine_IngestBatch() {
	ctx := context.Background()
	eng, _, end := openShop(forebay.Refuse)
	defer end()

	results, err := eng.IngestBatch(ctx, "shop", []*mapping.Record{
		mapping.JSON([]byte(`{"id":1}`)),
		mapping.JSON([]byte(`{"id":"two"}`)),
		mapping.JSON([]byte(`{"id":3}`)),
		mapping.JSON([]byte(`{"id":4.5}`)),
	})
	for i, r := range results {
		fmt.Println(i, r.Sinks[0].Status)
	}
	var batch *forebay.BatchError
	if errors.As(err, &batch) {
		for _, c := range batch.Causes {
			fmt.Println(c.Records, c.Err.Sink, c.Err.Err)
		}
	}
	var overload *buffer.OverloadError
	fmt.Println("send again later:", errors.As(err, &overload)) // the disk or the memory is full

	// Output:
	// 0 stored
	// 1 rejected
	// 2 stored
	// 3 rejected
	// [1] orders column "id": int64: malformed: "two" is not a number in decimal digits
	// [3] orders column "id": int64: notIntegral: "4.5" is not a whole number
	// send again later: false
}

// A call with a key can be repeated after a crash or a lost response. Its records are stored once.
func ExampleEngine_IngestOnce() {
	ctx := context.Background()
	eng, tables, end := openShop(forebay.Refuse)
	defer end()

	records := []*mapping.Record{mapping.JSON([]byte(`{"id":1}`)), mapping.JSON([]byte(`{"id":2}`))}
	for range 2 { // the second call is a retry because the sender did not get the response of the first one
		results, err := eng.IngestOnce(ctx, "shop", forebay.Once{Key: "delivery-17", Content: []byte("1,2")}, records)
		fmt.Println(results[0].Sinks[0].Status, "again:", results[0].Sinks[0].Replayed, err)
	}
	_, err := eng.IngestOnce(ctx, "shop", forebay.Once{Key: "delivery-17", Content: []byte("3")}, records[:1])
	fmt.Println(errors.Is(err, forebay.ErrOtherContent))

	fmt.Println(eng.Flush(ctx, "shop"), countRows(tables), "rows")
	// Output:
	// stored again: false <nil>
	// stored again: true <nil>
	// true
	// <nil> 2 rows
}

// One goroutine submits many records and waits for them in turn. They share a few writes to the disk.
func ExampleEngine_Submit() {
	ctx := context.Background()
	eng, _, end := openShop(forebay.Refuse)
	defer end()

	var pending []forebay.Pending
	for id := range 100 {
		p, err := eng.Submit(ctx, "shop", mapping.From(map[string]int{"id": id}))
		if err != nil {
			log.Fatal(err) // nothing of this record was stored
		}
		pending = append(pending, p)
	}
	stored := 0
	for _, p := range pending {
		res, err := p.Wait(ctx) // acknowledge the message of the queue after this
		if err == nil && res.Sinks[0].Status == forebay.Stored {
			stored++
		}
	}
	fmt.Println(stored)
	// Output: 100
}

// All rows of a batch are stored, or none. Records that no retry can store do not fail it.
func ExampleEngine_IngestAtomic() {
	ctx := context.Background()
	eng, _, end := openShop(forebay.Refuse)
	defer end()

	res, err := eng.IngestAtomic(ctx, "shop", forebay.Batch{
		Records: slices.Values([]*mapping.Record{
			mapping.JSON([]byte(`{"id":1}`)), mapping.JSON([]byte(`{"id":"two"}`)), mapping.JSON([]byte(`{"id":3}`)),
		}),
		Once: forebay.Once{Key: "batch-1"}, // a retry with this key stores nothing twice
	})
	if err != nil {
		log.Fatal(err) // nothing was stored, so send the batch again
	}
	fmt.Println(res.Records, "records,", res.Rejected, "rejected")
	fmt.Println(res.FirstRecord, res.First)
	// Output:
	// 3 records, 1 rejected
	// 1 sink "orders" of source "shop": record rejected: column "id": int64: malformed: "two" is not a number in decimal digits
}

// A program that reads a file or a queue waits for room, and needs no retry loop.
func ExampleEngine_WaitForRoom() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	eng, _, end := openShop(forebay.Refuse)
	defer end()

	intake := eng.WaitForRoom()
	for id := range 1000 { // while memory or disk is full, the loop waits, at most until the end of ctx
		if _, err := intake.Ingest(ctx, "shop", mapping.From(map[string]int{"id": id})); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(eng.Stats().Sinks[0].Accepted)
	// Output: 1000
}

// Flush returns when all rows that were stored before the call are in their tables.
func ExampleEngine_Flush() {
	ctx := context.Background()
	eng, tables, end := openShop(forebay.Refuse)
	defer end()

	if _, err := eng.Ingest(ctx, "shop", mapping.JSON([]byte(`{"id":1,"note":"paid"}`))); err != nil {
		log.Fatal(err)
	}
	fmt.Println(countRows(tables))
	fmt.Println(eng.Flush(ctx, "shop"))
	fmt.Println(countRows(tables))
	// Output:
	// 0
	// <nil>
	// 1
}

// A rejected record waits in the quarantine until you have fixed its mapping or its body, and is then replayed.
func ExampleSinkHandle_Quarantine() {
	ctx := context.Background()
	eng, tables, end := openShop(forebay.Quarantine)
	defer end()

	res, err := eng.Ingest(ctx, "shop", mapping.JSON([]byte(`{"id":"seven"}`)))
	fmt.Println(res.Sinks[0].Status, err)

	q := eng.Sink("shop", "orders").Quarantine()
	for rejected, err := range q.List(ctx, forebay.RejectedFilter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rejected.Reason, rejected.Message)
		if err := q.Edit(ctx, rejected.ID, rejected.Revision, []byte(`{"id":7}`)); err != nil {
			log.Fatal(err)
		}
	}
	replayed, err := q.ReplayAll(ctx, forebay.RejectedFilter{})
	fmt.Println(replayed.Replayed, "replayed", err)
	fmt.Println(eng.Flush(ctx, "shop"), countRows(tables), "row")
	// Output:
	// quarantined <nil>
	// malformed column "id": int64: malformed: "seven" is not a number in decimal digits
	// 1 replayed <nil>
	// <nil> 1 row
}
