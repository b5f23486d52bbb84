package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// imports is the table of the imported files.
const imports = reserved + "imports"

// alterTimeout is how long a change of a table waits for it. All other users of the table wait for the change.
const alterTimeout = 2 * time.Second

// maxColumns is the greatest number of columns of a table of InnoDB.
const maxColumns = 1017

// tableExists is the number of the error about a table that was created meanwhile.
const tableExists = 1050

// Ensure implements [driver.Target].
func (t *Target) Ensure(ctx context.Context, table driver.Table) error {
	if err := t.check(table); err != nil {
		return err
	}
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return classify(err)
	}
	defer conn.Close()
	// A statement that changes tables commits by itself, so each change is one step, and a change that fails leaves those before it.
	for attempt := 0; ; attempt++ {
		err = t.ensure(ctx, conn, table)
		if n := number(err); n != tableExists && n != dupColumn || attempt == 3 {
			return classify(err)
		}
	}
}

func (t *Target) ensure(ctx context.Context, conn *sql.Conn, table driver.Table) error {
	s, err := readSession(ctx, conn)
	if err == nil {
		err = s.check(t, table.ID)
	}
	if err != nil {
		return err
	}
	changes, err := t.plan(ctx, conn, s, table)
	if err != nil || len(changes) == 0 {
		return err
	}
	return t.alone(ctx, conn, func() error {
		changes, err := t.plan(ctx, conn, s, table)
		if err != nil {
			return err
		}
		for _, change := range changes {
			if _, err := conn.ExecContext(ctx, change); err != nil {
				switch number(err) {
				case 1044, 1142, 1227:
					return driver.Permanent(fmt.Errorf("this account may not change the tables; grant it the right, or run: %s; %w", strings.Join(changes, "; "), err))
				case rowTooLarge:
					return driver.Permanent(fmt.Errorf("the columns of table %q do not fit into a row of InnoDB: remove columns from the mapping, or put several into one column of type json: %w", table.ID, err))
				case needsPrimaryKey:
					return driver.Permanent(fmt.Errorf("the server requires a primary key: name its columns in Keys: %w", err))
				}
				return err
			}
		}
		return nil
	})
}

// alone runs do while no other engine changes tables of the database. The lock ends with the connection at the latest.
func (t *Target) alone(ctx context.Context, conn *sql.Conn, do func() error) (err error) {
	sum := sha256.Sum256([]byte(t.database))
	name := "forebay:" + hex.EncodeToString(sum[:16])
	var locked sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, seconds(t.options.LockTimeout)).Scan(&locked); err != nil {
		return err
	}
	if locked.Int64 != 1 {
		return errors.New("another engine changes tables of the database")
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, e1 := conn.ExecContext(end, "DO RELEASE_LOCK(?)", name)
		_, e2 := conn.ExecContext(end, "SET lock_wait_timeout = "+seconds(t.options.LockTimeout))
		if e1 != nil || e2 != nil {
			discard(conn)
		}
	}()
	if _, err := conn.ExecContext(ctx, "SET lock_wait_timeout = "+seconds(alterTimeout)); err != nil {
		return err
	}
	return do()
}

// discard closes a connection instead of giving it back.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) }

// Extend implements [driver.Extender]. Tables are locked only if they lack something.
func (t *Target) Extend(ctx context.Context, table driver.Table) error { return t.Ensure(ctx, table) }

