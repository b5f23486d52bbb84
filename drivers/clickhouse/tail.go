package clickhouse

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// Query implements [driver.Querier]. The query returns the rows with the latest times if the sorting key of a new table begins with a time, which costs
// little, and otherwise the rows of the last files of an engine.
func (t *Target) Query(table driver.Table) (language, query string) {
	by := quote(marker)
	if first := t.orderColumns(table.Columns); len(first) > 0 && first[0].Type == datatype.Timestamp {
		by = quote(first[0].Name)
	}
	return "ClickHouse", "SELECT * EXCEPT " + quote(marker) + " FROM " + t.table(table.ID) + " ORDER BY " + by + " DESC LIMIT 20"
}

const (
	// maxTail bounds the rows, because the query names the place of each.
	maxTail = 2000
	// tailParts bounds the parts of the table in which rows are looked for.
	tailParts = 50
	// tailAttempts is how often rows are looked for, because the server may merge the parts meanwhile.
	tailAttempts = 10
	// tailTime bounds a query if the context has no deadline.
	tailTime = 5 * time.Second
)

// Tail implements [driver.Tailer]. It reads the parts of the table with the newest rows. Within a part, the rows are in the order of the ids of their
// files, which ascend with the imports of an engine. The rows of a file are in the order of the sorting key. Rows of several engines in a merged part
// are in the order of the engines, because ClickHouse does not keep the time of an insert. Tail returns 2,000 rows at most.
func (t *Target) Tail(ctx context.Context, table string, n int) (tail driver.Tail, err error) {
	if err := t.check(driver.Table{ID: table}); err != nil {
		return tail, err
	}
	tail, err = t.tail(ctx, table, n)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("read the end of %s: %w", t.table(table), err)
	}
	return tail, classify(err)
}

func (t *Target) tail(ctx context.Context, table string, n int) (none driver.Tail, err error) {
	n = min(n, maxTail)
	r, err := t.relation(ctx, table)
	if err != nil {
		return none, err
	}
	if r == nil {
		return none, fs.ErrNotExist
	}
	settings, err := t.tailSettings(ctx)
	if err != nil {
		return none, err
	}
	var columns []sqltail.Column
	for _, c := range r.columns {
		if !c.computed {
			columns = append(columns, c.tailColumn())
		}
	}
	for attempt := 1; ; attempt++ {
		parts, listed, imported, err := t.newestParts(ctx, table, r)
		if err != nil {
			return none, err
		}
		places, err := t.places(ctx, table, r, parts, n, settings)
		if err != nil {
			return none, err
		}
		if int64(len(places)) < min(int64(n), listed) && attempt < tailAttempts {
			continue // a merge has replaced a part since it was listed
		}
		tail := sqltail.New(columns, sqltail.MaxBytes)
		if len(places) == 0 {
			return tail.End(imported)
		}
		var tuples, names []string
		for _, p := range places {
			tuples = append(tuples, "("+literal(p.part)+", "+p.offset+")")
			if name := literal(p.part); !slices.Contains(names, name) {
				names = append([]string{name}, names...)
			}
		}
		from := t.table(table) + " WHERE (_part, _part_offset) IN (" + strings.Join(tuples, ", ") + ")"
		order := append([]string{"indexOf([" + strings.Join(names, ", ") + "], _part)"}, r.tailOrder()...)
		rows, err := t.client.cells(ctx, sqltail.Query(columns, from, order, n, sqltail.MaxBytes), settings)
		if err != nil {
			return none, err
		}
		for _, row := range rows {
			if err := tail.Add(row); err != nil {
				return none, err
			}
		}
		if len(rows) == len(places) || attempt == tailAttempts {
			return tail.End(imported)
		}
	}
}

// tailOrder is the order of the rows of a part.
func (r *relation) tailOrder() (order []string) {
	if r.marked {
		order = append(order, quote(marker))
	}
	return append(order, "_part_offset")
}

