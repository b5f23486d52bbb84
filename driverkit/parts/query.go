package parts

import (
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// FilesQuery returns a query for DuckDB that returns the newest 20 rows of the files of a table. function is the name of a function that reads files, such as
// read_parquet, and args are its arguments. The rows with the latest times are first, if the table has a time, else the rows of the files that are last by
// name. rowNumbers says that the function knows the positions of the rows in their file.
func FilesQuery(function, args string, columns []datatype.Column, rowNumbers bool) string {
	taken := make(map[string]bool)
	for _, c := range columns {
		taken[strings.ToLower(c.Name)] = true
	}
	selected, order := "*", "ALL DESC" // of a table whose columns have the names that tell the order
	switch by := sqltail.TimeColumn(columns); {
	case by != "":
		order = `"` + strings.ReplaceAll(by, `"`, `""`) + `" DESC NULLS LAST`
	case taken["filename"] || rowNumbers && taken["file_row_number"]:
	case rowNumbers:
		selected, order = "* EXCLUDE (filename, file_row_number)", "filename DESC, file_row_number DESC"
		args += ", filename = true, file_row_number = true"
	default:
		selected, order = "* EXCLUDE (filename)", "filename DESC"
		args += ", filename = true"
	}
	return "SELECT " + selected + " FROM " + function + "(" + args + ")\nORDER BY " + order + " LIMIT 20"
}
