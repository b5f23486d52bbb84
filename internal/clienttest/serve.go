package clienttest

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
	"github.com/forebay/forebay/trigger"
)

// Table is the table of [Serve]: its columns client and seq are int64.
const Table = "events"

// Serve opens an engine in a folder and serves it over HTTP, for [Send]. It imports each 200 rows into target, and retries soon. close
// flushes and closes the engine; it leaves target open.
func Serve(folder string, target driver.Target) (url string, close func() error, err error) {
	const id, secret = "shop", "0123456789abcdef0123456789abcdef0123456789abcdef"
	ctx := context.Background()
	engine, err := forebay.Open(folder, forebay.Options{
		Target: target, Buffer: buffer.Tuning{Retry: buffer.Retry{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond}},
	})
	if err != nil {
		return "", nil, err
	}
	fail := func(err error) (string, func() error, error) { return "", nil, errors.Join(err, engine.Close()) }
	err = engine.Define(ctx, forebay.Source{ID: id, Secret: secret, Sinks: []forebay.Sink{{
		ID: "events", Settings: forebay.Settings{Upload: trigger.Conditions{Count: 100}, Import: trigger.Conditions{Count: 200}},
		Table: forebay.Table{ID: Table, Columns: mapping.Columns{
			mapping.Path("client", "client", mapping.DataType(datatype.Int64)), mapping.Path("seq", "seq", mapping.DataType(datatype.Int64)),
		}},
	}}})
	if err != nil {
		return fail(err)
	}
	server, err := fastserver.New(stream.Ingest(engine, stream.Options{}), fastserver.Options{})
	if err != nil {
		return fail(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return "http://" + listener.Addr().String() + "/stream/1/" + id + "/" + secret, func() error {
		return errors.Join(server.Close(), engine.FlushAll(ctx), engine.Close())
	}, nil
}
