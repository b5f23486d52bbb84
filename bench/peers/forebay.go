package main

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
	"github.com/forebay/forebay/trigger"
)

const (
	secret      = "0123456789abcdef0123456789abcdef0123456789abcdef"
	forebayPath = "/stream/1/shop/" + secret
)

// forebayEvery uploads and imports in an interval, or as shipped if it is 0.
func forebayEvery(interval time.Duration) func(place) error {
	return func(at place) error {
		target, err := postgres.Open(at.Database, postgres.Options{})
		if err != nil {
			return err
		}
		engine, err := forebay.Open(filepath.Join(at.Dir, "forebay"), forebay.Options{Target: target, Buffer: buffer.Tuning{MinImportInterval: interval}})
		if err != nil {
			return err
		}
		each := trigger.Conditions{Interval: interval}
		err = engine.Define(context.Background(), forebay.Source{ID: "shop", Secret: secret, Sinks: []forebay.Sink{{
			ID: "events", Settings: forebay.Settings{Upload: each, Import: each},
			Table: forebay.Table{ID: "events", Columns: mapping.Columns{
				mapping.Path("id", "id", mapping.DataType(datatype.Int64)), mapping.Body("body", mapping.DataType(datatype.JSON)),
			}},
		}}})
		if err != nil {
			return err
		}
		server, err := fastserver.New(stream.Ingest(engine, stream.Options{}), fastserver.Options{})
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", at.Addr)
		if err != nil {
			return err
		}
		return server.Serve(listener)
	}
}
