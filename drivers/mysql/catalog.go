package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// session describes the server, as the server reports it.
type session struct {
	mariaDB     bool
	localInfile bool
	maxPacket   int
	flush       int // innodb_flush_log_at_trx_commit
	lowerNames  int // lower_case_table_names
}

func readSession(ctx context.Context, q querier) (s session, err error) {
	var version string
	err = q.QueryRowContext(ctx, "SELECT VERSION(), @@local_infile, @@max_allowed_packet, @@innodb_flush_log_at_trx_commit, @@lower_case_table_names").
		Scan(&version, &s.localInfile, &s.maxPacket, &s.flush, &s.lowerNames)
	s.mariaDB = strings.Contains(version, "MariaDB")
	return s, err
}

// check refuses a table whose name the server does not keep apart from others, and a server that loses what Import calls durable.
func (s session) check(t *Target, id string) error {
	switch {
	case s.lowerNames != 0 && id != strings.ToLower(id):
		return driver.Permanent(fmt.Errorf("the server has lower_case_table_names=%d, so it does not keep the case of %q: use a name of a table without capitals", s.lowerNames, id))
	case s.flush != 1 && !t.options.LazyLog:
		return driver.Permanent(fmt.Errorf("the server has innodb_flush_log_at_trx_commit=%d and may lose imported rows in a crash: set it to 1, or accept the loss with LazyLog", s.flush))
	}
	return nil
}

// collation returns the collation of our texts, which compares byte by byte, with spaces at the end.
func (s session) collation() string {
	if s.mariaDB {
		return "utf8mb4_nopad_bin"
	}
	return "utf8mb4_0900_bin"
}

// jsonCollation is the collation of JSON in MariaDB.
const jsonCollation = "utf8mb4_bin"

// column is a column of a table as the server describes it.
type column struct {
	name      string
	typeName  string // as the server writes it, in lower case
	collation string // "" if it is no text
	comment   string
	json      bool // a text that is checked to be JSON
	required  bool
	filled    bool // by the database, if a row has no value for it (default, auto_increment, generated)
	auto      bool // auto_increment: NULL is replaced too
	key       bool // a column of Options.Keys
}

// relation is a table as the server describes it.
type relation struct {
	columns []column
	// options is what follows the columns in the statement that creates the table.
	options string
}

