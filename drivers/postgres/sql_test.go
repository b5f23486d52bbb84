package postgres

import (
	"testing"

	"github.com/forebay/forebay/internal/drivertest"
)

// The statements that an erasure shows run, for names and texts that need quotes too.
func TestSQLRuns(t *testing.T) {
	drivertest.SQLRuns(t, tables(t, open(t, Options{})), `it's \ "odd"`, "a`\"")
}
