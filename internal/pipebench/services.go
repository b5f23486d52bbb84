package pipebench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
	"github.com/forebay/forebay/trigger"
)

// Table is the id of the table. Its columns are id, received_at, user_id and body, which are a UUID, a timestamp, an int64 and JSON.
const Table = "events"

// Event is a row, as the user's own way stores it.
type Event struct {
	// ID is random.
	ID uuid.UUID
	// At is when the event came.
	At time.Time
	// UserID is a field of the event.
	UserID int64
	// Body is the whole event, as JSON.
	Body string
}

func newEvent(body []byte) (Event, error) {
	var in struct{ User struct{ ID int64 } }
	err := json.Unmarshal(body, &in)
	return Event{uuid.New(), time.Now(), in.User.ID, string(body)}, err
}

// service stores events, over HTTP or called in this process, until it is closed.
type service struct {
	// serve serves requests to path until close.
	serve func(net.Listener) error
	path  string
	// store returns when the event is durable. It is called by many goroutines.
	store func(ctx context.Context, body []byte) error
	// storeBatch does it for many events at once, or is nil if there is no such way.
	storeBatch func(ctx context.Context, bodies [][]byte) error
	// flush returns when every stored row is in the table.
	flush func(ctx context.Context) error
	close func() error
}

// interval is how often the engine uploads and imports, the least that its Tuning allows.
const interval = time.Second

const (
	sourceID = "shop"
	secret   = "0123456789abcdef0123456789abcdef0123456789abcdef"
)

// engine returns a service that responds when the event is on the local disk.
func (b *bench) engine(ctx context.Context) (*service, error) {
	dir, err := os.MkdirTemp(b.dir, "pipeline-")
	if err != nil {
		return nil, err
	}
	s, err := b.engineIn(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	end := s.close
	s.close = func() error { return errors.Join(end(), os.RemoveAll(dir)) }
	return s, nil
}

// engineIn is engine with a folder that may have rows of an earlier one.
func (b *bench) engineIn(ctx context.Context, dir string) (s *service, err error) {
	var ends []func() error
	end := func() (err error) {
		for i := range ends {
			err = errors.Join(err, ends[len(ends)-1-i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	target, closeTarget, err := b.db.Target(ctx)
	if err != nil {
		return nil, err
	}
	ends = append(ends, closeTarget)
	eng, err := forebay.Open(dir, forebay.Options{Target: target, Buffer: buffer.Tuning{MinImportInterval: interval}})
	if err != nil {
		return nil, err
	}
	ends = append(ends, eng.Close)
	err = eng.Define(ctx, forebay.Source{ID: sourceID, Secret: secret, Sinks: []forebay.Sink{{
		ID:       "events",
		Settings: forebay.Settings{Upload: trigger.Conditions{Interval: interval}, Import: trigger.Conditions{Interval: interval}},
		Table: forebay.Table{ID: Table, Columns: mapping.Columns{
			mapping.UUID("id", mapping.DataType(datatype.UUID)),
			mapping.Datetime("received_at", mapping.DataType(datatype.Timestamp)),
			mapping.Path("user_id", "user.id", mapping.DataType(datatype.Int64)),
			mapping.Body("body", mapping.DataType(datatype.JSON)),
		}},
	}}})
	if err != nil {
		return nil, err
	}
	server, err := fastserver.New(stream.Ingest(eng, stream.Options{}), fastserver.Options{})
	if err != nil {
		return nil, err
	}
	ends = append(ends, server.Close)
	return &service{
		serve: server.Serve, path: "/stream/1/" + sourceID + "/" + secret,
		store: func(ctx context.Context, body []byte) error {
			_, err := eng.Ingest(ctx, sourceID, mapping.JSON(body))
			return err
		},
		storeBatch: func(ctx context.Context, bodies [][]byte) error {
			records := make([]*mapping.Record, len(bodies))
			for i, body := range bodies {
				records[i] = mapping.JSON(body)
			}
			_, err := eng.IngestBatch(ctx, sourceID, records)
			return err
		},
		flush: eng.FlushAll, close: end,
	}, nil
}

// inserts returns a service that responds when the event is in the database, which is the user's own way with single inserts.
func (b *bench) inserts(ctx context.Context) (*service, error) {
	own, err := b.db.Own(ctx)
	if err != nil {
		return nil, err
	}
	return ownService(own), nil
}

// alone is inserts with a file or commit for each event.
func (b *bench) alone(ctx context.Context) (*service, error) {
	own, err := b.db.Own(ctx)
	if err != nil {
		return nil, err
	}
	if own.InsertAlone == nil {
		return nil, errors.Join(errNone, own.Close())
	}
	own.Insert, own.InsertBatch = own.InsertAlone, nil
	return ownService(own), nil
}

// later is inserts with a service that keeps events in memory.
func (b *bench) later(ctx context.Context) (*service, error) {
	own, err := b.db.Own(ctx)
	if err != nil {
		return nil, err
	}
	if own.InsertLater == nil {
		return nil, errors.Join(errNone, own.Close())
	}
	own.Insert, own.InsertBatch = own.InsertLater, nil
	s := ownService(own)
	s.flush = own.Flush
	return s, nil
}

func ownService(own Own) *service {
	store := func(ctx context.Context, body []byte) error {
		event, err := newEvent(body)
		if err != nil {
			return err
		}
		return own.Insert(ctx, event)
	}
	var storeBatch func(ctx context.Context, bodies [][]byte) error
	if own.InsertBatch != nil {
		storeBatch = func(ctx context.Context, bodies [][]byte) error {
			events := make([]Event, len(bodies))
			for i, body := range bodies {
				var err error
				if events[i], err = newEvent(body); err != nil {
					return err
				}
			}
			return own.InsertBatch(ctx, events)
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = store(r.Context(), body)
		}
		if err != nil {
			http.Error(rw, "failed", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(rw, "OK")
	})}
	return &service{
		serve: server.Serve, path: "/", store: store, storeBatch: storeBatch, flush: func(context.Context) error { return nil },
		close: func() error { return errors.Join(server.Close(), own.Close()) },
	}
}
