package driver

// SQLTarget is an optional interface of a [Target] whose rows can be deleted with SQL. An engine shows such statements when the records of a person
// are erased. It sends none.
type SQLTarget interface {
	// SQL says how a statement about a table is written. It asks no server.
	SQL(t Table) SQLSyntax
}

// SQLSyntax is how statements about a table are written.
type SQLSyntax struct {
	// Table is the name of the table, quoted.
	Table string
	// Quote quotes the name of a column. Text writes a text as a literal.
	Quote, Text func(string) string
	// Contains returns the condition that a column, in quotes, contains a literal in lower case, in any case of its letters.
	Contains func(column, literal string) string
}
