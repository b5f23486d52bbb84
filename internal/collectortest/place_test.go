package collectortest

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// Kinds of places. The kinds of tables are names of exporters, too.
const (
	toNone     = "none"
	toParquet  = "parquet"
	toPostgres = "postgres"
	// toClickHouse has the Collector's exporter for ClickHouse, which stores logs in another table.
	toClickHouse = "clickhouse"
)

const tableName = "logs"

var (
	database         pgtest.Server
	clickhouseServer clickhousetest.Server
)

// place is where Forebay or a Collector puts its rows, which is a folder with Parquet files, a table of PostgreSQL or ClickHouse, or nowhere.
type place struct {
	tb          testing.TB
	kind, where string
	database    string // of ClickHouse
}

// newPlace returns an empty place. PostgreSQL has done its work for earlier ones.
func newPlace(tb testing.TB, kind string) place {
	tb.Helper()
	p := place{tb: tb, kind: kind}
	switch kind {
	case toParquet:
		p.where = tb.TempDir()
	case toPostgres:
		p.where = database.URL(tb)
		conn := database.Connect(tb)
		pgtest.Exec(tb, conn, "SET client_min_messages = warning")
		pgtest.Exec(tb, conn, "DROP TABLE IF EXISTS "+tableName+", _forebay_imports")
		pgtest.Exec(tb, conn, "CHECKPOINT")
	case toClickHouse:
		p.database = clickhouseServer.Database(tb)
		p.where = clickhouseServer.URL(p.database)
	}
	return p
}

// create makes the table as Forebay makes it, and in ClickHouse its view with the names of the Collector's exporter.
func (p place) create() {
	p.tb.Helper()
	if p.kind != toPostgres && p.kind != toClickHouse {
		return
	}
	target, end, err := openTarget(p.kind, p.where)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer end()
	if err := target.Ensure(p.tb.Context(), driver.Table{ID: tableName, Columns: p.columns()}); err != nil {
		p.tb.Fatal(err)
	}
	if p.kind != toClickHouse {
		return
	}
	statements, err := otlpflat.Views(otlpflat.ViewOptions{Dialect: otlpflat.ClickHouse, Schema: p.database, Logs: tableName})
	if err != nil {
		p.tb.Fatal(err)
	}
	for _, statement := range statements {
		clickhouseServer.Exec(p.tb, statement)
	}
}

// columns are the columns of the table.
func (p place) columns() []datatype.Column {
	p.tb.Helper()
	mapper, err := mapping.Compile(presets[forebay.SignalLogs], mapping.Options{})
	if err != nil {
		p.tb.Fatal(err)
	}
	return mapper.Columns()
}

// files are the Parquet files.
func (p place) files() (all []string) {
	p.tb.Helper()
	err := filepath.WalkDir(p.where, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		p.tb.Fatal(err)
	}
	return all
}

// count returns the number of rows that are stored.
func (p place) count() (rows int64) {
	p.tb.Helper()
	switch p.kind {
	case toParquet:
		for _, path := range p.files() {
			p.open(path, func(f *pq.File) { rows += f.NumRows() })
		}
	case toPostgres:
		if err := database.Connect(p.tb).QueryRow(context.Background(), "SELECT count(*) FROM "+tableName).Scan(&rows); err != nil {
			p.tb.Fatal(err)
		}
	case toClickHouse:
		// Before the exporter has created its table there is none.
		for _, row := range clickhouseServer.Rows(p.tb, "SELECT toString(count()) FROM merge('"+p.database+"', '^otel_logs$')") {
			rows, _ = strconv.ParseInt(*row[0], 10, 64)
		}
	}
	return rows
}

// wait returns when n rows are stored.
func (p place) wait(n int64) {
	p.tb.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); p.count() < n; <-tick.C {
		if time.Now().After(deadline) {
			p.tb.Fatalf("got %d stored rows, want %d", p.count(), n)
		}
	}
}

func (p place) open(path string, read func(*pq.File)) {
	p.tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		p.tb.Fatal(err)
	}
	part, err := pq.OpenFile(f, info.Size())
	if err != nil {
		p.tb.Fatal(err)
	}
	read(part)
}

// schemas returns the columns of the Parquet files, with their types, of each schema once.
func (p place) schemas() (all []string) {
	p.tb.Helper()
	if p.kind != toParquet {
		return nil
	}
	for _, path := range p.files() {
		p.open(path, func(f *pq.File) {
			_, columns, _ := strings.Cut(f.Schema().String(), "\n") // after the name of the schema
			all = append(all, columns)
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// rows returns the rows in the order of their texts. columns are the columns of the Parquet files.
func (p place) rows(columns []datatype.Column) (all []string) {
	p.tb.Helper()
	switch p.kind {
	case toParquet:
		for _, path := range p.files() {
			rows, err := parquettest.ReadPart(path, columns)
			if err != nil {
				p.tb.Fatal(err)
			}
			for _, row := range rows {
				all = append(all, strings.Join(row, ", "))
			}
		}
	case toPostgres:
		rows, err := database.Connect(p.tb).Query(context.Background(), "SELECT l::text FROM "+tableName+" l")
		if err != nil {
			p.tb.Fatal(err)
		}
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				p.tb.Fatal(err)
			}
			all = append(all, text)
		}
		if err := rows.Err(); err != nil {
			p.tb.Fatal(err)
		}
	}
	slices.Sort(all)
	return all
}

// cpu is the CPU that the database has used.
func (p place) cpu() time.Duration {
	switch p.kind {
	case toPostgres:
		return database.CPU()
	case toClickHouse:
		return clickhouseServer.CPU()
	}
	return 0
}

// remove frees the space of a folder or database before the test ends. ClickHouse has no rows to merge then.
func (p place) remove() {
	p.tb.Helper()
	switch p.kind {
	case toClickHouse:
		clickhouseServer.Exec(p.tb, "DROP DATABASE "+p.database+" SYNC")
		return
	case toParquet:
	default:
		return
	}
	if err := os.RemoveAll(p.where); err != nil {
		p.tb.Fatal(err)
	}
}
