package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// imports is the table of the imported files.
const imports = reserved + "imports"

// alterTimeout is how long a change of a table waits for it. All other users of the table wait for the change.
const alterTimeout = 2 * time.Second

// Ensure implements [driver.Target].
func (t *Target) Ensure(ctx context.Context, table driver.Table) error {
	if err := t.check(table); err != nil {
		return err
	}
	return t.transaction(ctx, t.options.LockTimeout, time.Minute, func(tx pgx.Tx) error {
		changes, err := t.plan(ctx, tx, table)
		if err != nil || len(changes) == 0 {
			return err
		}
		// One at a time in a schema: CREATE TABLE IF NOT EXISTS fails when two run at once.
		if _, err := tx.Exec(ctx, `SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))`, t.table(imports)); err != nil {
			return err
		}
		if changes, err = t.plan(ctx, tx, table); err != nil {
			return err
		}
		if err := t.set(ctx, tx, alterTimeout, time.Minute); err != nil {
			return err
		}
		for _, change := range changes {
			if _, err := tx.Exec(ctx, change); err != nil {
				if sqlState(err) == insufficientPrivilege {
					return driver.Permanent(fmt.Errorf("this user may not change the schema; run as the owner: %s; %w", strings.Join(changes, "; "), err))
				}
				return err
			}
		}
		return nil
	})
}

// Extend implements [driver.Extender]. Tables are locked only if they lack something.
func (t *Target) Extend(ctx context.Context, table driver.Table) error { return t.Ensure(ctx, table) }

// plan returns the statements that a table and the table of imports need.
func (t *Target) plan(ctx context.Context, tx pgx.Tx, table driver.Table) (changes []string, err error) {
	known, err := t.columns(ctx, tx, imports)
	if err != nil {
		return nil, err
	}
	if known == nil {
		changes = append(changes, fmt.Sprintf("CREATE TABLE %s (file_id text PRIMARY KEY, table_name text NOT NULL, rows bigint NOT NULL, imported_at timestamptz NOT NULL DEFAULT now())",
			t.table(imports)))
	}
	columns, err := t.columns(ctx, tx, table.ID)
	if err != nil {
		return nil, err
	}
	_, have, want, err := fit(table, columns)
	if err != nil {
		return nil, err
	}
	if columns == nil {
		created, err := t.create(table, want)
		return append(changes, created...), err
	}
	var parts []string
	for i, c := range want {
		switch {
		case i >= len(have):
			parts = append(parts, "ADD COLUMN "+t.definition(c))
		case have[i].Required && !c.Required:
			parts = append(parts, "ALTER COLUMN "+quote(have[i].Name)+" DROP NOT NULL")
		}
	}
	if parts != nil {
		changes = append(changes, "ALTER TABLE "+t.table(table.ID)+" "+strings.Join(parts, ", "))
	}
	return changes, nil
}

func (t *Target) create(table driver.Table, columns []datatype.Column) ([]string, error) {
	var parts []string
	for _, c := range columns {
		parts = append(parts, t.definition(c))
	}
	if key := t.options.Keys[table.ID]; key != nil {
		parts = append(parts, "PRIMARY KEY ("+quoteAll(key)+")")
	}
	changes := []string{"CREATE TABLE " + t.table(table.ID) + " (" + strings.Join(parts, ", ") + ")"}
	if table.Creation != "" { // letters, digits and hyphens
		changes = append(changes, "COMMENT ON TABLE "+t.table(table.ID)+" IS '"+creationComment(table.Creation)+"'")
	}
	for _, index := range t.options.Indexes {
		indexed, err := t.index(table.ID, index, columns)
		if err != nil {
			return nil, err
		}
		changes = append(changes, indexed...)
	}
	return changes, nil
}

// index returns the statement that creates an index of a new table, none if the table lacks one of its columns.
func (t *Target) index(table string, index []string, columns []datatype.Column) ([]string, error) {
	for _, name := range index {
		i := slices.IndexFunc(columns, func(c datatype.Column) bool { return c.Name == name })
		if i < 0 {
			return nil, nil
		}
		if columns[i].Type == datatype.JSON && !t.options.JSONB {
			return nil, driver.Permanent(fmt.Errorf("postgres: Indexes has the column %q, which is json in the table %q: PostgreSQL cannot index it", name, table))
		}
	}
	return []string{"CREATE INDEX ON " + t.table(table) + " (" + quoteAll(index) + ")"}, nil
}

// creationComment marks a table as created by a definition that may still fail.
func creationComment(creation string) string { return "forebay: created by " + creation }

// definition returns a column as a statement has it.
func (t *Target) definition(c datatype.Column) string {
	s := quote(c.Name) + " " + t.typeName(c.Type)
	if c.Required {
		s += " NOT NULL"
	}
	return s
}

// typeName returns the type of new columns. varchar without a length differs from text in its name alone. It tells untyped columns
// from strings.
func (t *Target) typeName(typ datatype.Type) string {
	switch typ {
	case datatype.Untyped:
		return "varchar"
	case datatype.String:
		return "text"
	case datatype.Int64:
		return "bigint"
	case datatype.Float64:
		return "double precision"
	case datatype.Timestamp:
		return "timestamptz"
	case datatype.Bytes:
		return "bytea"
	case datatype.JSON:
		if t.options.JSONB {
			return "jsonb"
		}
	}
	if p, s, ok := typ.DecimalOf(); ok {
		return fmt.Sprintf("numeric(%d,%d)", p, s)
	}
	return string(typ) // bool, date, uuid, json
}

// Uncreate implements [driver.Uncreator]. The mark is the comment of the table.
func (t *Target) Uncreate(ctx context.Context, tableID, creation string) error {
	if creation == "" || checkName("table", tableID) != nil {
		return nil // Ensure has made no such table
	}
	return t.transaction(ctx, alterTimeout, time.Minute, func(tx pgx.Tx) error {
		marked := func() (found bool, err error) {
			err = tx.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $1 AND c.relname = $2 AND pg_catalog.obj_description(c.oid, 'pg_class') = $3`,
				t.options.Schema, tableID, creationComment(creation)).Scan(&found)
			return found, err
		}
		if found, err := marked(); err != nil || !found {
			return err
		}
		if _, err := tx.Exec(ctx, "LOCK TABLE "+t.table(tableID)+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		if found, err := marked(); err != nil || !found { // dropped and created again meanwhile
			return err
		}
		var rows bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+t.table(tableID)+")").Scan(&rows); err != nil || rows {
			return err
		}
		_, err := tx.Exec(ctx, "DROP TABLE "+t.table(tableID))
		return err
	})
}