// plan returns the statements that a table and the table of imports need.
func (t *Target) plan(ctx context.Context, q querier, s session, table driver.Table) (changes []string, err error) {
	known, err := t.relation(ctx, q, imports)
	if err != nil {
		return nil, err
	}
	if known == nil {
		changes = append(changes, fmt.Sprintf("CREATE TABLE %s (file_id varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, "+
			"table_name varchar(64) NOT NULL, row_count bigint NOT NULL, imported_at datetime(6) NOT NULL, KEY (imported_at))%s", t.table(imports), s.storage()))
	}
	r, err := t.relation(ctx, q, table.ID)
	if err != nil {
		return nil, err
	}
	absent := r == nil
	if absent {
		r = new(relation)
	}
	_, have, want, err := fit(table, r.columns)
	if err != nil {
		return nil, err
	}
	// The server's error about this has different numbers for new tables and new columns, and no SQLSTATE.
	if n := len(r.columns) + len(want) - len(have); n > maxColumns {
		return nil, driver.Permanent(fmt.Errorf("table %q would have %d columns, and InnoDB stores at most %d: remove columns from the mapping, or put several into one column of type json", table.ID, n, maxColumns))
	}
	if absent {
		create, err := t.create(s, table, want)
		return append(changes, create), err
	}
	if err := t.checkKey(ctx, q, table.ID); err != nil {
		return nil, err
	}
	var parts []string
	for i, c := range want {
		switch {
		case i >= len(have):
			parts = append(parts, "ADD COLUMN "+t.definition(s, c, false))
		case have[i].Required && !c.Required:
			parts = append(parts, "MODIFY COLUMN "+nullable(r.columns[slices.IndexFunc(r.columns, func(h column) bool { return h.name == c.Name })]))
		}
	}
	if parts != nil {
		changes = append(changes, "ALTER TABLE "+t.table(table.ID)+" "+strings.Join(parts, ", "))
	}
	return changes, nil
}

// nullable returns the definition of a column that may be NULL from now on. A statement of MySQL repeats the whole definition.
func nullable(c column) string {
	s := quote(c.name) + " " + c.typeName
	if c.collation != "" {
		charset, _, _ := strings.Cut(c.collation, "_")
		s += " CHARACTER SET " + charset + " COLLATE " + c.collation
	}
	s += " NULL"
	if c.comment != "" {
		s += " COMMENT " + literal(c.comment)
	}
	if c.json && c.typeName != "json" {
		s += " CHECK (json_valid(" + quote(c.name) + "))"
	}
	return s
}

