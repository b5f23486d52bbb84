package platform

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/storageapi"
)

// baseTypes are the types of columns in the words of the API.
var baseTypes = []string{"BOOLEAN", "DATE", "FLOAT", "INTEGER", "NUMERIC", "STRING", "TIMESTAMP"}

// backendTypes are the types of the databases that clients know, by base type. Types whose values are not checked are text.
var backendTypes = map[string][]string{
	"BOOLEAN":   {"BOOL"},
	"FLOAT":     {"FLOAT4", "FLOAT8", "FLOAT64", "DOUBLE", "DOUBLE PRECISION", "REAL"},
	"INTEGER":   {"INT", "INT64", "BIGINT", "SMALLINT", "TINYINT", "BYTEINT"},
	"NUMERIC":   {"NUMBER", "DECIMAL", "DEC", "FIXED", "BIGNUMERIC", "BIGDECIMAL"},
	"TIMESTAMP": {"DATETIME", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIMESTAMP_TZ"},
	"STRING": {
		"VARCHAR", "CHAR", "CHARACTER", "TEXT", "NVARCHAR", "NCHAR", "BINARY", "VARBINARY", "BYTES", "TIME", "VARIANT", "OBJECT", "ARRAY",
		"JSON", "GEOGRAPHY", "GEOMETRY", "INTERVAL", "STRUCT", "RANGE", "VECTOR",
	},
}

// baseOf returns the base type of a type of a backend, in any case of letters, or "" if there is no such type.
func baseOf(backend string) string {
	upper := strings.ToUpper(strings.TrimSpace(backend))
	if slices.Contains(baseTypes, upper) {
		return upper
	}
	for base, names := range backendTypes {
		if slices.Contains(names, upper) {
			return base
		}
	}
	return ""
}

// base is the base type of a column, as given, or derived from the backend type. The default is STRING.
func (c column) base() string {
	if c.BaseType != "" {
		return c.BaseType
	}
	return cmp.Or(c.backendBase(), "STRING")
}

// backendBase is the base type of the backend type, or "" if there is none.
func (c column) backendBase() string {
	if c.Type == nil {
		return ""
	}
	return baseOf(c.Type.Type)
}

// values is the base type that decides which values the column holds. It is base, except for a whole number. A column may be
// NUMERIC with the type INT, or INTEGER with a NUMBER that has no digits after the point. Such a column holds the values of
// its backend type. A NUMBER without a length adds nothing to INTEGER.
func (c column) values() string {
	switch backend := c.backendBase(); {
	case c.base() == "NUMERIC" && backend == "INTEGER":
		return backend
	case c.base() == "INTEGER" && backend == "NUMERIC" && c.Type.Length != "":
		return backend
	}
	return c.base()
}

// contradicts reports whether no column has both types.
func (c column) contradicts() bool {
	backend := c.backendBase()
	if backend == "" || backend == c.base() || c.base() == "NUMERIC" && backend == "INTEGER" {
		return false
	}
	_, scale, _ := c.length()
	return c.base() != "INTEGER" || backend != "NUMERIC" || c.Type.Length != "" && scale > 0
}

// length reads the length of a type, which is precision and scale of a number, or how many characters a text may have. Without one a
// number has as many digits after the point as it needs, and a text has no limit.
func (c column) length() (first, second int, ok bool) {
	first, second = 0, celltype.AnyScale
	base := c.values()
	if base == "NUMERIC" {
		first = celltype.MaxPrecision
	}
	if c.Type == nil || c.Type.Length == "" {
		return first, second, true
	}
	texts := strings.Split(c.Type.Length, ",")
	numbers := make([]int, len(texts))
	for i, text := range texts {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 {
			return 0, 0, base != "NUMERIC" && strings.EqualFold(text, "MAX")
		}
		numbers[i] = n
	}
	if base != "NUMERIC" {
		return numbers[0], 0, len(numbers) == 1
	}
	if first, second = numbers[0], 0; len(numbers) > 1 {
		second = numbers[1]
	}
	return first, second, len(numbers) <= 2 && first >= 1 && first <= celltype.MaxPrecision && second <= first
}

// cellCheck converts the cells of one column from file to table.
type cellCheck struct {
	column string
	// convert appends the cell that stands for a text, nil for a column of text.
	convert  func(dst, text []byte) ([]byte, celltype.Reason)
	limit    int  // of the characters of a text, 0 for none
	nullable bool // there may be no value, which is an empty cell
}

// check returns the check of a column. A table without types has text of any length.
func (t table) check(c column) cellCheck {
	k := cellCheck{column: c.Name, nullable: true}
	if !t.Typed {
		return k
	}
	first, second, _ := c.length() // checked when the column was made
	switch c.values() {
	case "BOOLEAN":
		k.convert = celltype.AppendBool
	case "DATE":
		k.convert = celltype.AppendDate
	case "FLOAT":
		k.convert = celltype.AppendFloat64
	case "INTEGER":
		k.convert = celltype.AppendInt64
	case "NUMERIC":
		k.convert = func(dst, text []byte) ([]byte, celltype.Reason) {
			return celltype.AppendDecimal(dst, text, first, second)
		}
	case "TIMESTAMP":
		// Databases write times without a zone, which are UTC here.
		k.convert = func(dst, text []byte) ([]byte, celltype.Reason) { return celltype.AppendTimestamp(dst, text, true) }
	default:
		k.limit = first
		return k // an empty text is one
	}
	k.nullable = !slices.Contains(t.PrimaryKey, c.Name)
	if c.Type != nil && c.Type.Nullable != nil {
		k.nullable = *c.Type.Nullable
	}
	return k
}

// cell returns the cell for a text of the file. A converted cell is appended to dst. A cell of text is the text itself. null says
// that the text means no value.
func (k *cellCheck) cell(dst, text []byte, null bool) (cell, grown []byte, reason celltype.Reason) {
	switch {
	case null && !k.nullable:
		return nil, dst, celltype.NullValue
	case null:
		return nil, dst, celltype.OK
	case k.convert == nil:
		return text, dst, celltype.CheckText(text, k.limit)
	}
	grown, reason = k.convert(dst, text)
	return grown[len(dst):len(grown):len(grown)], grown, reason
}

// maxShown bounds what an error shows of a cell.
const maxShown = 64

// explainCell says why a cell of a file cannot be stored.
func (k *cellCheck) explainCell(row int64, text []byte, reason celltype.Reason) error {
	return refuse(http.StatusBadRequest, "csvImport.loadError", "Load error: row %d, column %q: %s: %q", row, k.column, reason, cut(string(text), maxShown))
}

// checkTypes refuses types of a column that are unknown, or contradict each other.
func checkTypes(in *input, col storageapi.Column) {
	name := cut(col.Name, 80)
	if col.BaseType != "" && !slices.Contains(baseTypes, col.BaseType) {
		in.fail("columns", "column %q: basetype %q, want one of %s", name, cut(col.BaseType, 40), strings.Join(baseTypes, ", "))
		return
	}
	d := col.Definition.Value
	if d == nil {
		return
	}
	made := column{BaseType: col.BaseType, Type: d}
	switch base := made.backendBase(); {
	case d.Type == "":
	case base == "":
		in.fail("columns", "column %q: unknown type %q", name, cut(d.Type, 40))
	case made.contradicts():
		in.fail("columns", "column %q: type %q has the basetype %s, not %s", name, cut(d.Type, 40), base, col.BaseType)
	}
	if _, _, ok := made.length(); !ok {
		in.fail("columns", "column %q: length %q: want the number of characters, or at most %d digits and how many of them stand after the point", name, cut(d.Length, 40), celltype.MaxPrecision)
	}
}
