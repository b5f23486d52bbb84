package changelogtest_test

import (
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
)

func TestJournalInMemory(t *testing.T) {
	changelogtest.TestJournal(t, func(*testing.T) changelog.Journal {
		return changelogtest.NewJournal(1, changelogtest.Faults{})
	})
}
