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
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// Query implements [driver.Querier]: the rows with the latest times if the sorting key of a new table begins with a time, which costs little, and
// otherwise the rows of the last files of an engine.
func (t *Target) Query(table driver.Table) (language, query string) {
	by := quote(marker)
	if first := t.orderColumns(table.Columns); len(first) > 0 && first[0].Type == datatype.Timestamp {
		by = quote(first[0].Name)
	}
	return "ClickHouse", "SELECT * EXCEPT " + quote(marker) + " FROM " + t.table(table.ID) + " ORDER BY " + by + " DESC LIMIT 20"
}

const (
	// tailParts bounds the parts of the table in which rows are looked for.
	tailParts = 50
	// tailAttempts is how often rows are looked for, because the server may merge the parts meanwhile.
	tailAttempts = 3
	// tailTime bounds a query if the context has no deadline.
	tailTime = 5 * time.Second
)

// Tail implements [driver.Tailer]. It reads the parts of the table with the newest rows. Within a part, the rows are in the order of the ids of their
// files, which ascend with the imports of an engine. The order of rows of a file is that of the sorting key. Rows of several engines in a merged part
// are in the order of the engines, because ClickHouse does not keep the time of an insert.
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
		from, order, expected, imported, err := t.newestParts(ctx, table, r, n)
		if err != nil {
			return none, err
		}
		tail := sqltail.New(columns, sqltail.MaxBytes)
		rows, err := t.client.cells(ctx, sqltail.Query(columns, from, order, n, sqltail.MaxBytes), settings)
		if err != nil {
			return none, err
		}
		for _, row := range rows {
			if err := tail.Add(row); err != nil {
				return none, err
			}
		}
		if len(rows) >= expected || attempt == tailAttempts {
			return tail.End(imported)
		}
	}
}

// newestParts returns the parts of a table that have its newest n rows as SQL for FROM, the order of the rows, and how many rows are expected, at most
// n. imported is zero unless the newest part has the rows of one INSERT.
func (t *Target) newestParts(ctx context.Context, table string, r *relation, n int) (from string, order []string, expected int, imported time.Time, err error) {
	from = t.table(table)
	if r.marked {
		order = append(order, quote(marker))
	}
	by := "max_block_number" // it counts the INSERTs of the table
	if replicated(r.engine) {
		by = "modification_time" // the numbers count within a partition
	}
	parts, err := t.client.rows(ctx, fmt.Sprintf("SELECT name, rows, level, toUnixTimestamp(modification_time) FROM system.parts WHERE database = %s AND table = %s AND active AND rows > 0 ORDER BY %s DESC, name DESC LIMIT %d",
		literal(t.client.database), literal(table), by, tailParts))
	if code(err) == accessDenied { // the ids of the files are all that is left
		return from, append(order, "_part", "_part_offset"), 0, imported, nil
	}
	if err != nil {
		return "", nil, 0, imported, err
	}
	var names []string
	for i, part := range parts {
		var numbers [3]int64
		for j := range numbers {
			if numbers[j], err = strconv.ParseInt(part[j+1], 10, 64); err != nil {
				return "", nil, 0, imported, err
			}
		}
		if i == 0 && numbers[1] == 0 {
			imported = time.Unix(numbers[2], 0)
		}
		names = append([]string{literal(part[0])}, names...)
		if expected = min(n, expected+int(min(numbers[0], math.MaxInt32))); expected == n {
			break
		}
	}
	list := strings.Join(names, ", ")
	if list == "" {
		return from + " WHERE false", append(order, "_part"), 0, imported, nil
	}
	return from + " WHERE _part IN (" + list + ")", append(append([]string{"indexOf([" + list + "], _part)"}, order...), "_part_offset"), expected, imported, nil
}

// tailSettings are the settings of the query: it changes nothing, and the server ends it with the request, or in time.
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
