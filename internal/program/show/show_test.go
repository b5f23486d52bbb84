package show

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

// No line is written twice, whether it was old enough to be written before the end or not.
func TestProgressWritesEachLineOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := NewProgress(&out)
		p.Show("too early")
		p.End()
		time.Sleep(p.pause)
		p.Show("in time")
		p.End()
		if got := out.String(); got != "too early\nin time\n" {
			t.Errorf("got %q, want \"too early\\nin time\\n\"", got)
		}
	})
}
