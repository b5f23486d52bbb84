package mysql

import (
	"testing"
	"time"

	"github.com/forebay/forebay/internal/drivertest"
)

// Rows whose time has passed are removed, in several transactions, and no others. The file that brought them still counts as imported.
func TestKeepFor(t *testing.T) {
	const name = "it's `odd`"
	target := open(t, Options{KeepFor: 24 * time.Hour, KeepBy: []string{"at", "DAY"}})
	drivertest.KeepFor(t, tables(t, target), name, "INSERT INTO "+quote(name)+" SELECT 100 + seq, '2026-01-01 00:00', NULL FROM seq_1_to_12000")
}
