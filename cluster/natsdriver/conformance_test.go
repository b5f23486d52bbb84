package natsdriver

import (
	"testing"

	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/changelog/changelogtest"
)

func TestConformanceOfLogs(t *testing.T) {
	const maxBytes = 32 << 20
	changelogtest.TestLog(t, changelogtest.LogHarness{
		Open:     func(t *testing.T) changelog.Log { return newLog(t, 1, Options{MaxBytes: maxBytes}) },
		MaxBytes: maxBytes,
	})
}

func TestConformanceOfOwners(t *testing.T) {
	changelogtest.TestOwners(t, func(t *testing.T) changelog.Owners {
		o, err := NewOwners(connect(t, 2), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		return o
	})
}
