package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"syscall"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/servertest"
)

// database is a kind of target with a private server.
type database interface {
	// start starts the server, and returns the address that open accepts.
	start(ctx context.Context) (address string, err error)
	// Shutdown kills the server, and Hang stops its processes. Each returns the function that makes the server work again.
	Shutdown() (restore func() error, err error)
	Hang() (restore func() error, err error)
	// Close stops the server and removes its files.
	Close()

	// open opens the target of a node. The server may be absent.
	open(address string) (target, error)
	// checks are the actions of ALTER TABLE that make the tables refuse rows of the kinds from bigLevel on, by sink.
	checks() [sinks]string
	// text returns the expression for the text of a column as [value] has it.
	text(column string, t datatype.Type) string
	// run runs a statement, and calls each with the texts of a row. NULL is nil.
	run(ctx context.Context, statement string, each func(cells []*string)) error
}

type target interface {
	driver.Target
	driver.SQLTarget
	io.Closer
}

// databases are the values of -target.
var databases = map[string]func() database{
	"postgres":   func() database { return &postgresServer{} },
	"mysql":      func() database { return &mysqlServer{} },
	"clickhouse": func() database { return &clickhouseServer{} },
}

// hang stops a server that is one process.
func hang(s *servertest.Server) (restore func() error, err error) {
	return func() error { return s.Signal(syscall.SIGCONT) }, s.Signal(syscall.SIGSTOP)
}

// runSQL implements run with a connection pool, which it closes.
func runSQL(ctx context.Context, db *sql.DB, statement string, each func(cells []*string)) (err error) {
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	cells := make([]*string, len(names))
	into := make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		each(cells)
	}
	return rows.Err()
}
