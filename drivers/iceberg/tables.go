package iceberg

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// creationKey is the property with Table.Creation.
const creationKey = "forebay.creation"

// tableProperties returns the properties of a new table. Exactness cannot depend on them, because another program may have created the table.
func tableProperties(t driver.Table) iceberglib.Properties {
	props := iceberglib.Properties{
		table.CommitNumRetriesKey:                 "0",
		table.ManifestMergeEnabledKey:             "true",
		table.MetadataDeleteAfterCommitEnabledKey: "true",
		table.MetadataPreviousVersionsMaxKey:      "50",
		table.ParquetCompressionKey:               "zstd",
		table.ParquetCompressionLevelKey:          "1",
		table.ParquetRowGroupLimitKey:             strconv.Itoa(128 << 10),
	}
	if t.Creation != "" {
		props[creationKey] = t.Creation
	}
	return props
}

// plainName matches names that need no quoting in catalogs and paths.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$`)

func (t *Target) identifier(id string) (table.Identifier, error) {
	if !plainName.MatchString(id) {
		return nil, driver.Permanent(fmt.Errorf("iceberg: the table %.100q: a name has letters, digits, '_', '-' and '.', at most 200: choose a different one", id))
	}
	return table.Identifier{t.opts.Namespace, id}, nil
}

// docs are the comments of columns whose types Iceberg stores as a string.
var docs = map[datatype.Type]string{datatype.Untyped: "untyped", datatype.JSON: "json"}

// storageOf returns the type of a column in Iceberg.
func storageOf(t datatype.Type) iceberglib.Type {
	switch t {
	case datatype.Bool:
		return iceberglib.PrimitiveTypes.Bool
	case datatype.Int64:
		return iceberglib.PrimitiveTypes.Int64
	case datatype.Float64:
		return iceberglib.PrimitiveTypes.Float64
	case datatype.Timestamp:
		return iceberglib.PrimitiveTypes.TimestampTz
	case datatype.Date:
		return iceberglib.PrimitiveTypes.Date
	case datatype.UUID:
		return iceberglib.PrimitiveTypes.UUID
	case datatype.Bytes:
		return iceberglib.PrimitiveTypes.Binary
	}
	if p, s, ok := t.DecimalOf(); ok {
		return iceberglib.DecimalTypeOf(p, s)
	}
	return iceberglib.PrimitiveTypes.String
}

// columnsOf returns the columns of a table. A string without the driver's comment has the type that t wants, if that is stored as a string.
// Types that the driver cannot write keep the name that Iceberg gives them.
func columnsOf(schema *iceberglib.Schema, t driver.Table) []datatype.Column {
	fields := schema.Fields()
	columns := make([]datatype.Column, len(fields))
	for i, f := range fields {
		columns[i] = datatype.Column{Name: f.Name, Type: typeOf(f), Required: f.Required}
		if columns[i].Type != datatype.String {
			continue
		}
		for _, want := range t.Columns {
			if strings.EqualFold(want.Name, f.Name) && docs[want.Type] != "" && f.Doc == "" {
				columns[i].Type = want.Type
			}
		}
	}
	return columns
}

func typeOf(f iceberglib.NestedField) datatype.Type {
	switch typ := f.Type.(type) {
	case iceberglib.StringType:
		for t, doc := range docs {
			if doc == f.Doc {
				return t
			}
		}
		return datatype.String
	case iceberglib.DecimalType:
		return datatype.Decimal(typ.Precision(), typ.Scale())
	}
	for _, t := range []datatype.Type{
		datatype.Bool, datatype.Int64, datatype.Float64, datatype.Timestamp, datatype.Date, datatype.UUID, datatype.Bytes,
	} {
		if storageOf(t).Equals(f.Type) {
			return t
		}
	}
	return datatype.Type(f.Type.String())
}

