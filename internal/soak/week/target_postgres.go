package main

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
)

type postgresServer struct{ pgtest.Server }

func (s *postgresServer) start(context.Context) (string, error) { return s.Start() }

func (*postgresServer) open(address string) (target, error) {
	return postgres.Open(address, postgres.Options{})
}

// checks has none for a NUL, which PostgreSQL refuses in each text.
func (*postgresServer) checks() [sinks]string {
	return [sinks]string{typed: `ADD CHECK ("level" IS NULL OR "level"::smallint IS NOT NULL), ADD CHECK ("amount" >= 0)`}
}

func (*postgresServer) text(column string, t datatype.Type) string {
	switch t {
	case datatype.Timestamp:
		return `to_char(` + column + ` AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
	case datatype.Bytes:
		return "encode(" + column + ", 'base64')"
	}
	return column + "::text"
}

func (s *postgresServer) run(ctx context.Context, statement string, each func(cells []*string)) error {
	address, err := s.Start()
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	return runSQL(ctx, db, statement, each)
}
