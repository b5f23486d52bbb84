package mysql

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/refusedtest"
)

func TestTextThatIsNotUTF8(t *testing.T) { refusedtest.Text(t, open(t, Options{}), "events") }

// The process of the engine is killed while it imports files with rows that the server refuses. Each row is in the table once, or once in the
// quarantine with its code.
func TestKillsWithRefusedRows(t *testing.T) {
	at := func(folder string) string {
		text, _ := os.ReadFile(filepath.Join(folder, "server"))
		return string(text)
	}
	refusedtest.Kills(t, refusedtest.Harness{
		Create: func(t *testing.T, folder string) {
			target := open(t, Options{})
			exec(t, target, `CREATE TABLE sums (id bigint NOT NULL CHECK (id % 60 <> 17 AND id % 60 <> 41), n bigint UNIQUE); INSERT INTO sums VALUES (0, 0)`)
			if err := os.WriteFile(filepath.Join(folder, "server"), []byte(server.URL(target.database)), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		Open: func(folder string) (refusedtest.Target, error) {
			return Open(at(folder), Options{})
		},
		Database: func(t *testing.T, folder string, _ refusedtest.Target) *sql.DB {
			db, err := DB(at(folder))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return db
		},
		Check: "4025", Unique: "1062", Moment: 150 * time.Millisecond,
	})
}
