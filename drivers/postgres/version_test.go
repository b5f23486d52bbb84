package postgres

import (
	"testing"

	"github.com/forebay/forebay/driver"
)

// The server shows which version of Forebay a connection is of, unless the settings of the connection have a name.
func TestConnectionsNameTheVersion(t *testing.T) {
	for given, want := range map[string]string{"": driver.Product(), "shop": "shop"} {
		t.Setenv("PGAPPNAME", given)
		target := open(t, Options{})
		var got string
		err := target.pool.QueryRow(t.Context(), `SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()`).Scan(&got)
		if err != nil || got != want {
			t.Errorf("with PGAPPNAME=%q the server has the name %q, %v, want %q", given, got, err, want)
		}
	}
}