// relation reads a table. The result is nil if it is absent.
func (t *Target) relation(ctx context.Context, q querier, id string) (*relation, error) {
	rows, err := q.QueryContext(ctx, "SHOW CREATE TABLE "+t.table(id))
	if number(err) == noSuchTable {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	if len(names) != 2 {
		return nil, driver.Permanent(fmt.Errorf("%s is not a table", t.table(id)))
	}
	var name, create string
	for rows.Next() {
		if err := rows.Scan(&name, &create); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	r := &relation{options: create[strings.LastIndex(create, "\n) ")+1:]}
	// Only such an engine stores the rows and the id of a file in one transaction.
	if !strings.HasPrefix(r.options, ") ENGINE=InnoDB") {
		return nil, driver.Permanent(fmt.Errorf("the table %s is not of the engine InnoDB, so a file would not be stored as a whole: run ALTER TABLE %s ENGINE=InnoDB", t.table(id), t.table(id)))
	}
	r.columns, err = t.columns(ctx, q, id, create)
	return r, err
}

func (t *Target) columns(ctx context.Context, q querier, id, create string) (columns []column, err error) {
	rows, err := q.QueryContext(ctx, "SHOW FULL COLUMNS FROM "+t.table(id))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c column
		var null, key, extra, privileges string
		var collation, value sql.NullString
		if err := rows.Scan(&c.name, &c.typeName, &collation, &null, &key, &value, &extra, &privileges, &c.comment); err != nil {
			return nil, err
		}
		extra = strings.ToUpper(extra)
		c.typeName, c.collation, c.required = strings.ToLower(c.typeName), collation.String, null == "NO"
		c.auto = strings.Contains(extra, "AUTO_INCREMENT")
		c.filled = value.Valid || c.auto || strings.Contains(extra, "GENERATED")
		c.key = slices.Contains(t.options.Keys[id], c.name)
		c.json = c.typeName == "json" || c.typeName == "longtext" && c.collation == jsonCollation && strings.Contains(create, "json_valid("+quote(c.name)+")")
		columns = append(columns, c)
	}
	return columns, rows.Err()
}

var sized = regexp.MustCompile(`^(\w+)\((\d+)(?:,(\d+))?\)$`)

// size returns a type without its size, and the size, or zeros if it has none.
func (c column) size() (name string, n, scale int) {
	m := sized.FindStringSubmatch(c.typeName)
	if m == nil {
		return c.typeName, 0, 0
	}
	n, _ = strconv.Atoi(m[2])
	scale, _ = strconv.Atoi(m[3])
	return m[1], n, scale
}

// exact reports whether texts of the column are compared byte by byte, as in the columns that the driver creates.
func (c column) exact() bool {
	return c.collation == "utf8mb4_nopad_bin" || c.collation == "utf8mb4_0900_bin"
}

// dataType returns the type whose values the column holds. A type that is none of ours has the name that the server gives it.
func (c column) dataType() datatype.Type {
	if c.json {
		return datatype.JSON
	}
	switch name, n, scale := c.size(); name {
	case "mediumtext":
		if c.exact() {
			return datatype.Untyped
		}
	case "longtext":
		if c.exact() {
			return datatype.String
		}
	case "tinyint":
		if n == 1 {
			return datatype.Bool
		}
	case "bigint": // with a size in MariaDB, where unsigned is a part of the name
		return datatype.Int64
	case "double":
		if n == 0 { // with a size it rounds
			return datatype.Float64
		}
	case "decimal":
		if n > 0 {
			return datatype.Decimal(n, scale)
		}
	case "datetime":
		if n == 6 {
			return datatype.Timestamp
		}
	case "date":
		return datatype.Date
	case "uuid":
		return datatype.UUID
	case "char":
		if n == 36 && strings.HasPrefix(c.collation, "ascii") {
			return datatype.UUID
		}
	case "longblob":
		return datatype.Bytes
	}
	return datatype.Type(c.typeName)
}

// takes reports whether the column holds what values of a type are, though its type is another. CHAR and ENUM are left out, because they
// change some texts.
func (c column) takes(t datatype.Type) bool {
	name, n, _ := c.size()
	switch t {
	case datatype.String, datatype.Untyped:
		return name == "varchar" || name == "tinytext" || name == "text" || (name == "mediumtext" || name == "longtext") && !c.exact() && !c.json
	case datatype.Bytes:
		return name == "varbinary" || name == "tinyblob" || name == "blob" || name == "mediumblob"
	case datatype.UUID:
		return name == "char" && n == 36 || name == "binary" && n == 16
	}
	return false
}

// limit returns how long a value of the column may be, in characters or in bytes, or 0 for no bound below that of a message.
func (c column) limit() (characters, bytes int) {
	switch name, n, _ := c.size(); name {
	case "varchar":
		return n, 0
	case "varbinary":
		return 0, n
	case "tinytext", "tinyblob":
		return 0, 1<<8 - 1
	case "text", "blob":
		return 0, 1<<16 - 1
	case "mediumtext", "mediumblob":
		return 0, 1<<24 - 1
	}
	return 0, 0
}

// fit compares a table with its columns by [driver.Table.Fit]. have are the columns of the table that it counts, want the required columns. A
// column that the database fills is not counted if the mapping lacks it.
func fit(t driver.Table, columns []column) (counted []column, have, want []datatype.Column, err error) {
	for _, c := range columns {
		i := slices.IndexFunc(t.Columns, func(w datatype.Column) bool { return w.Name == c.name })
		if i < 0 && t.Extend {
			i = slices.IndexFunc(t.Columns, func(w datatype.Column) bool { return strings.EqualFold(w.Name, c.name) })
		}
		if i < 0 && c.filled {
			continue
		}
		h := datatype.Column{Name: c.name, Type: c.dataType(), Required: c.required}
		if i >= 0 {
			if c.takes(t.Columns[i].Type) {
				h.Type = t.Columns[i].Type
			}
			if (c.key || c.filled) && !c.auto { // a NULL is a refused row, but auto_increment would replace it
				h.Required = h.Required && t.Columns[i].Required
			}
		}
		counted, have = append(counted, c), append(have, h)
	}
	want, err = t.Fit(have)
	return counted, have, want, err
}
