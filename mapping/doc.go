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
package mapping
