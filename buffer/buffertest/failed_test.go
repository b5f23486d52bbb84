package buffertest

import (
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/suitetest"
)

// failedStaging runs the checks of that name, or all if it is empty, and returns the names of the failed checks.
func failedStaging(t *testing.T, name string, open func() driver.Staging) (failed []string) {
	for _, c := range stagingChecks {
		if name != "" && c.name != name {
			continue
		}
		if errs := suitetest.Failures(t.Context(), func(r tb) { c.run(r, open()) }); errs != nil {
			t.Logf("%s: %s", c.name, errs[0])
			failed = append(failed, c.name)
		}
	}
	return failed
}

// failedTarget is failedStaging for targets.
func failedTarget(t *testing.T, name string, open func() *bench) (failed []string) {
	for _, c := range targetChecks {
		if name != "" && c.name != name {
			continue
		}
		if errs := suitetest.Failures(t.Context(), func(r tb) {
			b := open()
			b.t = r
			c.run(r, b)
		}); errs != nil {
			t.Logf("%s: %s", c.name, errs[0])
			failed = append(failed, c.name)
		}
	}
	return failed
}
