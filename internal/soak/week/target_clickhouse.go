package main

import (
	"context"
	"fmt"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/clickhouse"
	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
)

type clickhouseServer struct{ clickhousetest.Server }

func (s *clickhouseServer) start(context.Context) (string, error) {
	if err := s.Start(); err != nil {
		return "", err
	}
	_, err := s.Query("CREATE DATABASE week")
	return s.URL("week"), err
}

func (s *clickhouseServer) Hang() (restore func() error, err error) { return hang(&s.Server.Server) }

func (*clickhouseServer) open(address string) (target, error) {
	return clickhouse.Open(address, clickhouse.Options{})
}

func (*clickhouseServer) checks() [sinks]string {
	const check = "ADD CONSTRAINT %[1]s CHECK ifNull(%[1]s %[2]s, true)"
	return [sinks]string{
		fmt.Sprintf(check, "level", "<= 32767") + ", " + fmt.Sprintf(check, "amount", ">= 0"), fmt.Sprintf(check, "note", `NOT LIKE 'a\0%'`),
	}
}

func (*clickhouseServer) text(column string, t datatype.Type) string {
	if _, scale, ok := t.DecimalOf(); ok {
		return fmt.Sprintf("toDecimalString(%s, %d)", column, scale)
	}
	switch t {
	case datatype.Timestamp:
		return "formatDateTime(" + column + ", '%Y-%m-%dT%H:%i:%S.%fZ', 'UTC')"
	case datatype.Bytes:
		return "base64Encode(" + column + ")"
	}
	return "toString(" + column + ")"
}

// run has all rows in memory at once.
func (s *clickhouseServer) run(_ context.Context, statement string, each func(cells []*string)) error {
	rows, err := s.Query(statement)
	for _, row := range rows {
		each(row)
	}
	return err
}
