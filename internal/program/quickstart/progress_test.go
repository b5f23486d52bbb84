package quickstart

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/program/store"
	"github.com/forebay/forebay/mapping"
)

// repairs is an output that repairs the target once it has read why rows wait.
type repairs struct {
	bytes.Buffer
	repaired *atomic.Bool
}

func (r *repairs) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("rows wait:")) {
		r.repaired.Store(true)
	}
	return r.Buffer.Write(p)
}

// Rows that cannot reach their table say why, once.
func TestProgressSaysWhyRowsWait(t *testing.T) {
	var repaired atomic.Bool
	target := buffertest.NewMemory()
	target.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport && !repaired.Load() {
			return errors.New("the target is away")
		}
		return nil
	}
	cfg := config{open: func(string) (*store.Store, error) { return &store.Store{Target: target}, nil }}
	n, err := startNode(t.Context(), cfg, t.TempDir(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	body, err := newBody(cfg, "run", delivery{0, 1})
	if err == nil {
		_, err = n.eng.Ingest(t.Context(), "shop", mapping.JSON(body))
	}
	if err != nil {
		t.Fatal(err)
	}
	out := &repairs{repaired: &repaired}
	ctx, cancel := context.WithCancel(t.Context())
	watched := watch(ctx, out, 1, newLedger(), n, time.Now())
	if err := n.finish(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	<-watched
	if text := out.String(); strings.Count(text, "\nrows wait: the target is away\n") != 1 {
		t.Errorf("the output is\n%s", text)
	}
}
