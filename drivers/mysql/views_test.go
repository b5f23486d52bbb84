package mysql

import (
	"testing"

	"github.com/forebay/forebay/internal/viewtest"
)

// The views of telemetry, and the queries of the page about them, work in MariaDB.
func TestTelemetryViews(t *testing.T) {
	target := open(t, Options{})
	viewtest.Run(t, target, viewtest.SQL{DB: server.Connect(t, target.database)}, viewtest.Where{Dialect: "mysql", Schema: target.database})
}
