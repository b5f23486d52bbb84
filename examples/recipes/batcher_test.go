package recipes

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/forebaytest"
)

// What was recorded before a kill is in the table after it, once, including the visits of the last moment, which a batcher has in memory.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := forebaytest.New(t, forebay.Options{}, Visits())
		const callers, each = 8, 25
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for n := range each {
					if err := Record(t.Context(), kit.Engine(), Visit{User: int64(c), Page: fmt.Sprint("/", n)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		kit.Crash()
		kit.StepImport()
		seen := make(map[string]int)
		for _, row := range kit.Rows("visits") {
			seen[row[1]+row[2]]++
		}
		if len(seen) != callers*each {
			t.Errorf("%d visits are in the table, want %d", len(seen), callers*each)
		}
		for visit, n := range seen {
			if n != 1 {
				t.Errorf("%s is in the table %d times, want 1", visit, n)
			}
		}
	})
}
