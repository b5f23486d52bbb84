package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/drivers/postgres/internal/pgtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

// pipelineCommand measures events from HTTP to a table: an engine with this target, beside a handler of net/http that inserts each event
// through a pool of pgx before it answers.
const pipelineCommand = "pipeline"

// service takes events until it is closed.
type service struct {
	serve func(net.Listener) error
	path  string
	// close ends the server and returns when every row is in the table events.
	close func() error
}

// measured is one way in one round.
type measured struct {
	RequestsPerS  float64 `json:"requests_per_s"`
	P50           float64 `json:"p50_ms"`
	P99           float64 `json:"p99_ms"`
	RowsPerS      float64 `json:"rows_per_s"` // until a query sees the last one
	CPUPerRequest float64 `json:"cpu_us_per_request"`
}

type comparison struct {
	Scenario string   `json:"scenario"`
	Engine   measured `json:"engine"`
	Inserts  measured `json:"inserts"`
	// Medians of the ratios of the rounds.
	Throughput float64 `json:"of_inserts"`
	CPU        float64 `json:"cpu_of_inserts"`
}

func pipeline(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet(pipelineCommand, flag.ContinueOnError)
	duration := flags.Duration("duration", 10*time.Second, "how long events are sent")
	rounds := flags.Int("rounds", 3, "measurements of each way, in turn; medians are reported")
	asJSON := flags.Bool("json", false, "one JSON object")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var server pgtest.Server
	defer server.Close()
	url, err := server.Start()
	if err != nil {
		return err
	}
	w := ways{url: url}
	var engine, inserts []measured
	for range *rounds {
		for _, way := range []struct {
			open func(context.Context) (*service, error)
			into *[]measured
		}{{w.inserts, &inserts}, {w.engine, &engine}} {
			m, err := w.measure(ctx, &server, way.open, *duration)
			if err != nil {
				return err
			}
			*way.into = append(*way.into, m)
		}
	}
	c := comparison{Scenario: "pipeline/postgres", Engine: medians(engine), Inserts: medians(inserts)}
	var throughput, cpu []float64
	for i := range engine {
		throughput = append(throughput, engine[i].RowsPerS/inserts[i].RowsPerS)
		cpu = append(cpu, engine[i].CPUPerRequest/inserts[i].CPUPerRequest)
	}
	c.Throughput, c.CPU = median(throughput), median(cpu)
	if *asJSON {
		return json.NewEncoder(stdout).Encode(c)
	}
	for i, m := range []measured{c.Engine, c.Inserts} {
		fmt.Fprintf(stdout, "%-8s %8.0f requests/s, p50 %.1f ms, p99 %.1f ms, %8.0f rows/s into the table, %.0f µs of CPU a request, database included\n",
			[]string{"engine", "inserts"}[i], m.RequestsPerS, m.P50, m.P99, m.RowsPerS, m.CPUPerRequest)
	}
	fmt.Fprintf(stdout, "%s: %.2f of the rows/s of single inserts, %.2f of their CPU a request\n", c.Scenario, c.Throughput, c.CPU)
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func medians(all []measured) (m measured) {
	of := func(get func(measured) float64) float64 {
		var values []float64
		for _, one := range all {
			values = append(values, get(one))
		}
		return median(values)
	}
	return measured{
		of(func(m measured) float64 { return m.RequestsPerS }), of(func(m measured) float64 { return m.P50 }), of(func(m measured) float64 { return m.P99 }),
		of(func(m measured) float64 { return m.RowsPerS }), of(func(m measured) float64 { return m.CPUPerRequest }),
	}
}

// measure sends events to a service, and counts them in the table.
func (w ways) measure(ctx context.Context, server *pgtest.Server, open func(context.Context) (*service, error), d time.Duration) (m measured, err error) {
	if err := w.exec(ctx, "DROP TABLE IF EXISTS events, _forebay_imports"); err != nil {
		return m, err
	}
	if err := w.exec(ctx, "CHECKPOINT"); err != nil {
		return m, err
	}
	s, err := open(ctx)
	if err != nil {
		return m, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return m, errors.Join(err, s.close())
	}
	served := make(chan error, 1)
	go func() { served <- s.serve(listener) }()
	begin, cpu := time.Now(), serverCPU(server)
	sent, err := runClient(ctx, listener.Addr().String(), s.path, d)
	took := time.Since(begin)
	if err = errors.Join(err, s.close()); err != nil {
		return m, err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return m, err
	}
	rows, err := w.count()
	if err != nil {
		return m, err
	}
	if rows != int64(sent.Requests) {
		return m, fmt.Errorf("%d rows are in the table, %d requests were answered", rows, sent.Requests)
	}
	total := time.Since(begin)
	n := float64(sent.Requests)
	return measured{
		RequestsPerS: n / took.Seconds(), P50: float64(sent.P50) / 1e6, P99: float64(sent.P99) / 1e6,
		RowsPerS: n / total.Seconds(), CPUPerRequest: (serverCPU(server) - cpu) * 1e6 / n,
	}, nil
}

// serverCPU is the CPU time in seconds of this process and of the database, without the client's.
func serverCPU(server *pgtest.Server) float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano())/1e9 + server.CPU().Seconds()
}

const (
	sourceID = "shop"
	secret   = "0123456789abcdef0123456789abcdef0123456789abcdef"
)

// engine answers when the event is on the local disk.
func (w ways) engine(ctx context.Context) (*service, error) {
	dir, err := os.MkdirTemp("", "pipeline-")
	if err != nil {
		return nil, err
	}
	target, err := postgres.Open(w.url, postgres.Options{})
	if err != nil {
		return nil, err
	}
	eng, err := forebay.Open(dir, forebay.Options{Target: target})
	if err != nil {
		return nil, err
	}
	err = eng.Define(ctx, forebay.Source{ID: sourceID, Secret: secret, Sinks: []forebay.Sink{{
		ID: "events", Table: forebay.Table{ID: "events", Columns: mapping.Columns{
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
	return &service{serve: server.Serve, path: "/stream/1/" + sourceID + "/" + secret, close: func() error {
		err := errors.Join(server.Close(), eng.FlushAll(ctx), eng.Close())
		target.Close()
		return errors.Join(err, os.RemoveAll(dir))
	}}, nil
}

// inserts answers when the event is in the database.
func (w ways) inserts(ctx context.Context) (*service, error) {
	if err := w.exec(ctx, "CREATE TABLE events (id uuid, received_at timestamptz, user_id bigint, body json)"); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(w.url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var event struct{ User struct{ ID int64 } }
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err == nil {
			_, err = pool.Exec(r.Context(), "INSERT INTO events VALUES ($1, $2, $3, $4)", uuid.New(), time.Now(), event.User.ID, string(body))
		}
		if err != nil {
			http.Error(rw, "failed", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(rw, "OK")
	})}
	return &service{serve: server.Serve, path: "/", close: func() error {
		err := server.Close()
		pool.Close()
		return err
	}}, nil
}
