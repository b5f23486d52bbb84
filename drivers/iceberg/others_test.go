package iceberg_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
)

// alter changes the columns of the table as another program does.
func alter(t *testing.T, c catalog.Catalog, change func(*table.UpdateSchema)) {
	t.Helper()
	tx := load(t, c, "events").NewTransaction()
	update := tx.UpdateSchema(true, false)
	change(update)
	if err := update.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An import into a table whose columns another program has changed reports the difference, and changes nothing. The file goes in when
// the table has its columns again.
func TestColumnsChangedByOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		change, repair func(*table.UpdateSchema)
		want           string
	}{
		"dropped": {
			func(u *table.UpdateSchema) { u.DeleteColumn([]string{"at"}) },
			func(u *table.UpdateSchema) {
				u.AddColumn([]string{"at"}, iceberglib.PrimitiveTypes.TimestampTz, "", false, nil)
			},
			`the table has no "at"`,
		},
		"renamed": {
			func(u *table.UpdateSchema) { u.RenameColumn([]string{"at"}, "moment") },
			func(u *table.UpdateSchema) { u.RenameColumn([]string{"moment"}, "at") },
			`the table has no "at", the mapping has no "moment"`,
		},
		"moved": {
			func(u *table.UpdateSchema) { u.MoveFirst([]string{"at"}) },
			func(u *table.UpdateSchema) { u.MoveFirst([]string{"id"}) },
			`column 1 is "id" in the mapping and "at" in the table`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			target := open(t, folder, iceberg.Options{})
			first, second := makeFile("engine-f1", 0, 10), makeFile("engine-f2", 10, 10)
			mustImport(t, target, first)
			alter(t, target.Catalog(), tt.change)
			files := countFiles(t, folder)
			err := target.Import(t.Context(), second)
			if !errors.As(err, new(*driver.SchemaError)) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Import = %v, want the columns that differ: %s", err, tt.want)
			}
			mustImport(t, target, first) // its rows are there already
			if after := countFiles(t, folder); after != files {
				t.Errorf("got %d files, %d before the import that failed, want %v", after, files, files)
			}
			alter(t, target.Catalog(), tt.repair)
			mustImport(t, target, second)
			expectIDs(t, target.Catalog(), "events", 20)
		})
	}
}

// A table that grows gets a column back that another program has dropped or renamed. The other rows and columns stay.
func TestGrowingTableGetsColumnsBack(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*table.UpdateSchema)
		want   []string // the columns at the end
	}{
		"dropped": {func(u *table.UpdateSchema) { u.DeleteColumn([]string{"at"}) }, []string{"id", "at"}},
		"renamed": {func(u *table.UpdateSchema) { u.RenameColumn([]string{"at"}, "moment") }, []string{"id", "moment", "at"}},
	} {
		t.Run(name, func(t *testing.T) {
			target := open(t, t.TempDir(), iceberg.Options{})
			mustImport(t, target, makeFile("engine-f1", 0, 10))
			alter(t, target.Catalog(), tt.change)
			f := makeFile("engine-f2", 10, 10)
			f.Table.Extend = true
			mustImport(t, target, f)
			expectIDs(t, target.Catalog(), "events", 20)
			fields := load(t, target.Catalog(), "events").Schema().Fields()
			for i, f := range fields {
				if len(fields) != len(tt.want) || f.Name != tt.want[i] {
					t.Fatalf("the table has the columns %v, want %q", fields, tt.want)
				}
			}
			values := 0 // of the column that was added again
			for _, row := range rowsOf(t, target.Catalog(), "events") {
				if row[len(row)-1] != buffertest.Null {
					values++
				}
			}
			if values != 10 {
				t.Errorf("%d rows have a value in the column that came back, want 10", values)
			}
		})
	}
}

