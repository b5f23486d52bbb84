package main

import (
	"context"
	"errors"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/mysql"
	"github.com/forebay/forebay/drivers/mysql/mysqltest"
)

type mysqlServer struct{ mysqltest.Server }

func (s *mysqlServer) start(ctx context.Context) (string, error) {
	if err := s.Start(); err != nil {
		return "", err
	}
	db, err := s.Open("")
	if err != nil {
		return "", err
	}
	_, err = db.ExecContext(ctx, "CREATE DATABASE week")
	return s.URL("week"), errors.Join(err, db.Close())
}

func (s *mysqlServer) Hang() (restore func() error, err error) { return hang(&s.Server.Server) }

func (*mysqlServer) open(address string) (target, error) {
	return mysql.Open(address, mysql.Options{})
}

func (*mysqlServer) checks() [sinks]string {
	return [sinks]string{"ADD CHECK (`level` <= 32767), ADD CHECK (`amount` >= 0)", "ADD CHECK (HEX(`note`) NOT LIKE '6100%')"}
}

func (*mysqlServer) text(column string, t datatype.Type) string {
	switch t {
	case datatype.Bool:
		return "ELT(" + column + " + 1, 'false', 'true')"
	case datatype.Timestamp:
		return "REPLACE(CONCAT(" + column + ", 'Z'), ' ', 'T')"
	case datatype.Bytes:
		return "REPLACE(TO_BASE64(" + column + "), '\n', '')"
	}
	return "CAST(" + column + " AS CHAR)"
}

func (s *mysqlServer) run(ctx context.Context, statement string, each func(cells []*string)) error {
	db, err := mysql.DB(s.URL("week"))
	if err != nil {
		return err
	}
	return runSQL(ctx, db, statement, each)
}
