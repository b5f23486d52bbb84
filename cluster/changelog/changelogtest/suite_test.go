package changelogtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/suitetest"
	"github.com/forebay/forebay/internal/synctest"
)

// slowly makes races that a broken driver loses.
var slowly = Faults{Delay: 100 * time.Microsecond}

// The checks need no certain speed.
func TestSlowDriversPass(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, time.Second} {
		f := Faults{Delay: delay, StaleReads: 0.3, SkippedVersions: 0.3}
		for _, c := range logChecks {
			t.Run(c.name+"/"+delay.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := NewLog(1, f)
					log.MaxBytes = suiteBytes
					c.play(t, [2]changelog.Log{log, log}, suiteBytes)
				})
			})
		}
		for _, c := range ownerChecks {
			t.Run(c.name+"/"+delay.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := NewOwners(1, f)
					c.play(t, [2]changelog.Owners{o, o})
				})
			})
		}
	}
}

// expectCaught demands that a check fails, and that it says so. It plays with several seeds, since a broken driver may be lucky, or break
// off the check at another place.
func expectCaught(t *testing.T, says string, play func(t suitetest.T, seed uint64)) {
	t.Helper()
	var errs []string
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			errs = suitetest.Failures(ctx, func(t suitetest.T) { play(t, seed) })
		})
		if slices.ContainsFunc(errs, func(err string) bool { return strings.Contains(err, says) }) {
			return
		}
	}
	t.Errorf("the check says %q, without %q", errs, says)
}