// What others do to a table between the look for an id and the commit neither fails the import nor stores the file twice. The data files
// are written by then.
func TestOthersBetweenLookAndCommit(t *testing.T) {
	columns := []datatype.Column{{Name: "id", Type: datatype.Int64, Required: true}, {Name: "price", Type: datatype.Decimal(5, 2)}}
	prices := func(id, from string) *driver.File {
		return fileOf(id, columns, [][]string{{from + "0", "1.50"}, {from + "1", "-999.99"}})
	}
	for name, interfere := range map[string]func(t *testing.T, local *iceberg.Local){
		"another target imports the file": func(t *testing.T, local *iceberg.Local) { mustImport(t, local, prices("engine-f2", "2")) },
		"another target imports another file": func(t *testing.T, local *iceberg.Local) {
			mustImport(t, local, prices("engine-f3", "3"))
		},
		"another target adds a column": func(t *testing.T, local *iceberg.Local) {
			wider := prices("", "").Table
			wider.Columns = append(wider.Columns[:2:2], datatype.Column{Name: "more", Type: datatype.JSON})
			if err := local.Extend(t.Context(), wider); err != nil {
				t.Fatal(err)
			}
		},
		"another tool compacts and expires": func(t *testing.T, local *iceberg.Local) { rewrite(t, local.Catalog()) },
		"another tool widens a column": func(t *testing.T, local *iceberg.Local) {
			alter(t, local.Catalog(), func(u *table.UpdateSchema) {
				u.UpdateColumn([]string{"price"}, table.ColumnUpdate{FieldType: iceberglib.Optional[iceberglib.Type]{Valid: true, Val: iceberglib.DecimalTypeOf(20, 2)}})
			})
		},
		"another tool renames a column": func(t *testing.T, local *iceberg.Local) {
			alter(t, local.Catalog(), func(u *table.UpdateSchema) { u.RenameColumn([]string{"price"}, "cost") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			local := open(t, t.TempDir(), iceberg.Options{})
			mustImport(t, local, prices("engine-f1", "1"))
			c := &faultyCatalog{Catalog: local.Catalog()}
			c.before = func(n int) error {
				if n == 0 {
					interfere(t, local)
				}
				return nil
			}
			target := iceberg.New(c, iceberg.Options{})
			mustImport(t, target, prices("engine-f2", "2"))
			for _, both := range []*iceberg.Target{target, local.Target} {
				mustImport(t, both, prices("engine-f2", "2"))
				mustImport(t, both, prices("engine-f1", "1"))
			}
			got := make(map[string]string)
			rows := rowsOf(t, local.Catalog(), "events")
			for _, row := range rows {
				got[row[0]] = row[1]
			}
			want := 4
			if strings.Contains(name, "another file") {
				want = 6
			}
			if len(rows) != want || len(got) != want || got["20"] != "1.50" || got["21"] != "-999.99" || got["11"] != "-999.99" {
				t.Errorf("the table has the rows %q", rows)
			}
		})
	}
}

// lostCatalog makes a commit, and then can neither say so nor be asked.
type lostCatalog struct {
	catalog.Catalog
	lost bool
}

var errAway = errors.New("the catalog is away")

func (c *lostCatalog) CommitTable(ctx context.Context, id table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	meta, location, err := c.Catalog.CommitTable(ctx, id, reqs, updates)
	if err == nil {
		c.lost, err = true, errAway
	}
	return meta, location, err
}

func (c *lostCatalog) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	if c.lost {
		return nil, errAway
	}
	return c.Catalog.LoadTable(ctx, id)
}

// A commit whose outcome is unknown is found by the next attempt, of whatever target, although another tool has rewritten its data files
// and removed its snapshot meanwhile.
func TestUnknownCommitIsFoundAfterExpiry(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, local, makeFile("engine-f1", 0, 10))
	f := makeFile("engine-f2", 10, 10)
	if err := iceberg.New(&lostCatalog{Catalog: local.Catalog()}, iceberg.Options{}).Import(t.Context(), f); !errors.Is(err, errAway) || driver.IsPermanent(err) {
		t.Fatalf("Import = %v, want that the catalog is away", err)
	}
	mustImport(t, local, makeFile("other-f1", 20, 10))
	rewrite(t, local.Catalog())
	for _, s := range load(t, local.Catalog(), "events").Metadata().Snapshots() {
		if strings.Contains(s.Summary.Properties["forebay.files"], f.ID) {
			t.Fatal("the snapshot of the file is still there")
		}
	}
	mustImport(t, local, f)
	expectIDs(t, local.Catalog(), "events", 30)
}