func schemaOf(columns []datatype.Column) *iceberglib.Schema {
	fields := make([]iceberglib.NestedField, len(columns))
	for i, c := range columns {
		fields[i] = iceberglib.NestedField{ID: i + 1, Name: c.Name, Type: storageOf(c.Type), Required: c.Required, Doc: docOf(c.Type)}
	}
	return iceberglib.NewSchema(0, fields...)
}

// docOf is the comment of a column. A string has a comment too, so a column without one was created by another program.
func docOf(t datatype.Type) string {
	if t == datatype.String {
		return "string"
	}
	return docs[t]
}

// load loads a table, or returns nil if it is absent.
func (t *Target) load(ctx context.Context, id table.Identifier) (*table.Table, error) {
	tbl, err := t.catalog.LoadTable(ctx, id)
	if errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace) {
		return nil, nil
	}
	return tbl, err
}

// maxRaces bounds how often a call begins again because others change the table.
const maxRaces = 20

// ensure creates or extends the table as want needs it, and returns it. tbl is the table as it was loaded, nil if it was absent.
func (t *Target) ensure(ctx context.Context, id table.Identifier, want driver.Table, tbl *table.Table) (_ *table.Table, err error) {
	var last error
	for round := range maxRaces {
		if round > 0 {
			if tbl, err = t.load(ctx, id); err != nil {
				return nil, err
			}
		}
		if tbl == nil {
			if tbl, err = t.create(ctx, id, want); errors.Is(err, catalog.ErrTableAlreadyExists) {
				last = err
				continue
			} else if err != nil {
				return nil, err
			}
		}
		have := columnsOf(tbl.Schema(), want)
		fit, err := want.Fit(have)
		if err != nil {
			return nil, err
		}
		changed, err := t.alter(ctx, tbl, have, fit)
		if err == nil && !changed {
			return tbl, nil
		}
		if err != nil {
			now, loadErr := t.load(ctx, id)
			if loadErr != nil || now == nil || now.MetadataLocation() == tbl.MetadataLocation() {
				return nil, errors.Join(err, loadErr)
			}
			last = err // another program has changed the table meanwhile, perhaps in the same way
		}
	}
	return nil, fmt.Errorf("others keep changing the table: %w", last)
}

func (t *Target) create(ctx context.Context, id table.Identifier, want driver.Table) (*table.Table, error) {
	if err := t.catalog.CreateNamespace(ctx, id[:1], nil); err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		if exists, existsErr := t.catalog.CheckNamespaceExists(ctx, id[:1]); existsErr != nil || !exists {
			return nil, err
		}
	}
	columns, err := want.Fit(nil)
	if err != nil {
		return nil, err
	}
	opts := []catalog.CreateTableOpt{catalog.WithProperties(tableProperties(want))}
	for i, c := range columns {
		if c.Name != t.opts.PartitionBy || c.Type != datatype.Timestamp && c.Type != datatype.Date {
			continue
		}
		spec := iceberglib.NewPartitionSpec(iceberglib.PartitionField{
			SourceIDs: []int{i + 1}, FieldID: 1000, Name: partitionName(columns, c.Name), Transform: iceberglib.DayTransform{},
		})
		opts = append(opts, catalog.WithPartitionSpec(&spec))
	}
	if _, ok := t.catalog.(*sqlcat.Catalog); ok { // a creation whose context ends deletes its metadata, even if it was committed
		ctx = context.WithoutCancel(ctx)
	}
	return t.catalog.CreateTable(ctx, id, schemaOf(columns), opts...)
}

// notInNames matches the characters that names in Avro, the format of manifests, cannot have.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9_]`)

// partitionName returns a name for the day of a column that no column of the table has.
func partitionName(columns []datatype.Column, column string) string {
	name := "_" + notInNames.ReplaceAllString(column, "_") + "_day"
	if name[1] > '9' {
		name = name[1:]
	}
	for slices.ContainsFunc(columns, func(c datatype.Column) bool { return strings.EqualFold(c.Name, name) }) {
		name += "_"
	}
	return name
}

