package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

func TestTableClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := newTableClaims()
		claim := func(table string) func() {
			t.Helper()
			release, err := claims.claim(t.Context(), []string{table})
			if err != nil {
				t.Fatal(err)
			}
			return release
		}
		first, second := claim("a"), claim("a") // changes do not exclude each other

		// An erasure waits for both, and a third change for the erasure.
		claims.erase("task", []string{"a", "b"})
		free := make(chan error, 1)
		go func() { free <- claims.unclaimed(t.Context(), "a") }()
		third := make(chan func(), 1)
		go func() {
			release, _ := claims.claim(t.Context(), []string{"b"})
			third <- release
		}()
		first()
		synctest.Wait()
		if len(free) > 0 || len(third) > 0 {
			t.Fatal("somebody did not wait")
		}
		if table, task := claims.erasureOf([]string{"c", "b"}); table != "b" || task != "task" {
			t.Errorf("erasure of %q by %q", table, task)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := claims.claim(short, []string{"b"}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `task "task" is erasing table "b"`) {
			t.Errorf("error %v", err)
		}
		second()
		synctest.Wait()
		if len(free) != 1 || <-free != nil || len(third) > 0 {
			t.Fatal("the erasure waits, or the change does not")
		}
		claims.endErasure("task")
		release := <-third

		// A creation is undone unless another change has its tables.
		if claims.undo("creation", []string{"b"}, 0) || !claims.undo("creation", []string{"b"}, 1) {
			t.Error("the wrong claims count")
		}
		release()
		if _, err := claims.claim(short, []string{"b"}); err == nil || !strings.Contains(err.Error(), "being undone") {
			t.Errorf("error %v", err)
		}
		claims.endUndo("creation")
		claim("b")()
		if len(claims.claimed)+len(claims.erasing)+len(claims.undoing) != 0 {
			t.Errorf("left over: %+v", claims)
		}
	})
}
