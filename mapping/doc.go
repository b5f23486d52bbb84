// Package mapping turns events into table rows: a [Record] goes through the compiled [Mapper] of each sink and becomes
// one CSV row.
//
// A mapping is a list of [Columns]. [Compile] checks all of it at once and refuses what cannot work; what remains can
// fail only by the record at hand, with an [*Error] that says why the record must be rejected.
//
//	m, err := mapping.Compile(mapping.Columns{
//		mapping.UUID("id"),
//		mapping.Path("user", "user.id", mapping.Default("unknown"), mapping.RawString()),
//	}, mapping.Options{})
//	...
//	row, err = m.AppendRow(row[:0], mapping.JSON(body))
//
// # What a column stores
//
//	uuid      a new UUID version 7, ascending within one mapper
//	datetime  the arrival time, UTC, 2006-01-02T15:04:05.000Z
//	ip        the address of the sender; empty if it is unknown
//	body      the bytes of the body, unaltered, whatever they are
//	headers   a JSON object of the request headers, compact, sorted by name, repeated ones joined with ", "
//	path      a field of the body as JSON, see below
//	template  the value of a jsonnet program as compact JSON, see below
//
// # Fields of the body
//
// A body has fields when it is JSON (RFC 8259) or a form, which the [Format] says, or a [Document]. A form is read as an
// object of texts, so that one set of rules serves all. [ParsePath] has the syntax of paths. The rules, for path columns
// and for Body(path) in templates alike:
//
//	missing          a name or index that is not there, an index past the end, a step into a text or number:
//	                 the default, or the record is rejected with MissingValue
//	unreadable body  malformed, or neither JSON nor a form: the default, or InvalidBody or UnsupportedBody
//	duplicate names  the first counts; in a form the last
//	numbers          the digits as they were received, of any length: 1.50, 1e5, 9007199254740993
//	texts            as a JSON string with the escapes as they were received; decoded, without quotes, with RawString
//	objects, arrays  as they were received, without white space between the tokens
//	null             null; the default too if the column has DefaultOnNull
//	invalid UTF-8    each such byte becomes U+FFFD
//	defaults         a JSON value; with RawString a text is stored as it is
//	empty path       the whole body
//
// # Templates
//
// A template is a jsonnet program (https://jsonnet.org) that sees the record through these functions, whose parameters
// may be named:
//
//	Ip()                     the address of the sender
//	Now(format)              the arrival time, by default as a datetime column; format is that of strftime, UTC, with %f
//	                         for the milliseconds
//	Body(path, default)      a field of the body; without arguments the whole of it
//	BodyStr()                the body as text
//	Header(header, default)  a header by its name in any case; without arguments an object of all
//	HeaderStr()              one "name: value" line for each header value, sorted
//
// A missing field or header without a default rejects the record. A default is evaluated only when it is needed.
//
// The whole language and its standard library are compiled, at the definition of the column, to closures over the
// record: there is no interpreter that some programs fall back to. Each evaluation has a [Budget] and starts from
// nothing, so a template can neither stall the process nor see another record or an earlier failure. Not available are
// import, std.extVar and std.native. What a program passes on without computing with it, a number, a text, or a whole
// object, is stored exactly as a path column stores it. A number that is computed with or compared is a 64-bit float, as
// everywhere in jsonnet, and so is a number in the program's own text.
//
// docs/compatibility.md lists where this differs from the published service, and what [Options.Compat] gives back.
package mapping
