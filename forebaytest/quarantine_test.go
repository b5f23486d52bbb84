package forebaytest_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/forebaytest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// The power is cut while clients send records that one sink stores and another sink quarantines. An acknowledged record has both its row
// and its place in quarantine, each once. An unacknowledged record may have either, once.
func TestAnsweredRecordIsInEverySinkAfterAPowerCut(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 20 {
		clients, before := 1+rng.IntN(12), rng.IntN(60)
		batched := rng.IntN(2) == 0
		synctest.Test(t, func(t *testing.T) {
			kit := forebaytest.New(t, forebay.Options{}, forebay.Source{ID: "s", Sinks: []forebay.Sink{
				{ID: "loose", Table: forebay.Table{ID: "loose", Columns: mapping.Columns{mapping.Path("n", "n", mapping.RawString())}}},
				{ID: "strict", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "strict", Columns: mapping.Columns{
					mapping.Path("n", "n", mapping.DataType(datatype.Int64), mapping.Required()),
				}}},
				{ID: "late", Settings: forebay.Settings{Sync: forebay.SyncUnsafe}, OnReject: forebay.Quarantine, Table: forebay.Table{ID: "late", Columns: mapping.Columns{
					mapping.Path("n", "n", mapping.DataType(datatype.Bool), mapping.Required()),
				}}},
			}})
			var mu sync.Mutex
			answered, enough := make(map[string]bool), make(chan struct{})
			var sending sync.WaitGroup
			eng := kit.Engine() // of the process that loses its power
			for c := range clients {
				sending.Go(func() {
					for i := 0; ; i++ {
						var records []*mapping.Record
						var names []string
						for k := range 1 + i%3 {
							name := fmt.Sprintf("c%d-%d-%d", c, i, k) // no number, and no bool
							names = append(names, name)
							records = append(records, mapping.JSON([]byte(`{"n":`+strconv.Quote(name)+`}`)))
						}
						var err error
						if batched {
							_, err = eng.IngestBatch(t.Context(), "s", records)
						} else {
							records, names = records[:1], names[:1]
							_, err = eng.Ingest(t.Context(), "s", records[0])
						}
						if err != nil {
							return
						}
						mu.Lock()
						for _, name := range names {
							answered[name] = true
						}
						if len(answered) >= before && enough != nil {
							close(enough)
							enough = nil
						}
						mu.Unlock()
					}
				})
			}
			mu.Lock()
			wait := enough
			mu.Unlock()
			if wait != nil {
				<-wait
			}
			mu.Lock()
			known := make(map[string]bool)
			for name := range answered { // more may be acknowledged at the moment of the cut
				known[name] = true
			}
			mu.Unlock()
			kit.Crash()
			sending.Wait()
			kit.StepImport()
			rows := make(map[string]int)
			for _, row := range kit.Rows("loose") {
				rows[row[0]]++
			}
			for name := range known {
				if rows[name] != 1 {
					t.Errorf("%s was answered and has %d rows, want 1", name, rows[name])
				}
			}
			for _, sink := range []string{"strict", "late"} {
				held := make(map[string]int)
				q := kit.Engine().Sink("s", sink).Quarantine()
				for r, err := range q.List(t.Context(), forebay.RejectedFilter{}) {
					if err != nil {
						t.Fatal(err)
					}
					content, err := q.Get(t.Context(), r.ID)
					if err != nil {
						t.Fatal(err)
					}
					held[strings.Trim(strings.TrimPrefix(string(content.Record.Body), `{"n":`), `"}`)]++
				}
				for name := range known {
					if held[name] != 1 {
						t.Errorf("%s was answered and is %d times in the quarantine of %s, want 1", name, held[name], sink)
					}
				}
				for name, n := range held {
					if n != 1 || rows[name] > 1 {
						t.Errorf("%s is %d times in the quarantine of %s, and has %d rows", name, n, sink, rows[name])
					}
				}
			}
		})
	}
}
