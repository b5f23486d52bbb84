package main

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/stream"
)

// service receives the events: a node in this process, or one in a child process that is killed now and then.
type service interface {
	// url is where events are sent now.
	url() string
	// levels are as fresh as the service has told them.
	levels() levels
	// finish returns when every row is in its table and the service is closed.
	finish(ctx context.Context) error
	// abort closes the service after a failure.
	abort()
}

// levels counts rows, over both sinks.
type levels struct{ Local, Staging, Table int64 }

// node is an engine with its ingestion endpoint.
type node struct {
	eng     *forebay.Engine
	srv     *http.Server
	address string
	served  chan error
}

func startNode(ctx context.Context, dir, secret string) (*node, error) {
	eng, err := forebay.Open(dir, forebay.Options{})
	if err != nil {
		return nil, err
	}
	src := source(secret)
	if err := eng.Define(ctx, src); err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	n := &node{
		eng:     eng,
		srv:     stream.Server("", stream.Ingest(eng, stream.Options{})),
		address: "http://" + listener.Addr().String() + "/stream/1/" + src.ID + "/" + secret,
		served:  make(chan error, 1),
	}
	go func() { n.served <- n.srv.Serve(listener) }()
	return n, nil
}

func (n *node) url() string { return n.address }

func (n *node) levels() levels {
	var l levels
	for _, s := range n.eng.Stats().Sinks {
		l.Local += s.Local.Rows
		l.Staging += s.Staging.Rows
		l.Table += s.Target.Rows
	}
	return l
}

// drain stops the intake and returns when every row is in its table.
func (n *node) drain(ctx context.Context) error {
	if err := n.srv.Shutdown(ctx); err != nil {
		return err
	}
	if err := <-n.served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return n.eng.FlushAll(ctx)
}

func (n *node) finish(ctx context.Context) error { return errors.Join(n.drain(ctx), n.eng.Close()) }

func (n *node) abort() {
	n.srv.Close()
	<-n.served
	n.eng.Close()
}