// alter changes the columns of a table, if they differ.
func (t *Target) alter(ctx context.Context, tbl *table.Table, have, want []datatype.Column) (changed bool, err error) {
	tx := onceOnly(t.catalog, tbl).NewTransaction()
	update := tx.UpdateSchema(true, false)
	for i, c := range want {
		switch {
		case i >= len(have):
			update.AddColumn([]string{c.Name}, storageOf(c.Type), docOf(c.Type), false, nil)
		case have[i].Required && !c.Required:
			update.UpdateColumn([]string{c.Name}, table.ColumnUpdate{Required: iceberglib.Optional[bool]{Val: false, Valid: true}})
		default:
			continue
		}
		changed = true
	}
	if !changed {
		return false, nil
	}
	if err = update.Commit(); err == nil {
		_, err = tx.Commit(ctx)
	}
	return true, err
}

// Ensure implements [driver.Target]. A table created by another program may be used if its columns have the types of the package.
func (t *Target) Ensure(ctx context.Context, table driver.Table) (err error) {
	defer catch(&err)
	id, err := t.identifier(table.ID)
	if err != nil {
		return err
	}
	tbl, err := t.load(ctx, id)
	if err == nil {
		_, err = t.ensure(ctx, id, table, tbl)
	}
	if errors.As(err, new(*driver.SchemaError)) {
		return fmt.Errorf("iceberg: %w", err) // it names the table
	}
	return wrap(err, "table %q", table.ID)
}

// Extend implements [driver.Extender].
func (t *Target) Extend(ctx context.Context, table driver.Table) error {
	table.Extend = true
	return t.Ensure(ctx, table)
}

// Uncreate implements [driver.Uncreator]. The files of the table stay, because there are no rows in them. No request to a catalog drops a table only if
// it has no snapshot, so a first commit of another engine between the look and the drop is lost. docs/drivers/iceberg.md says so.
func (t *Target) Uncreate(ctx context.Context, tableID, creation string) (err error) {
	defer catch(&err)
	id, err := t.identifier(tableID)
	if err != nil || creation == "" {
		return nil //nolint:nilerr // Ensure cannot have created it
	}
	tbl, err := t.load(ctx, id)
	if err != nil || tbl == nil {
		return wrap(err, "table %q", tableID)
	}
	if tbl.Properties()[creationKey] != creation || tbl.CurrentSnapshot() != nil {
		return nil
	}
	err = t.catalog.DropTable(ctx, id)
	if errors.Is(err, catalog.ErrNoSuchTable) {
		err = nil
	}
	return wrap(err, "table %q", tableID)
}

// CountFile implements [driver.Counter]. It returns the rows that were imported. If the table has forgotten the id, it counts the rows that
// the data files still have.
func (t *Target) CountFile(ctx context.Context, table driver.Table, fileID string) (rows int64, err error) {
	rows, _, err = t.countFile(ctx, table, fileID)
	return rows, err
}

// countFile returns the rows of a file, and whether the table may have forgotten its id.
func (t *Target) countFile(ctx context.Context, table driver.Table, fileID string) (rows int64, forgotten bool, err error) {
	defer catch(&err)
	id, err := t.identifier(table.ID)
	if err != nil {
		return 0, false, err
	}
	tbl, err := t.load(ctx, id)
	if err != nil || tbl == nil {
		return 0, false, wrap(err, "table %q", table.ID)
	}
	r, err := recordOf(tbl.Properties(), fileID)
	if rows, found := r.find(fileID); err != nil || found {
		return rows, false, wrap(err, "table %q", table.ID)
	}
	rows, err = rowsInFiles(ctx, tbl, fileID)
	return rows, r.dropped > 0, wrap(err, "table %q", table.ID)
}

// TakenAway implements [driver.Taker]. Rows of a forgotten id without their own file were compacted or deleted. A table that has
// forgotten no id of the engine, and lacks this one, is not the table that got the rows, so it was dropped or replaced.
func (t *Target) TakenAway(ctx context.Context, table driver.Table, fileID string) (bool, error) {
	rows, forgotten, err := t.countFile(ctx, table, fileID)
	return rows == 0 && forgotten, err
}
