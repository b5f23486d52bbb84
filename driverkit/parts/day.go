package parts

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// DayPrefix begins the names of the folders of a partitioned table, and NoDay is the folder of rows without a day. Hive, Spark
// and DuckDB expect these names.
const (
	dayColumn = "dt"
	DayPrefix = dayColumn + "="
	NoDay     = DayPrefix + "__HIVE_DEFAULT_PARTITION__"
)

// ImportsDir is the folder in a partitioned table of the files whose rows have several days. Each file has one folder there, with folders of its
// days. The names neither begin with a dot or an underscore nor have an equals sign, so readers that look for the folders of days walk through them.
const ImportsDir = "imports"

// partitionOf returns the column by which a new table is split, "" for none.
func partitionOf(table driver.Table, by string) (string, error) {
	for _, c := range table.Columns {
		if by != "" && c.Name == by && (c.Type == datatype.Date || c.Type == datatype.Timestamp) {
			return by, checkDayColumn(table)
		}
	}
	return "", nil
}

// checkDayColumn refuses a column that readers would take for the name of the folder.
func checkDayColumn(table driver.Table) error {
	for _, c := range table.Columns {
		if strings.EqualFold(c.Name, dayColumn) {
			return driver.Permanent(fmt.Errorf("table %q: its folders are named %s…, and readers take that for a column: rename the column %q",
				table.ID, DayPrefix, c.Name))
		}
	}
	return nil
}

// DayFolder returns the folder of a row whose date or timestamp is cell. ok is false for a cell that is neither.
func DayFolder(cell []byte) (folder string, ok bool) {
	if cell == nil {
		return NoDay, true
	}
	const form = "2006-01-02"
	valid := len(cell) == len(form) || len(cell) > len(form) && cell[len(form)] == 'T'
	for i := 0; valid && i < len(form); i++ {
		if form[i] == '-' {
			valid = cell[i] == '-'
		} else {
			valid = '0' <= cell[i] && cell[i] <= '9'
		}
	}
	if !valid {
		return "", false
	}
	return DayPrefix + string(cell[:len(form)]), true
}

// PartPath returns the path in the table of a new part with rows of a file. folder is "" if the table is not split.
func (d Definition) PartPath(folder, file string, rows int64, extension string) string {
	if d.Partition == "" {
		return file + extension
	}
	return filepath.Join(folder, fmt.Sprintf("%s.%d%s", file, rows, extension))
}
