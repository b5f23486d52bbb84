package manytablestest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Imports imports a small file into each of FOREBAY_TABLES tables, in turns one by one and 100 at a time, as the four workers of an engine do, and
// logs the files a second. Without FOREBAY_TABLES it is skipped.
func Imports(t *testing.T, target driver.Target) {
	tables, err := strconv.Atoi(os.Getenv("FOREBAY_TABLES"))
	if err != nil {
		t.Skip("it measures; FOREBAY_TABLES says with how many tables")
	}
	const workers, together = 4, 100
	table := func(n int) driver.Table {
		return driver.Table{ID: fmt.Sprint("imports_", n), Columns: datatype.UntypedColumns("id", "name")}
	}
	for n := range tables {
		if err := target.Ensure(t.Context(), table(n)); err != nil {
			t.Fatal(err)
		}
	}
	play := func(round, size int, imp func([]*driver.File) error) float64 {
		var files []*driver.File
		for n := range tables {
			files = append(files, buffertest.NewFile(fmt.Sprintf("round-%d-file-%d", round, n), table(n), []string{"1", "a name"}))
		}
		calls := make(chan []*driver.File, len(files))
		for some := range slices.Chunk(files, size) {
			calls <- some
		}
		close(calls)
		began := time.Now()
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for some := range calls {
					if err := imp(some); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		return float64(len(files)) / time.Since(began).Seconds()
	}
	many := target.(driver.ManyImporter)
	for round := range 4 {
		alone := play(2*round, 1, func(f []*driver.File) error { return target.Import(t.Context(), f[0]) })
		joint := play(2*round+1, together, func(f []*driver.File) error { return many.ImportMany(t.Context(), f) })
		t.Logf("%d tables: %.0f files/s one by one, %.0f files/s together, %.1f times as many", tables, alone, joint, joint/alone)
	}
}
