package buffer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/changelog/changelogtest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// appended is the changelog of a node, by package changelog.
type appended struct {
	log      changelog.Log
	node     string
	epoch    uint64 // the newest
	appender *changelog.Appender
}

// fenced returns an error of package changelog as the buffer's.
func fenced(err error) error {
	if errors.Is(err, changelog.ErrFenced) {
		return fmt.Errorf("%w: %w", buffer.ErrFenced, err)
	}
	return err
}

func (a *appended) Begin(ctx context.Context, at buffer.LogPosition) iter.Seq2[buffer.LogBatch, error] {
	return func(yield func(buffer.LogBatch, error) bool) {
		a.close()
		var lacks []buffer.LogBatch
		opts := changelog.AppenderOptions{
			Log: a.log, Instance: "one", Node: a.node, Valid: func() bool { return true },
			Apply: func(_ context.Context, b changelog.StoredBatch) error {
				lacks = append(lacks, buffer.LogBatch{Number: b.Number, Data: b.Data})
				return nil
			},
			NextEpoch: func(context.Context) (uint64, error) {
				a.epoch++
				return a.epoch, nil
			},
		}
		var err error
		if at.Number > 0 {
			err = json.Unmarshal(at.Mark, &opts.Store)
		}
		if err == nil {
			a.appender, err = changelog.OpenAppender(ctx, opts)
		}
		if err != nil {
			yield(buffer.LogBatch{}, fenced(err))
			return
		}
		for _, b := range lacks {
			if !yield(b, nil) {
				return
			}
		}
	}
}

func (a *appended) Mark() []byte {
	mark, _ := json.Marshal(a.appender.Mark()) // numbers cannot fail
	return mark
}

func (a *appended) Append(_ uint64, data []byte) func(context.Context) error {
	p := a.appender.Append(data)
	return func(ctx context.Context) error { return fenced(p.Wait(ctx)) }
}

func (a *appended) close() {
	if a.appender != nil {
		a.appender.Close()
	}
}

// A buffer writes to an appender of package changelog. Its leader changes while rows arrive, the process restarts, and then another node
// opens the log with an empty disk and has every row.
func TestChangelogOfAppender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), changelogtest.NewLog(1, changelogtest.Faults{})
		if err := log.Create(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		first := &appended{log: log, node: "node-1"}
		defer first.close()
		opts := memoryOptions(t, mem)
		opts.Changelog = first
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 10)
		log.Elect("one", 1)
		put(t, b, s, 10, 20)
		closeBuffer(t, b)
		b = openAt(t, "data", opts)
		s = define(t, b, "a")
		put(t, b, s, 20, 30)

		second := &appended{log: log, node: "node-2", epoch: first.epoch + 10}
		defer second.close()
		opts = localdisk.On(opts, vfs.FS(disktest.New(t)))
		opts.Changelog = second
		b2 := openAt(t, "data", opts)
		var stopped *buffer.FencedError
		if err := tryRow(t, b, s, 30); !errors.As(err, &stopped) {
			t.Errorf("the owner before: %v", err)
		}
		put(t, b2, define(t, b2, "a"), 30, 40)
		flush(t, b2, "a")
		wantAll(t, mem, "in.c-test.a", 0, 40)
		verify(t, b2)
		closeBuffer(t, b2)
	})
}
