package clickhouse

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// column is a column of a table as the server describes it.
type column struct {
	name     string
	typeName string
	comment  string
	filled   bool // by the server, if a row has no value for it
	computed bool // cannot be inserted
}

// relation is a table as the server describes it.
type relation struct {
	columns   []column // without the marker
	engine    string
	partition string // the expression, "" for none
	comment   string
	ttl       bool
	views     bool   // materialized views read the inserted rows
	synced    bool   // an acknowledged INSERT survives a power cut
	window    int    // non_replicated_deduplication_window
	full      string // the engine with its arguments and settings
	marked    bool   // the table has the marker
}

var (
	windowSetting     = regexp.MustCompile(`\bnon_replicated_deduplication_window = (\d+)`)
	replicatedSetting = regexp.MustCompile(`\b(replicated_deduplication_window(?:_seconds)?) = (\d+)`)
)

// relation reads a table. The result is nil if it is absent.
func (t *Target) relation(ctx context.Context, id string) (*relation, error) {
	where := " WHERE database = " + literal(t.client.database) + " AND "
	// One query reads both halves, so that they are from nearly the same moment. The row of the table is first.
	rows, err := t.client.rows(ctx, "SELECT * EXCEPT place FROM (SELECT '' AS column_name, engine, engine_full, partition_key, comment, toString(notEmpty(dependencies_table)), toUInt64(0) AS place FROM system.tables"+where+"name = "+literal(id)+
		" UNION ALL SELECT name, type, default_kind, comment, '', '', position FROM system.columns"+where+"table = "+literal(id)+") ORDER BY place")
	if err != nil || len(rows) == 0 || rows[0][0] != "" {
		return nil, err
	}
	r := &relation{engine: rows[0][1], full: rows[0][2], partition: rows[0][3], comment: rows[0][4], ttl: strings.Contains(rows[0][2], " TTL "), views: rows[0][5] == "1"}
	r.synced = replicated(r.engine) || strings.Contains(rows[0][2], "fsync_after_insert = 1")
	if m := windowSetting.FindStringSubmatch(rows[0][2]); m != nil {
		r.window, _ = strconv.Atoi(m[1])
	}
	for _, row := range rows[1:] {
		if row[0] == marker {
			r.marked = true
			continue
		}
		c := column{name: row[0], typeName: row[1], comment: row[3], filled: row[2] != ""}
		c.computed = row[2] == "MATERIALIZED" || row[2] == "ALIAS"
		r.columns = append(r.columns, c)
	}
	if !knownEngine(r.engine) {
		return nil, driver.Permanent(fmt.Errorf("the table %s has the engine %s: only MergeTree and ReplacingMergeTree, with or without replication, keep each row of a file once. "+
			"Write to such a table, and let a materialized view feed this one", t.table(id), r.engine))
	}
	if len(t.client.hosts) > 1 && !replicated(r.engine) {
		return nil, driver.Permanent(fmt.Errorf("the table %s is not replicated, and the address has several hosts: each host would get some of the rows. "+
			"Use the engine Replicated%s, or one host", t.table(id), r.engine))
	}
	return r, nil
}

// forgets reports whether a server that is killed may lose a part whose token it remembers. Servers that share a table store both at once. Without a version,
// a retry must not send rows again that later rows may have replaced.
func (r *relation) forgets() bool {
	return !replicated(r.engine) && (r.engine == "MergeTree" || strings.HasPrefix(r.full, r.engine+"("))
}

// remembers reports whether the server keeps the tokens of a replicated table for as many blocks, and as long, as a retry repeats blocks.
func (t *Target) remembers(ctx context.Context, r *relation) bool {
	const window, seconds = "replicated_deduplication_window", "replicated_deduplication_window_seconds"
	rows, err := t.client.rows(ctx, "SELECT name, value FROM system.replicated_merge_tree_settings WHERE name IN ("+literal(window)+", "+literal(seconds)+")")
	if err != nil {
		return false // the account may not read it
	}
	have := make(map[string]int)
	for _, row := range rows {
		have[row[0]], _ = strconv.Atoi(row[1])
	}
	for _, m := range replicatedSetting.FindAllStringSubmatch(r.full, -1) {
		have[m[1]], _ = strconv.Atoi(m[2])
	}
	return have[window] >= resendWindow && have[seconds] >= int(resendFor.Seconds())
}

// base returns the type without LowCardinality and Nullable.
func (c column) base() (name string, nullable bool) {
	name = c.typeName
	for _, around := range []string{"LowCardinality(", "Nullable("} {
		if inner, found := strings.CutPrefix(name, around); found {
			name = strings.TrimSuffix(inner, ")")
			nullable = around == "Nullable("
		}
	}
	return name, nullable
}

// commentPrefix begins the comments of columns that store a different type as String.
const commentPrefix = "forebay: "

var (
	decimalType = regexp.MustCompile(`^Decimal\((\d+), (\d+)\)$`)
	timeType    = regexp.MustCompile(`^DateTime64\(6(, '[^']*')?\)$`)
)

// dataType returns the type whose values the column holds. A type that package datatype lacks has its name on the server.
func (c column) dataType() datatype.Type {
	name, _ := c.base()
	if mark, found := strings.CutPrefix(c.comment, commentPrefix); found && name == "String" {
		switch mark {
		case "untyped":
			return datatype.Untyped
		case string(datatype.JSON), string(datatype.Bytes):
			return datatype.Type(mark)
		}
	}
	if m := decimalType.FindStringSubmatch(name); m != nil {
		precision, _ := strconv.Atoi(m[1])
		scale, _ := strconv.Atoi(m[2])
		return datatype.Decimal(precision, scale)
	}
	if timeType.MatchString(name) {
		return datatype.Timestamp
	}
	if t, found := types[name]; found {
		return t
	}
	if strings.HasPrefix(name, "JSON(") {
		return datatype.JSON
	}
	return datatype.Type(c.typeName)
}

var types = map[string]datatype.Type{
	"String": datatype.String, "Bool": datatype.Bool, "Int64": datatype.Int64, "Float64": datatype.Float64, "Date32": datatype.Date, "UUID": datatype.UUID,
	"JSON": datatype.JSON,
}

// takes reports whether the column can store values of a type although it has a different type. This holds for a String column that the driver did not
// create.
func (c column) takes(t datatype.Type) bool {
	name, _ := c.base()
	return name == "String" && !strings.HasPrefix(c.comment, commentPrefix) && (t == datatype.Untyped && strings.HasPrefix(c.typeName, "LowCardinality(") || t == datatype.JSON || t == datatype.Bytes)
}

// fit compares a table with its columns by [driver.Table.Fit]. have are the counted columns of the table, and want are the
// columns that the table must have. A column that the server fills is not counted if the mapping lacks it.
func fit(t driver.Table, columns []column) (counted []column, have, want []datatype.Column, err error) {
	for _, c := range columns {
		i := slices.IndexFunc(t.Columns, func(w datatype.Column) bool { return w.Name == c.name })
		if i < 0 && t.Extend {
			i = slices.IndexFunc(t.Columns, func(w datatype.Column) bool { return strings.EqualFold(w.Name, c.name) })
		}
		if c.computed || i < 0 && c.filled {
			continue
		}
		_, nullable := c.base()
		h := datatype.Column{Name: c.name, Type: c.dataType(), Required: !nullable}
		if i >= 0 && c.takes(t.Columns[i].Type) {
			h.Type = t.Columns[i].Type
		}
		counted, have = append(counted, c), append(have, h)
	}
	want, err = t.Fit(have)
	return counted, have, want, err
}
