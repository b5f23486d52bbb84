package duckdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	duckdbgo "github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"
)

// conn is a connection of the C API. A connection of database/sql cannot append whole vectors, and its errors have no kind, only a text.
// It is not safe for concurrent use.
type conn struct {
	raw mapping.Connection
	end func() // of Target.begin
}

// openDatabase opens the instance that all users of the file in this process share.
func openDatabase(path string) (db mapping.Database, err error) {
	var config mapping.Config
	if mapping.CreateConfig(&config) == mapping.StateError {
		return db, errors.New("no memory for the configuration")
	}
	defer mapping.DestroyConfig(&config)
	// An instance is shared only with an equal configuration, and duckdb-go sets this.
	if mapping.SetConfig(config, "duckdb_api", "go") == mapping.StateError {
		return db, errors.New("the configuration was refused")
	}
	var message string
	if mapping.GetOrCreateFromCache(duckdbgo.GetInstanceCache(), path, &db, config, &message) == mapping.StateError {
		return db, openError(message)
	}
	return db, nil
}

// connect opens a connection. The caller closes it.
func (t *Target) connect() (*conn, error) {
	end, err := t.begin()
	if err != nil {
		return nil, err
	}
	return t.dial(end)
}

// dial opens a connection of an open database. It calls end if that fails. Otherwise the caller closes the connection.
func (t *Target) dial(end func()) (*conn, error) {
	c := &conn{end: end}
	if mapping.Connect(t.raw, &c.raw) == mapping.StateError {
		end()
		return nil, errors.New("the database gives no connection")
	}
	return c, nil
}

// close rolls back an open transaction.
func (c *conn) close() {
	mapping.Disconnect(&c.raw)
	c.end()
}

// exec runs statements without a result.
func (c *conn) exec(ctx context.Context, format string, args ...any) error {
	return c.run(ctx, fmt.Sprintf(format, args...), func(mapping.Result) {})
}

// query runs a statement and returns its rows. All columns must be VARCHAR, and none NULL.
func (c *conn) query(ctx context.Context, format string, args ...any) (rows [][]string, err error) {
	err = c.run(ctx, fmt.Sprintf(format, args...), func(res mapping.Result) {
		for chunk := mapping.FetchChunk(res); chunk.Ptr != nil; chunk = mapping.FetchChunk(res) {
			rows = appendTexts(rows, chunk)
			mapping.DestroyDataChunk(&chunk)
		}
	})
	return rows, err
}

func (c *conn) run(ctx context.Context, statement string, read func(mapping.Result)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		mapping.Interrupt(c.raw)
		close(interrupted)
	})
	defer func() {
		if !stop() {
			<-interrupted // the interrupt must not hit a later statement
		}
	}()
	var res mapping.Result
	defer mapping.DestroyResult(&res)
	if mapping.Query(c.raw, statement, &res) == mapping.StateError {
		return &sqlError{mapping.ResultErrorType(&res), mapping.ResultError(&res)}
	}
	read(res)
	return nil
}

func appendTexts(rows [][]string, chunk mapping.DataChunk) [][]string {
	size, width := int(mapping.DataChunkGetSize(chunk)), int(mapping.DataChunkGetColumnCount(chunk))
	for i := range size {
		row := make([]string, width)
		for j := range row {
			vector := mapping.DataChunkGetVector(chunk, mapping.IdxT(j))
			row[j] = mapping.StringTData(&unsafe.Slice((*mapping.StringT)(mapping.VectorGetData(vector)), size)[i])
		}
		rows = append(rows, row)
	}
	return rows
}

// literal returns a text as SQL. It must have no NUL.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
