package instance

import (
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/synctest"
)

// A log that was made again is not taken for the previous log, even if the record does not know that anything was acknowledged.
func TestRestoreFromAnotherLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := w.node("a")
		o := (&worldProcess{link: &link{w: w, name: "a"}, node: n, disk: n.disk}).options().withDefaults()
		if err := w.log.Create(t.Context(), "lost"); err != nil {
			t.Fatal(err)
		}
		k, err := changelog.Take(t.Context(), w.owners, "lost", 0, o.lease())
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.Update(t.Context(), func(r *changelog.Owner) { r.Log = "before" }); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(t.Context(), "restored", k, o, false, nil); !isDamage(err) {
			t.Errorf("restored from another log: %v", err)
		}
		if _, err := n.disk.Stat("restored"); err == nil {
			t.Error("there is a folder")
		}
	})
}
