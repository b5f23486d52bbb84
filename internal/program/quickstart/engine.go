package quickstart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/store"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/stream"
)

// service receives the events. It is a node in this process, or one in a child process that is killed now and then.
type service interface {
	// url is where events are sent now.
	url() string
	// levels may be up to 50 ms old.
	levels() levels
	// finish returns when every row is in its table and the service is closed.
	finish(ctx context.Context) error
	// abort closes the service after a failure.
	abort()
}

// levels counts rows, over both sinks.
type levels struct {
	Local, Staging, Table int64
	// Why is the last failure of rows that wait, "" if there was none.
	Why string
}

// node is an engine with its ingestion endpoint.
type node struct {
	eng     *forebay.Engine
	store   *store.Store
	server  *web.Server
	address string
	failing *failingTarget // with -ui
}

func startNode(ctx context.Context, cfg config, dir, secret string) (*node, error) {
	st, err := cfg.open(dir)
	if err != nil {
		return nil, err
	}
	opts, src := forebay.Options{Target: st.Target, Staging: st.Staging}, source(secret)
	var failing *failingTarget
	if cfg.ui {
		failing = watchable(&opts, &src)
	}
	eng, err := forebay.Open(dir, opts)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	if err := define(ctx, eng, src, st.Target); err != nil {
		return nil, errors.Join(err, eng.Close(), st.Close())
	}
	server, err := web.Local(stream.Ingest(eng, stream.Options{}))
	if err != nil {
		return nil, errors.Join(err, eng.Close(), st.Close())
	}
	return &node{eng, st, server, "http://" + server.Addr + "/stream/1/" + src.ID + "/" + secret, failing}, nil
}

// define defines the source, and fails if its tables cannot be made now. The engine by itself would try again for as long as it runs.
func define(ctx context.Context, eng *forebay.Engine, src forebay.Source, target driver.Target) error {
	compiled, err := eng.Compile(src)
	if err != nil {
		return err
	}
	if _, err := compiled.Apply(ctx, forebay.ApplyOptions{}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, s := range src.Sinks {
		if err := driver.HintUnreachable(target.Ensure(ctx, driver.Table{ID: s.Table.ID, Columns: compiled.Mapper(s.ID).Columns()})); err != nil {
			return fmt.Errorf("the target cannot have the table %s: %w", s.Table.ID, err)
		}
	}
	return nil
}

func (n *node) url() string { return n.address }

func (n *node) levels() levels {
	var l levels
	for _, s := range n.eng.Stats().Sinks {
		l.Local += s.Local.Rows
		l.Staging += s.Staging.Rows
		l.Table += s.Target.Rows
		for _, f := range s.Files {
			if f.State == buffer.FileWriting || f.State == buffer.FileClosing || f.State == buffer.FileImporting {
				l.Why = cmp.Or(l.Why, f.RetryReason)
			}
		}
	}
	return l
}

// drain stops the intake and returns when every row is in its table.
func (n *node) drain(ctx context.Context) error {
	if err := errors.Join(n.server.Stop(ctx), n.server.Err()); err != nil {
		return err
	}
	return n.eng.FlushAll(ctx)
}

func (n *node) finish(ctx context.Context) error { return errors.Join(n.drain(ctx), n.close()) }

func (n *node) close() error { return errors.Join(n.eng.Close(), n.store.Close()) }

func (n *node) abort() {
	n.server.Close()
	_ = n.close()
}
