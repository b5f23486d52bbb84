// Command bench compares the import into ClickHouse with the load of the same rows from a file by the engine. It starts a separate server. The engine
// of the server is the real engine of ClickHouse in a library.
//
//	go run ./bench -json
//
// With the argument pipeline it measures the path from an event to a query, compared with asynchronous inserts and with a batcher in memory:
//
//	go run ./bench pipeline -json
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/forebay/forebay/drivers/clickhouse"
	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/internal/importbench"
	"github.com/forebay/forebay/internal/pipebench"
)

func main() {
	clickhousetest.Main()
	os.Exit(pipebench.Main(os.Args[1:], os.Stdout, os.Stderr, run))
}

// database is the database of the table.
const database = "bench"

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if address, ok := pipebench.Address(); ok {
		return pipebench.Run(ctx, args, stdout, pipelineDatabase(nil, address))
	}
	var server clickhousetest.Server
	defer server.Close()
	if err := server.Start(); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "pipeline" {
		return pipebench.Run(ctx, args[1:], stdout, pipelineDatabase(&server, server.Address()))
	}
	w := ways{server: &server, cpu: map[string]*engineCPU{"driver": {}, "file": {}, "file, one thread": {}}}
	lazy, one := w, w
	lazy.options.LazySync = true
	one.options.LazySync, one.oneThread = true, true
	err := importbench.Run(ctx, args, stdout,
		importbench.Scenario{Name: "import/clickhouse", Import: w.driver, Loader: w.file, Goal: 0.9},
		importbench.Scenario{Name: "import/clickhouse-lazy", Import: lazy.driver, Loader: lazy.file, Goal: 0.9},
		importbench.Scenario{Name: "import/clickhouse-one-thread", Import: lazy.driver, Loader: one.file, Goal: 0.9},
	)
	// The driver uses one thread and the loader several. On a busy machine compare the processor time.
	for _, way := range []string{"driver", "file", "file, one thread"} {
		if c := w.cpu[way]; c.rows > 0 {
			fmt.Fprintf(os.Stderr, "CPU of the server, %s: %v a row\n", way, c.took/time.Duration(c.rows))
		}
	}
	return err
}

// engineCPU is the processor time that the server used for rows, including its merges in the meantime.
type engineCPU struct {
	took time.Duration
	rows int64
}

// counted adds the processor time that the server uses during run.
func (w ways) counted(way string, rows int64, run func() error) func() error {
	return func() error {
		before := w.server.CPU()
		err := run()
		w.cpu[way].took += w.server.CPU() - before
		w.cpu[way].rows += rows
		return err
	}
}

// ways import into a table that Ensure makes.
type ways struct {
	server  *clickhousetest.Server
	options clickhouse.Options
	cpu     map[string]*engineCPU
	// oneThread limits the loader to the threads of the driver.
	oneThread bool
}

func (w ways) driver(ctx context.Context, _ string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := w.prepare(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	end := func() (int64, error) {
		target.Close()
		return w.count()
	}
	return w.counted("driver", in.File.Rows, func() error { return target.Import(ctx, in.File) }), end, nil
}

// file lets the engine load the rows from a CSV file, which is compressed as the slices are, with its defaults. They are as many threads as there are
// processors.
func (w ways) file(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := w.prepare(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	target.Close()
	encoding := in.File.Slices[0].Encoding
	path := filepath.Join(dir, "rows.csv")
	out, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	for _, obj := range in.File.Slices {
		src, err := in.File.OpenSlice(ctx, obj)
		if err != nil {
			return nil, nil, err
		}
		_, err = io.Copy(out, src)
		if err = errors.Join(err, src.Close()); err != nil {
			return nil, nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, nil, err
	}
	var names, cells, values string
	for i, c := range in.File.Table.Columns {
		columns, err := w.server.Query(fmt.Sprintf("SELECT type FROM system.columns WHERE database = '%s' AND table = '%s' AND name = '%s'", database, in.File.Table.ID, c.Name))
		if err != nil {
			return nil, nil, err
		}
		typ, value := *columns[0][0], "`"+c.Name+"`"
		if c.Type == "bool" { // the parser accepts no Bool in quotes
			typ, value = "Nullable(String)", "toBool("+value+")"
		}
		if i > 0 {
			names, cells, values = names+", ", cells+", ", values+", "
		}
		names, cells, values = names+"`"+c.Name+"`", cells+"`"+c.Name+"` "+typ, values+value
	}
	statement := fmt.Sprintf("INSERT INTO %s.`%s` (%s) SELECT %s FROM file('%s', 'CSV', $$%s$$, '%s')", database, in.File.Table.ID, names, values, path, cells, encoding)
	way := "file"
	if w.oneThread {
		way, statement = "file, one thread", statement+" SETTINGS max_threads = 1, max_insert_threads = 1, input_format_parallel_parsing = 0"
	}
	run := func() error {
		_, err := w.server.Query(statement)
		return err
	}
	return w.counted(way, in.File.Rows, run), w.count, nil
}

// prepare returns a target whose database has the table, empty.
func (w ways) prepare(ctx context.Context, in importbench.Input) (*clickhouse.Target, error) {
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + database + " SYNC", "CREATE DATABASE " + database} {
		if _, err := w.server.Query(statement); err != nil {
			return nil, err
		}
	}
	target, err := clickhouse.Open(w.server.URL(database), w.options)
	if err != nil {
		return nil, err
	}
	if err := target.Ensure(ctx, in.File.Table); err != nil {
		target.Close()
		return nil, err
	}
	return target, nil
}

func (w ways) count() (int64, error) {
	rows, err := w.server.Query("SELECT toString(count()) FROM " + database + ".events")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(*rows[0][0], 10, 64)
}
