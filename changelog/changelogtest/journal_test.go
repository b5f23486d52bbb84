package changelogtest_test

import (
	"testing"

	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/changelog/changelogtest"
)

func TestJournalInMemory(t *testing.T) {
	changelogtest.TestJournal(t, func(*testing.T) changelog.Journal {
		return changelogtest.NewJournal(1, changelogtest.Faults{})
	})
}
