package bucket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
)

// definition describes a table. The object with the highest number counts. A number is put on the condition that it is free, so of two
// engines that change a table at once, one reads the other's change and begins again.
type definition struct {
	// Version is the version of this form.
	Version int `json:"version"`
	// ID is the id of the table.
	ID string `json:"id"`
	// Columns are the columns that parts can have.
	Columns []datatype.Column `json:"columns"`
	// Partition is the column whose day decides the folder of a row.
	Partition string `json:"partition,omitempty"`
	// Creation is the mark of the call that created the table.
	Creation string `json:"creation,omitempty"`
	// Number is the number in the name, 0 if there is no table.
	Number int `json:"-"`

	folder string // of the table, ends with a slash
}

const definitionVersion = 1

// definitionFolder begins with a sign that makes readers of whole folders leave it out.
const definitionFolder = "_forebay/"

func folderOf(table string) string {
	target, _ := parquet.Tables("/", parquet.Options{}) // fails for wrong options only
	return filepath.Base(target.Path(table)) + "/"
}

func definitionKey(folder string, number int) string {
	return fmt.Sprintf("%s%s%06d.json", folder, definitionFolder, number)
}

// definitionNumber returns the number in the key of a definition. It is 0 for any other object of the folder, such as a copy or the empty
// object that stands for the folder.
func definitionNumber(folder, key string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(key, folder+definitionFolder), ".json"))
	if n <= 0 || key != definitionKey(folder, n) {
		return 0
	}
	return n
}

// definitions lists the keys of the definitions in the folder of a table, the newest last.
func (t *Tables) definitions(ctx context.Context, folder string) (keys []string, err error) {
	err = t.objects.list(ctx, folder+definitionFolder, func(key string, _ time.Time) error {
		if definitionNumber(folder, key) > 0 {
			keys = append(keys, key)
		}
		return nil
	})
	return keys, err
}

// definition reads the newest definition of a table.
func (t *Tables) definition(ctx context.Context, table string) (d definition, err error) {
	none := definition{ID: table, folder: folderOf(table)}
	keys, err := t.definitions(ctx, none.folder)
	if err != nil || len(keys) == 0 {
		return none, err
	}
	key := keys[len(keys)-1]
	rc, err := t.objects.open(ctx, key)
	if err != nil {
		return none, err
	}
	data, err := io.ReadAll(rc)
	if err := errors.Join(err, rc.Close()); err != nil {
		return none, err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return none, driver.Permanent(fmt.Errorf("%s is damaged: %w; restore it", key, err))
	}
	if d.Version > definitionVersion {
		return none, driver.Permanent(fmt.Errorf("%s has version %d, known is %d: use a newer release", key, d.Version, definitionVersion))
	}
	if d.ID != table {
		return none, driver.Permanent(fmt.Errorf("%s belongs to the table %q", key, d.ID))
	}
	d.folder, d.Number = none.folder, definitionNumber(none.folder, key)
	return d, nil
}

// ensure creates a table, or compares an existing one, or adds the columns that a table with Extend lacks.
func (t *Tables) ensure(ctx context.Context, table driver.Table) (definition, error) {
	for {
		d, err := t.definition(ctx, table.ID)
		if err != nil {
			return d, err
		}
		columns, err := table.Fit(d.Columns)
		if err != nil || d.Number > 0 && slices.Equal(columns, d.Columns) {
			return d, err
		}
		d.Version, d.Columns, d.Number = definitionVersion, columns, d.Number+1
		if d.Number == 1 {
			d.Creation = table.Creation
			for _, c := range columns {
				if c.Name == t.options.PartitionBy && (c.Type == datatype.Date || c.Type == datatype.Timestamp) {
					d.Partition = c.Name
				}
			}
		}
		if err := t.checkNames(ctx, d); err != nil {
			return d, err
		}
		data, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return d, err
		}
		stored, err := t.objects.put(ctx, definitionKey(d.folder, d.Number), func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)), nil
		})
		if stored || err != nil {
			return d, err
		}
	}
}

// checkNames refuses a table that Parquet on disk could not have.
func (t *Tables) checkNames(ctx context.Context, d definition) error {
	s, err := t.scratch(d.Partition)
	if err != nil {
		return err
	}
	return errors.Join(s.Ensure(ctx, driver.Table{ID: d.ID, Columns: d.Columns}), s.remove())
}
