package changelogtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
)

// The leader fails before another replica has the last record. Its writer learns only that the outcome is unknown.
func ExampleLog_Elect() {
	ctx := context.Background()
	log := changelogtest.NewLog(1, changelogtest.Faults{Timeout: 10 * time.Millisecond})
	_ = log.Create(ctx, "one")
	w, err := log.Open(ctx, "one", changelog.Record{Kind: changelog.Opened, Epoch: 1, Node: "node-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	record := changelog.Record{Kind: changelog.Batch, Epoch: 1, Number: 1, Part: 1, Parts: 1, Node: "node-1"}
	at, err := w.Append(record).Wait(ctx)
	fmt.Println(at-w.Marker(), err)

	heal := log.Cut("one", 1, 2)
	record.Number = 2
	lost := w.Append(record)
	fmt.Println(log.Elect("one", 1))
	heal()
	_, err = lost.Wait(ctx)
	fmt.Println(errors.Is(err, changelog.ErrUnknown))
	for e, err := range log.Read(ctx, "one", at) {
		fmt.Println(e.Number, err)
	}
	// Output:
	// 1 <nil>
	// true
	// true
	// 1 <nil>
}
