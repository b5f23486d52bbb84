package collectortest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/collector/pdata/plog"
)

// postgresTable is a table of PostgreSQL. Each batch is one COPY, which is a transaction, in the binary form, so that the server need not parse
// it, and pgx need not look at each value.
type postgresTable struct {
	pool *pgxpool.Pool
	idle sync.Pool // of *copyMaker
}

// copyMaker has the memory for a COPY.
type copyMaker struct {
	rowBatch
	data []byte
}

func openPostgresTable(where string, consumers int) (table, error) {
	cfg, err := pgxpool.ParseConfig(where)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(consumers)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	return &postgresTable{pool: pool, idle: sync.Pool{New: func() any { return new(copyMaker) }}}, nil
}

func (t *postgresTable) put(ctx context.Context, batch plog.Logs) error {
	m, ok := t.idle.Get().(*copyMaker)
	if !ok {
		return errors.New("no memory for a COPY")
	}
	defer t.idle.Put(m)
	rows := m.fill(batch)
	m.data = append(m.data[:0], copyBegin...)
	for i := range rows {
		m.data = rows[i].appendCopy(m.data)
	}
	m.data = append(m.data, copyEnd...)
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(m.data), "COPY "+tableName+" FROM STDIN (FORMAT binary)")
	return err
}

func (t *postgresTable) close() error {
	t.pool.Close()
	return nil
}

// The binary form of COPY: its header and trailer, NULL as a length, and the microseconds from 1970 to 2000, PostgreSQL's epoch.
const (
	copyBegin = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyEnd   = "\xff\xff"
	null      = math.MaxUint32
	epoch     = 946_684_800_000_000
)

// appendCopy appends the row, with its cells in the order of LogsTable.
func (r *logRow) appendCopy(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, logColumns)
	dst = appendTimes(dst, r.Timestamp, r.TimeUnixNano)
	dst = appendTimes(dst, r.ObservedTimestamp, r.ObservedTimeUnixNano)
	dst = appendBytes(dst, r.TraceId)
	dst = appendBytes(dst, r.SpanId)
	dst = appendInt(dst, *r.TraceFlags)
	dst = appendText(dst, r.SeverityText)
	dst = appendInt(dst, *r.SeverityNumber)
	dst = appendText(dst, r.ServiceName)
	dst = appendBytes(dst, r.Body)
	dst = appendText(dst, r.ResourceSchemaUrl)
	dst = appendBytes(dst, r.ResourceAttributes)
	dst = appendText(dst, r.ScopeSchemaUrl)
	dst = appendText(dst, r.ScopeName)
	dst = appendText(dst, r.ScopeVersion)
	dst = appendBytes(dst, r.ScopeAttributes)
	dst = appendBytes(dst, r.LogAttributes)
	return appendText(dst, r.EventName)
}

func appendTimes(dst []byte, micros, nanos int64) []byte {
	if nanos == 0 {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, null), null)
	}
	return appendInt(appendInt(dst, micros-epoch), nanos)
}

func appendInt(dst []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, 8), uint64(n))
}

func appendText(dst []byte, s string) []byte {
	if s == "" {
		return binary.BigEndian.AppendUint32(dst, null)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}

func appendBytes(dst, s []byte) []byte {
	if s == nil {
		return binary.BigEndian.AppendUint32(dst, null)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}
