// Package mapping turns events into table rows. A [Record] goes through the compiled [Mapper] of each sink and becomes
// one CSV row.
//
// A mapping is a list of [Columns]. [Compile] reports every fault of a definition at once. A compiled mapper fails only on a
// record, with an [*Error] that says why the record must be rejected.
//
//	m, err := mapping.Compile(mapping.Columns{
//		mapping.UUID("id"),
//		mapping.Path("user", "user.id", mapping.Default("unknown"), mapping.RawString()),
//	}, mapping.Options{})
//	row, err := m.AppendRow(nil, mapping.JSON(body))
//
// # What a column stores
//
//	uuid      a new UUID version 7, ascending within one mapper
//	datetime  the arrival time, UTC, 2006-01-02T15:04:05.000Z
//	ip        the address of the sender; empty if it is unknown
//	body      the unaltered bytes of the body
//	headers   a JSON object of the request headers, compact, sorted by name, repeated ones joined with ", "
//	path      a field of the body as JSON, see below
//	template  the value of a jsonnet program as compact JSON, see func Template
//
// # Options of a column
//
//	Default        path            the value of a missing or unreadable field; without it the record is rejected
//	DefaultOnNull  path            the default also replaces null
//	RawString      path, template  a string is stored as plain text, without quotes and escapes
//	DataType       all             the cells have a type, see below
//
// # Types
//
// A column with a [DataType] takes the values of that type only. It stores them in one form, and null and missing values as NULL,
// which is nothing between the commas of a row. A value that does not fit rejects the record, with a [Reason]. [TypeOptions] are
// its options, and [Columns.Typed] and [ColumnsOf] choose types. docs/types.md has the rules. What follows is about untyped
// columns. Typed columns find their values in the same way.
//
// # Fields of the body
//
// A body has fields when it is JSON (RFC 8259), a form or a [Document]. The [Format] decides which. A form is read as an
// object of strings, so the same rules apply. [ParsePath] has the syntax of paths. Path columns and Body(path) in templates
// follow the same rules:
//
//	missing          no such member, an index past the end, a step into a string or number:
//	                 the default, or the record is rejected with MissingValue
//	unreadable body  malformed, or neither JSON nor a form: the default, or InvalidBody or UnsupportedBody
//	duplicate names  the first counts; in a form the last
//	numbers          the digits as received, of any length: 1.50, 1e5, 9007199254740993
//	strings          a JSON string with the escapes as received; with RawString decoded and without quotes
//	objects, arrays  as received, without white space between the tokens
//	null             null; the default too if the column has DefaultOnNull
//	invalid UTF-8    each such byte becomes U+FFFD; typed columns refuse it
//	defaults         a JSON value; with RawString a string is stored as plain text
//	empty path       the whole body
//
// docs/internals/compatibility.md lists the differences from the published service, and which of them [Options.Compat] removes.
package mapping
