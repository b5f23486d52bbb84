package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// ensures limits how often one Ensure looks at a table, because several engines may change it at the same time.
const ensures = 10

// Ensure implements [driver.Target]. It adds the column with the ids of files, and the deduplication window, to a table that lacks them.
func (t *Target) Ensure(ctx context.Context, table driver.Table) error {
	if err := t.check(table); err != nil {
		return err
	}
	for range ensures {
		changes, err := t.plan(ctx, table)
		if err != nil {
			return classify(err)
		}
		if len(changes) == 0 {
			return t.ensureVoids(ctx)
		}
		for _, change := range changes {
			if err := t.change(ctx, change); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("clickhouse: other programs keep changing the table %s", t.table(table.ID))
}

// Check compares the table with its columns, as Ensure or, with table.Extend, Extend does, and changes nothing. An absent table fits. It also returns
// errors for which Import would hold a file, which are about the engine of the table, and names that the server would not keep.
func (t *Target) Check(ctx context.Context, table driver.Table) error {
	err := t.check(table)
	if err == nil {
		_, err = t.plan(ctx, table)
	}
	return classify(err)
}

// change runs a statement that changes the tables.
func (t *Target) change(ctx context.Context, sql string) error {
	err := t.client.exec(ctx, sql)
	if c := code(err); c == accessDenied || c == readOnly {
		err = driver.Permanent(fmt.Errorf("this account may not change the tables: grant it the right, or run: %s; %w", sql, err))
	}
	return classify(err)
}

// Extend implements [driver.Extender].
func (t *Target) Extend(ctx context.Context, table driver.Table) error { return t.Ensure(ctx, table) }

// ensureVoids creates the table of the files that are ruled out, once.
func (t *Target) ensureVoids(ctx context.Context) error {
	t.mu.Lock()
	known := t.voids
	t.mu.Unlock()
	if known {
		return nil
	}
	err := t.change(ctx, "CREATE TABLE IF NOT EXISTS "+t.table(voids)+t.onCluster()+
		" (file_id String, table_name String, at DateTime64(6, 'UTC') DEFAULT now64(6)) ENGINE = "+voidsEngine(t.options.Engine)+" ORDER BY file_id")
	if err == nil {
		t.setVoids(true)
	}
	return err
}

// keeperPath matches the first two arguments of an engine that replicates, which are a path in Keeper and the name of the replica.
var keeperPath = regexp.MustCompile(`^\w+\s*\(\s*('(?:[^'\\]|\\.)*'\s*,\s*'(?:[^'\\]|\\.)*')`)

// voidsEngine returns the engine of the table voids, which is on the servers of the tables with rows. Each table needs its own path.
func voidsEngine(engine string) string {
	for _, kind := range []string{"Replicated", "Shared"} {
		if !strings.HasPrefix(engine, kind) {
			continue
		}
		if m := keeperPath.FindStringSubmatch(engine); m != nil && (strings.Contains(m[1], "{table}") || strings.Contains(m[1], "{uuid}")) {
			return kind + "MergeTree(" + m[1] + ")"
		}
		return kind + "MergeTree"
	}
	return "MergeTree"
}

func (t *Target) setVoids(known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.voids = known
}

func (t *Target) onCluster() string {
	if t.options.Cluster == "" {
		return ""
	}
	return " ON CLUSTER " + quote(t.options.Cluster)
}

// plan returns the statements that a table needs.
func (t *Target) plan(ctx context.Context, table driver.Table) (changes []string, err error) {
	r, err := t.relation(ctx, table.ID)
	if err != nil {
		return nil, err
	}
	if r == nil {
		_, _, want, err := fit(table, nil)
		if err != nil {
			return nil, err
		}
		return []string{t.create(table, want)}, nil
	}
	parts, err := t.changes(table, r)
	if err != nil || parts == nil {
		return nil, err
	}
	for _, part := range parts {
		changes = append(changes, "ALTER TABLE "+t.table(table.ID)+t.onCluster()+" "+part)
	}
	return changes, nil
}

// changes returns the missing parts of a table, as parts of ALTER TABLE. Each part can be repeated.
func (t *Target) changes(table driver.Table, r *relation) (parts []string, err error) {
	_, have, want, err := fit(table, r.columns)
	if err != nil {
		return nil, err
	}
	if !r.marked {
		// One statement adds both, so a table with the column also has the index.
		parts = append(parts, "ADD COLUMN IF NOT EXISTS "+markerColumn+", ADD INDEX IF NOT EXISTS "+markerIndex)
	}
	if !replicated(r.engine) && r.window < t.options.Window {
		parts = append(parts, fmt.Sprintf("MODIFY SETTING non_replicated_deduplication_window = %d", t.options.Window))
	}
	if !r.synced && !t.options.LazySync {
		parts = append(parts, "MODIFY SETTING "+syncSettings)
	}
	for i, c := range want {
		switch {
		case i >= len(have):
			parts = append(parts, "ADD COLUMN IF NOT EXISTS "+t.definition(c))
		case have[i].Required && !c.Required:
			at := slices.IndexFunc(r.columns, func(h column) bool { return h.name == c.Name })
			name, _ := r.columns[at].base()
			whole := "Nullable(" + name + ")"
			if strings.HasPrefix(r.columns[at].typeName, "LowCardinality(") {
				whole = "LowCardinality(" + whole + ")"
			}
			parts = append(parts, "MODIFY COLUMN "+quote(c.Name)+" "+whole)
		}
	}
	return parts, nil
}

const (
	// The rows of a file are consecutive, so a part has a few ids in long runs.
	markerColumn = "`" + marker + "` LowCardinality(String)"
	markerIndex  = "`" + marker + "` `" + marker + "` TYPE minmax GRANULARITY 1"
)

// syncSettings make the server write the rows to disk before it responds.
const syncSettings = "fsync_after_insert = 1, fsync_part_directory = 1"

func (t *Target) create(table driver.Table, columns []datatype.Column) string {
	var parts []string
	for _, c := range columns {
		parts = append(parts, t.definition(c))
	}
	parts = append(parts, markerColumn, "INDEX "+markerIndex)
	o := t.options
	create := "CREATE TABLE IF NOT EXISTS " + t.table(table.ID) + t.onCluster() + " (" + strings.Join(parts, ", ") + ") ENGINE = " + o.Engine
	if o.PartitionBy != "" {
		create += " PARTITION BY " + o.PartitionBy
	}
	var settings []string
	key, nullable := t.orderBy(columns)
	create += " ORDER BY " + key
	if o.TTL != "" {
		create += " TTL " + o.TTL
	}
	if nullable || o.PartitionBy != "" {
		settings = append(settings, "allow_nullable_key = 1")
	}
	if !replicated(o.Engine) {
		settings = append(settings, fmt.Sprintf("non_replicated_deduplication_window = %d", o.Window))
	}
	if !t.options.LazySync {
		settings = append(settings, syncSettings)
	}
	if settings != nil {
		create += " SETTINGS " + strings.Join(settings, ", ")
	}
	if table.Creation != "" { // letters, digits and hyphens
		create += " COMMENT " + literal(creationComment(table.Creation))
	}
	return create
}

// orderBy returns the ordering key of a new table as SQL, and reports whether one of its columns may be NULL.
func (t *Target) orderBy(columns []datatype.Column) (key string, nullable bool) {
	var names []string
	for _, c := range t.orderColumns(columns) {
		names = append(names, quote(c.Name))
		nullable = nullable || !c.Required
	}
	switch key = strings.Join(names, ", "); len(names) {
	case 0:
		key = "tuple()"
	case 1:
	default:
		key = "(" + key + ")"
	}
	return key, nullable
}

// orderColumns returns the columns of the ordering key of a new table.
func (t *Target) orderColumns(columns []datatype.Column) (key []datatype.Column) {
	for _, name := range t.options.OrderBy {
		if i := slices.IndexFunc(columns, func(c datatype.Column) bool { return c.Name == name }); i >= 0 {
			key = append(key, columns[i])
		}
	}
	for _, required := range []bool{true, false} {
		i := slices.IndexFunc(columns, func(c datatype.Column) bool {
			return c.Required == required && (c.Type == datatype.Timestamp || c.Type == datatype.Date)
		})
		if i >= 0 && key == nil && t.options.OrderBy == nil {
			key = append(key, columns[i])
		}
	}
	return key
}

// creationComment marks a table as created by a definition that may still fail.
func creationComment(creation string) string { return "forebay: created by " + creation }

// definition returns a column as a statement has it.
func (t *Target) definition(c datatype.Column) string {
	name := t.typeName(c.Type)
	def := name
	if !c.Required {
		def = "Nullable(" + name + ")"
	}
	def = quote(c.Name) + " " + def
	if name == "String" && c.Type != datatype.String {
		mark := string(c.Type)
		if c.Type == datatype.Untyped {
			mark = "untyped"
		}
		def += " COMMENT " + literal(commentPrefix+mark)
	}
	return def
}

// typeName returns the type of new columns.
func (t *Target) typeName(typ datatype.Type) string {
	switch typ {
	case datatype.Bool:
		return "Bool"
	case datatype.Int64:
		return "Int64"
	case datatype.Float64:
		return "Float64"
	case datatype.Timestamp:
		return "DateTime64(6, 'UTC')"
	case datatype.Date:
		return "Date32"
	case datatype.UUID:
		return "UUID"
	case datatype.JSON:
		if t.options.NativeJSON {
			return "JSON"
		}
	}
	if precision, scale, ok := typ.DecimalOf(); ok {
		return fmt.Sprintf("Decimal(%d, %d)", precision, scale)
	}
	return "String"
}

// Uncreate implements [driver.Uncreator]. The mark is the comment of the table.
func (t *Target) Uncreate(ctx context.Context, tableID, creation string) error {
	if creation == "" || checkName("table", tableID) != nil {
		return nil // Ensure has made no such table
	}
	r, err := t.relation(ctx, tableID)
	if err != nil || r == nil || r.comment != creationComment(creation) {
		return classify(err)
	}
	err = t.client.exec(ctx, "DROP TABLE IF EMPTY "+t.table(tableID)+t.onCluster()+" SYNC")
	if code(err) == tableNotEmpty || code(err) == unknownTable {
		return nil
	}
	return classify(err)
}

var errNoTable = errors.New("the table is dropped repeatedly while a file is imported into it")
