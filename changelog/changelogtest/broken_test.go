package changelogtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/suitetest"
)

// slowly makes races that a broken driver loses.
var slowly = Faults{Delay: 100 * time.Microsecond}

// expectCaught demands that a check fails, and that it says so. It plays several times, since a broken driver may be lucky, or break off the
// check at another place. A check that waits in vain is given more and more time.
func expectCaught(t *testing.T, says string, inVain bool, play func(t suitetest.T)) {
	t.Helper()
	var errs []string
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		if inVain {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond<<min(i, 10))
		}
		errs = suitetest.Failures(ctx, play)
		cancel()
		if slices.ContainsFunc(errs, func(err string) bool { return strings.Contains(err, says) }) {
			return
		}
	}
	t.Errorf("the check says %q, without %q", errs, says)
}
