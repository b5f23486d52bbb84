package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// The backup has each row that was acknowledged before it once, whether it is in the table, in staging or on the local level. Rows that are
// acknowledged while it is made are in it at most once.
func TestBackup(t *testing.T) {
	data, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	source := numbers()
	const portion = 20
	source.Settings.Upload = trigger.Conditions{Count: portion, Interval: 30 * time.Minute, Size: 1 << 20}
	eng, rows := openIn(t, data, source)
	ingest := func(from, to int) {
		t.Helper()
		for n := from; n < to; n++ {
			if _, err := eng.Ingest(t.Context(), "queue", mapping.JSON(fmt.Appendf(nil, `{"n":%d}`, n))); err != nil {
				t.Fatal(err)
			}
		}
	}
	ingest(0, 10)
	rows("numbers") // in the table
	ingest(10, 10+portion)
	for staged(eng) != portion { // the trigger uploads them, and their import comes in a minute
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
	const acknowledged = 10 + portion + 10
	ingest(10+portion, acknowledged) // on the local level
	var done atomic.Bool
	var sent int
	flowing := make(chan error, 1)
	go func() {
		var err error
		for ; !done.Load() && err == nil; sent++ {
			_, err = eng.Ingest(t.Context(), "queue", mapping.JSON(fmt.Appendf(nil, `{"n":%d}`, acknowledged+sent)))
		}
		flowing <- err
	}()
	err := Backup(t.Context(), eng, data, backup)
	done.Store(true)
	if flowed := <-flowing; err != nil || flowed != nil {
		t.Fatal(err, flowed)
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(data); err != nil { // the disk is lost
		t.Fatal(err)
	}
	_, rows = openIn(t, backup, source)
	seen := make(map[string]int)
	for _, row := range rows("numbers") {
		seen[row[0]]++
	}
	for n := range acknowledged + sent {
		if times := seen[fmt.Sprint(n)]; times > 1 || times == 0 && n < acknowledged {
			t.Errorf("row %d is in the table %d times", n, times)
		}
	}
	t.Logf("%d of %d rows that came meanwhile are in the backup", len(seen)-acknowledged, sent)
}

func staged(eng *forebay.Engine) int64 { return eng.Stats().Sinks[0].Staging.Rows }

// A table whose folder has links is refused because a copy of them would be a copy of the wrong moment.
func TestBackupRefusesLinks(t *testing.T) {
	data := t.TempDir()
	eng, err := forebay.Open(data, forebay.Options{Target: dir.Tables(filepath.Join(data, "tables"))})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if err := os.MkdirAll(filepath.Join(data, "tables"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, filepath.Join(data, "tables", "live")); err != nil {
		t.Skip("no links here: ", err)
	}
	if err := Backup(t.Context(), eng, data, filepath.Join(t.TempDir(), "backup")); err == nil {
		t.Error("a link was copied")
	}
}
