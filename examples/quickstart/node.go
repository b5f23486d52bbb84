package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/trigger"
)

const (
	sourceID   = "shop"
	ordersSink = "orders"
	auditSink  = "audit"

	// deliveryColumn and numberColumn are the columns that the final check reads.
	deliveryColumn = "delivery"
	numberColumn   = "number"
)

// sinkIDs are the sinks of the source, tableIDs their tables, in the same order.
var (
	sinkIDs  = []string{ordersSink, auditSink}
	tableIDs = []string{"in.c-shop.orders", "in.c-shop.audit"}
)

// source has all seven column types in two sinks. The orders sink refuses an event without an order, the audit sink
// takes whatever comes.
func source(secret string) forebay.Source {
	return forebay.Source{
		ID:     sourceID,
		Secret: secret,
		Settings: forebay.Settings{
			// Small loads, so that a short run shows all levels at work.
			Upload: trigger.Conditions{Interval: time.Second, Count: 500},
			Import: trigger.Conditions{Interval: 30 * time.Second, Count: 1_000},
		},
		Sinks: []forebay.Sink{
			{ID: ordersSink, Table: forebay.Table{ID: tableIDs[0], Columns: mapping.Columns{
				mapping.UUID("id"),
				mapping.Datetime("received_at"),
				mapping.Path(deliveryColumn, "delivery.id", mapping.RawString()),
				mapping.Path(numberColumn, "order.number", mapping.RawString()),
				mapping.Path("total", "order.total"),
				mapping.Path("country", "customer.country", mapping.RawString(), mapping.Default("unknown")),
				mapping.Template("label", `Header("X-Shop", "main") + "/" + Body("type")`, mapping.RawString()),
			}}},
			{ID: auditSink, Table: forebay.Table{ID: tableIDs[1], Columns: mapping.Columns{
				mapping.Datetime("received_at"),
				mapping.Path(deliveryColumn, "delivery.id", mapping.RawString()),
				mapping.IP("ip"),
				mapping.Headers("headers"),
				mapping.Body("body"),
			}}},
		},
	}
}

// node is an engine with its ingestion endpoint.
type node struct {
	eng    *forebay.Engine
	srv    *http.Server
	url    string
	served chan error
}

func startNode(ctx context.Context, dir, secret string) (*node, error) {
	eng, err := forebay.Open(dir, forebay.Options{})
	if err != nil {
		return nil, err
	}
	if err := eng.Define(ctx, source(secret)); err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	n := &node{
		eng:    eng,
		srv:    stream.Server("", stream.Ingest(eng, stream.Options{})),
		url:    "http://" + listener.Addr().String() + "/stream/1/" + sourceID + "/" + secret,
		served: make(chan error, 1),
	}
	go func() { n.served <- n.srv.Serve(listener) }()
	return n, nil
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

// levels counts rows, over both sinks.
type levels struct{ Local, Staging, Table int64 }

func (n *node) levels() levels {
	var l levels
	for _, s := range n.eng.Stats().Sinks {
		l.Local += s.Local.Rows
		l.Staging += s.Staging.Rows
		l.Table += s.Target.Rows
	}
	return l
}
