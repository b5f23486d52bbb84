package natsdriver

import (
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
)

func TestConformanceOfLogs(t *testing.T) {
	calls := 0
	changelogtest.TestLog(t, changelogtest.LogHarness{
		Open: func(t *testing.T) changelog.Log {
			calls++
			return newLog(t, calls%3, Options{MaxBytes: minBytes + markerBytes})
		},
		MaxBytes: minBytes,
	})
}

func TestConformanceOfOwners(t *testing.T) {
	calls := 0
	changelogtest.TestOwners(t, func(t *testing.T) changelog.Owners {
		calls++
		o := newOwners(t, calls%3, Options{})
		if err := o.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		return o
	})
}