// checkKey refuses a table with Options.Keys whose unique keys are not this one, because an upsert would replace the row of another key.
func (t *Target) checkKey(ctx context.Context, q querier, id string) error {
	key := t.options.Keys[id]
	if key == nil {
		return nil
	}
	// The comparison of names in this schema ignores their case, so it is repeated.
	rows, err := q.QueryContext(ctx, `SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART IS NOT NULL FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX`, t.database, id)
	if err != nil {
		return err
	}
	defer rows.Close()
	unique := make(map[string][]string)
	for rows.Next() {
		var table, index string
		var name sql.NullString // NULL for an expression
		var part bool
		if err := rows.Scan(&table, &index, &name, &part); err != nil {
			return err
		}
		if table == id {
			if part {
				name.String += " (a part)"
			}
			unique[index] = append(unique[index], name.String)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	want := slices.Sorted(slices.Values(key))
	found := false
	for index, columns := range unique {
		slices.Sort(columns)
		if !slices.Equal(columns, want) {
			return driver.Permanent(fmt.Errorf("the table %s has the unique key %q in addition to the key of Keys: an upsert could replace another row. Drop the key, or leave the table out of Keys", t.table(id), index))
		}
		found = true
	}
	if !found {
		return driver.Permanent(fmt.Errorf("the table %s has no primary key of the columns %s, which Keys names: add it", t.table(id), quoteAll(key)))
	}
	return nil
}

// storage ends a statement that creates a table.
func (s session) storage() string {
	return " ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE " + s.collation()
}

// indexedPrefix is how many characters of a text an index has. More are slow, and not all row formats allow them.
const indexedPrefix = 191

func (t *Target) create(s session, table driver.Table, columns []datatype.Column) (string, error) {
	var parts []string
	key := t.options.Keys[table.ID]
	for _, c := range columns {
		parts = append(parts, t.definition(s, c, slices.Contains(key, c.Name)))
	}
	if key != nil {
		parts = append(parts, "PRIMARY KEY ("+quoteAll(key)+")")
	}
	for _, index := range t.options.Indexes {
		indexed, err := t.index(table, index)
		if err != nil {
			return "", err
		}
		parts = append(parts, indexed...)
	}
	create := "CREATE TABLE " + t.table(table.ID) + " (" + strings.Join(parts, ", ") + ")" + s.storage()
	if table.Creation != "" { // letters, digits and hyphens
		create += " " + creationComment(table.Creation)
	}
	return create, nil
}

// index returns the definition of an index of a new table, none if the table lacks one of its columns.
func (t *Target) index(table driver.Table, index []string) ([]string, error) {
	var names []string
	for _, name := range index {
		i := slices.IndexFunc(table.Columns, func(c datatype.Column) bool { return c.Name == name })
		if i < 0 {
			return nil, nil
		}
		part := quote(name)
		switch table.Columns[i].Type {
		case datatype.JSON:
			return nil, driver.Permanent(fmt.Errorf("mysql: Indexes has the column %q, which is json in the table %q: it cannot be indexed", name, table.ID))
		case datatype.String, datatype.Untyped, datatype.Bytes:
			if !slices.Contains(t.options.Keys[table.ID], name) {
				part += fmt.Sprintf("(%d)", indexedPrefix)
			}
		}
		names = append(names, part)
	}
	return []string{"INDEX (" + strings.Join(names, ", ") + ")"}, nil
}

// creationComment marks a table as created by a definition that may still fail.
func creationComment(creation string) string { return "COMMENT='forebay: created by " + creation + "'" }

// definition returns a column as a statement has it.
func (t *Target) definition(s session, c datatype.Column, key bool) string {
	def := quote(c.Name) + " " + t.typeName(s, c, key)
	if c.Required || key {
		def += " NOT NULL"
	} else {
		def += " NULL"
	}
	if c.Type == datatype.JSON && !s.mariaDB && !t.options.NativeJSON {
		def += " CHECK (json_valid(" + quote(c.Name) + "))"
	}
	return def
}

// keyLength is the length of texts and bytes in a key. An index has at most 3,072 bytes, three such texts.
const keyLength = 255

// typeName returns the type of new columns. The size of a text tells untyped columns from strings.
func (t *Target) typeName(s session, c datatype.Column, key bool) string {
	text := func(typ, collation string) string { return typ + " CHARACTER SET utf8mb4 COLLATE " + collation }
	switch c.Type {
	case datatype.Untyped, datatype.String:
		switch {
		case key:
			return text(fmt.Sprintf("varchar(%d)", keyLength), s.collation())
		case c.Type == datatype.Untyped:
			return text("mediumtext", s.collation())
		}
		return text("longtext", s.collation())
	case datatype.Bool:
		return "tinyint(1)"
	case datatype.Int64:
		return "bigint"
	case datatype.Float64:
		return "double"
	case datatype.Timestamp:
		return "datetime(6)"
	case datatype.Bytes:
		if key {
			return fmt.Sprintf("varbinary(%d)", keyLength)
		}
		return "longblob"
	case datatype.UUID:
		if !s.mariaDB {
			return "char(36) CHARACTER SET ascii COLLATE ascii_bin"
		}
	case datatype.JSON:
		if !s.mariaDB && !t.options.NativeJSON {
			return text("longtext", jsonCollation)
		}
	}
	return string(c.Type) // date, uuid, json, decimal(p,s)
}

// Uncreate implements [driver.Uncreator]. The mark is the comment of the table.
func (t *Target) Uncreate(ctx context.Context, tableID, creation string) (err error) {
	if creation == "" || checkName("table", tableID) != nil {
		return nil // Ensure has made no such table
	}
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return classify(err)
	}
	defer conn.Close()
	marked := func() (bool, error) {
		r, err := t.relation(ctx, conn, tableID)
		return r != nil && strings.Contains(r.options, creationComment(creation)), err
	}
	if found, err := marked(); err != nil || !found {
		return classify(err)
	}
	_, err = conn.ExecContext(ctx, "LOCK TABLES "+t.table(tableID)+" WRITE")
	if number(err) == noSuchTable {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	defer func() {
		if _, e := conn.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); e != nil {
			discard(conn)
		}
	}()
	if found, err := marked(); err != nil || !found { // dropped and created again meanwhile
		return classify(err)
	}
	var rows bool
	if err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+t.table(tableID)+")").Scan(&rows); err != nil || rows {
		return classify(err)
	}
	_, err = conn.ExecContext(ctx, "DROP TABLE "+t.table(tableID))
	return classify(err)
}
