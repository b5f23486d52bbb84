package clienttest

import (
	"context"
	"errors"
	"fmt"
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

// Table is the table of [Serve]. Its columns client and seq are int64.
const Table = "events"

// Serve opens an engine in a folder and serves it over HTTP, for [Send]. It imports each 200 rows into target, and retries soon. close
// flushes and closes the engine but leaves target open.
func Serve(folder string, target driver.Target) (url string, close func() error, err error) {
	engine, err := open(folder, forebay.Options{Target: target})
	if err != nil {
		return "", nil, err
	}
	return serve(engine)
}

// ServeMoving is [Serve] with an engine that has two targets. After each 130 rows a definition moves the sink from one to the other, so that rows
// for the one wait while rows for the other arrive. end is its close, and also fails if a move has failed, or if [forebay.Engine.Verify] finds an error.
func ServeMoving(folder string, first, second driver.Target) (url string, end func() error, err error) {
	const rows = 130 // before a file has all of its rows
	engine, err := open(folder, forebay.Options{Target: first, Targets: map[string]driver.Target{"second": second}})
	if err != nil {
		return "", nil, err
	}
	url, closed, err := serve(engine)
	if err != nil {
		return "", nil, err
	}
	stop, moved := make(chan struct{}), make(chan error, 1)
	go func() {
		target, next := "", engine.Stats().Sinks[0].Accepted+rows
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				moved <- nil
				return
			case <-tick.C:
			}
			if engine.Stats().Sinks[0].Accepted < next {
				continue
			}
			if target == "" {
				target = "second"
			} else {
				target = ""
			}
			if err := engine.Define(context.Background(), source(target)); err != nil {
				moved <- err
				return
			}
			next = engine.Stats().Sinks[0].Accepted + rows
		}
	}()
	return url, func() error {
		close(stop)
		err := <-moved
		if err == nil {
			err = engine.FlushAll(context.Background())
		}
		if err == nil {
			var report buffer.Report
			if report, err = engine.Verify(context.Background()); err == nil && !report.OK() {
				err = fmt.Errorf("verify: %+v", report)
			}
		}
		return errors.Join(err, closed())
	}, nil
}

// The address of the source.
const id, secret = "shop", "0123456789abcdef0123456789abcdef0123456789abcdef"

// ManyTables is how many tables [ServeMany] fills.
const ManyTables = 8

// ServeMany is [Serve] with several tables, which get each event: Table, and Table with the suffixes 1, 2, ….
func ServeMany(folder string, target driver.Target) (url string, close func() error, err error) {
	engine, err := open(folder, forebay.Options{Target: target})
	if err != nil {
		return "", nil, err
	}
	many := source("")
	for i := 1; i < ManyTables; i++ {
		sink := many.Sinks[0]
		sink.ID, sink.Table.ID = fmt.Sprint(sink.ID, i), TableOf(i)
		many.Sinks = append(many.Sinks, sink)
	}
	if err := engine.Define(context.Background(), many); err != nil {
		return "", nil, errors.Join(err, engine.Close())
	}
	return serve(engine)
}

// TableOf returns the name of a table of [ServeMany].
func TableOf(i int) string {
	if i == 0 {
		return Table
	}
	return fmt.Sprint(Table, i)
}

// source returns a source whose sink has its table in the target of a name.
func source(target string) forebay.Source {
	return forebay.Source{ID: id, Secret: secret, Sinks: []forebay.Sink{{
		ID: "events", Settings: forebay.Settings{Upload: trigger.Conditions{Count: 100}, Import: trigger.Conditions{Count: 200}},
		Table: forebay.Table{ID: Table, Target: target, Columns: mapping.Columns{
			mapping.Path("client", "client", mapping.DataType(datatype.Int64)), mapping.Path("seq", "seq", mapping.DataType(datatype.Int64)),
		}},
	}}}
}

// open opens an engine with the source.
func open(folder string, opts forebay.Options) (*forebay.Engine, error) {
	opts.Buffer = buffer.Tuning{Retry: buffer.Retry{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond}}
	engine, err := forebay.Open(folder, opts)
	if err != nil {
		return nil, err
	}
	if err := engine.Define(context.Background(), source("")); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// serve serves an engine, and closes it after an error.
func serve(engine *forebay.Engine) (url string, close func() error, err error) {
	fail := func(err error) (string, func() error, error) { return "", nil, errors.Join(err, engine.Close()) }
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
		return errors.Join(server.Close(), engine.FlushAll(context.Background()), engine.Close())
	}, nil
}