// newestParts returns the names of the parts of a table with the newest rows, the newest part first, and the number of their rows with deleted ones.
// imported is zero unless the newest part has the
// rows of one INSERT. The name "" stands for all parts if the account may not read their list.
func (t *Target) newestParts(ctx context.Context, table string, r *relation) (names []string, listed int64, imported time.Time, err error) {
	by := "max_block_number" // it counts the INSERTs of the table
	if replicated(r.engine) {
		by = "modification_time" // the numbers count within a partition
	}
	parts, err := t.client.rows(ctx, fmt.Sprintf("SELECT name, level, toUnixTimestamp(modification_time), rows FROM system.parts WHERE database = %s AND table = %s AND active AND rows > 0 ORDER BY %s DESC, name DESC LIMIT %d",
		literal(t.client.database), literal(table), by, tailParts))
	if code(err) == accessDenied {
		return []string{""}, 0, imported, nil
	}
	if err != nil {
		return nil, 0, imported, err
	}
	for i, part := range parts {
		names = append(names, part[0])
		rows, err := strconv.ParseInt(part[3], 10, 64)
		if err != nil {
			return nil, 0, imported, err
		}
		listed += rows
		if i > 0 || part[1] != "0" {
			continue
		}
		seconds, err := strconv.ParseInt(part[2], 10, 64)
		if err != nil {
			return nil, 0, imported, err
		}
		imported = time.Unix(seconds, 0)
	}
	return names, listed, imported, nil
}

// place is where a row is.
type place struct{ part, offset string }

// places returns the places of the newest n rows. ClickHouse reads one column for them, and few rows by their places.
func (t *Target) places(ctx context.Context, table string, r *relation, parts []string, n int, settings map[string]string) (places []place, err error) {
	for _, part := range parts {
		if len(places) >= n {
			break
		}
		sql := "SELECT _part, _part_offset FROM " + t.table(table)
		if part != "" {
			sql += " WHERE _part = " + literal(part)
		}
		rows, err := t.client.rows(ctx, sql+" ORDER BY "+strings.Join(r.tailOrder(), " DESC, ")+" DESC LIMIT "+strconv.Itoa(n-len(places)), settings)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			places = append(places, place{row[0], row[1]})
		}
	}
	return places, nil
}

// tailSettings are the settings of the query. It changes nothing, and the server ends it with the request, or in time.
func (t *Target) tailSettings(ctx context.Context) (map[string]string, error) {
	limit := tailTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	settings := map[string]string{
		"readonly": "1", "cancel_http_readonly_queries_on_client_close": "1", "max_execution_time": strconv.Itoa(max(1, int(math.Ceil(limit.Seconds())))),
	}
	return settings, t.addSettings(ctx, settings, current)
}

// tailColumn returns how a column is read. The texts are in base64, because a response of JSON has no other bytes.
func (c column) tailColumn() sqltail.Column {
	typ := c.dataType()
	text := func(name string) string { return "toString(" + name + ")" }
	switch typ {
	case datatype.Timestamp:
		text = func(name string) string { return "formatDateTime(" + name + ", '%Y-%m-%dT%H:%i:%S.%fZ', 'UTC')" }
	case datatype.Bytes:
		text = func(name string) string { return "base64Encode(" + name + ")" }
	}
	if _, scale, ok := typ.DecimalOf(); ok {
		text = func(name string) string { return fmt.Sprintf("toDecimalString(%s, %d)", name, scale) }
	}
	_, nullable := c.base()
	return sqltail.Column{
		Column: datatype.Column{Name: c.name, Type: typ, Required: !nullable}, Name: quote(c.name),
		Text: func(name string) string { return "base64Encode(" + text(name) + ")" },
		Size: func(name string) string { return "byteSize(" + name + ")" },
	}
}

// cells runs a query of [sqltail.Query] and decodes its texts. NULL is nil.
func (c *client) cells(ctx context.Context, sql string, settings map[string]string) (rows [][][]byte, err error) {
	settings = maps.Clone(settings)
	settings["default_format"] = "JSONCompactEachRow"
	answer, _, err := c.send(ctx, statement{settings: settings, body: text(sql)})
	if err != nil {
		return nil, err
	}
	for in := json.NewDecoder(bytes.NewReader(answer)); ; {
		var texts []*string
		if err := in.Decode(&texts); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("the response of the server cannot be read: %w", err)
		}
		row := make([][]byte, len(texts))
		for i, text := range texts {
			switch {
			case text == nil:
				continue
			case i == 0: // a number
				row[i] = []byte(*text)
				continue
			}
			if row[i], err = base64.StdEncoding.AppendDecode([]byte{}, []byte(*text)); err != nil {
				return nil, fmt.Errorf("the response of the server cannot be read: %w", err)
			}
		}
		rows = append(rows, row)
	}
}
