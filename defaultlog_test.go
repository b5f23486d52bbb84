package forebay_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// brokenTarget fails every call, as a target without a network does.
type brokenTarget struct{ driver.Target }

func (brokenTarget) Ensure(context.Context, driver.Table) error {
	return errors.New("no route to host")
}

type lockedBuffer struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

// TestDefaultLogger checks that an engine without a Logger warns on slog.Default of a target that fails, and one with a silent Logger does not.
func TestDefaultLogger(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	for _, tt := range []struct {
		logger *slog.Logger
		want   int
	}{{nil, 1}, {slog.New(slog.DiscardHandler), 0}} {
		var out lockedBuffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: brokenTarget{}, Logger: tt.logger})
		must(t, err)
		err = eng.Define(t.Context(), forebay.Source{ID: "s", Sinks: []forebay.Sink{
			{ID: "k", Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Body("body")}}},
		}})
		must(t, errors.Join(err, eng.Close()))
		if got := strings.Count(out.out.String(), "no route to host"); got != tt.want {
			t.Errorf("with logger %v the default logger got %d warnings of the target, want %d:\n%s", tt.logger, got, tt.want, &out.out)
		}
	}
}
