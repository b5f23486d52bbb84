package collectortest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/clickhouse"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/stream/otlpgrpc"
	"github.com/forebay/forebay/trigger"
)

const (
	// asForebay makes the test binary a server of Forebay whose data is in the folder that it names.
	asForebay = "FOREBAY_TEST_SERVER"
	// targetKind and targetWhere are the [place] of its table.
	targetKind  = "FOREBAY_TEST_TARGET"
	targetWhere = "FOREBAY_TEST_WHERE"
	// listenAt is its address, if it is not any.
	listenAt = "FOREBAY_TEST_LISTEN"
)

// discard is a target that reads the rows and throws them away.
type discard struct{}

func (discard) Ensure(context.Context, driver.Table) error { return nil }

func (discard) Import(ctx context.Context, f *driver.File) error {
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

func noEnd() error { return nil }

// openTarget returns the target of Forebay for a place. The caller ends it after the engine.
func openTarget(kind, where string) (target driver.Target, end func() error, err error) {
	switch kind {
	case toParquet:
		target, err = parquet.Tables(where, parquet.Options{MergeTo: -1})
		return target, noEnd, err
	case toPostgres:
		t, err := postgres.Open(where, postgres.Options{})
		if err != nil {
			return nil, nil, err
		}
		return t, t.Close, nil
	case toClickHouse:
		t, err := clickhouse.Open(where, clickhouse.Options{OrderBy: []string{"ServiceName", "Timestamp"}}) // as forebay otlp
		if err != nil {
			return nil, nil, err
		}
		return t, t.Close, nil
	}
	return discard{}, noEnd, nil
}

// serveForebay runs until a signal. Its first line is its address, the last one the number of rows in the table.
func serveForebay(folder string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	target, end, err := openTarget(os.Getenv(targetKind), os.Getenv(targetWhere))
	if err != nil {
		return err
	}
	defer end()
	opts := forebay.Options{Target: target}
	opts.Buffer.MinImportInterval = time.Second
	engine, err := forebay.Open(filepath.Join(folder, "data"), opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	often := trigger.Conditions{Interval: time.Second}
	err = engine.Define(ctx, forebay.Source{
		ID: source, Type: forebay.OTLP, Secret: secret, Settings: forebay.Settings{Upload: often, Import: often},
		Sinks: []forebay.Sink{{ID: "logs", Table: forebay.Table{ID: tableName, Columns: presets[forebay.SignalLogs]}}},
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", cmp.Or(os.Getenv(listenAt), "127.0.0.1:0"))
	if err != nil {
		return err
	}
	rpc := otlpgrpc.Server(engine, otlpgrpc.Options{})
	go func() { _ = rpc.Serve(l) }()
	fmt.Println(l.Addr())
	<-ctx.Done()
	rpc.GracefulStop()
	if err := engine.FlushAll(context.Background()); err != nil {
		return err
	}
	fmt.Println(engine.Stats().Sinks[0].Target.Rows)
	return nil
}

// forebayProcess is a Forebay server in a separate process.
type forebayProcess struct {
	tb    testing.TB
	place place
	dir   string
	cmd   *exec.Cmd
	addr  string
	lines *bufio.Scanner
}

func startForebay(tb testing.TB, p place) *forebayProcess {
	tb.Helper()
	s := &forebayProcess{tb: tb, place: p, dir: tb.TempDir()}
	if p.kind == toClickHouse {
		p.create()
	}
	s.start()
	tb.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// start starts it, the first time or after a kill.
func (s *forebayProcess) start() {
	s.tb.Helper()
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), asForebay+"="+s.dir, targetKind+"="+s.place.kind, targetWhere+"="+s.place.where, listenAt+"="+s.addr)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	if s.lines = bufio.NewScanner(out); !s.lines.Scan() {
		s.tb.Fatal("no server")
	}
	s.addr = s.lines.Text()
}

func (s *forebayProcess) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// flush stops the server and returns the number of rows in its table, when all are there. wait follows.
func (s *forebayProcess) flush() (rows int64) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.tb.Fatal(err)
	}
	if !s.lines.Scan() {
		s.tb.Fatal("the server has ended without its rows")
	}
	rows, err := strconv.ParseInt(s.lines.Text(), 10, 64)
	if err != nil {
		s.tb.Fatal(err)
	}
	return rows
}

// wait returns after the end of the process.
func (s *forebayProcess) wait() {
	s.tb.Helper()
	if err := s.cmd.Wait(); err != nil {
		s.tb.Fatal(err)
	}
}
