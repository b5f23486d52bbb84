package driver

import (
	"context"
	"errors"
	"time"

	"github.com/forebay/forebay/datatype"
)

// Querier is an optional interface of a [Target] that knows how people read its tables.
type Querier interface {
	// Query returns a query that shows rows of a table, for people to copy, and the program or language that it is for, such as "DuckDB". It
	// makes no request, and contains neither a password nor a token.
	Query(t Table) (language, query string)
}

// Tailer is an optional interface of a [Target] whose newest rows can be read at once, for people to look at.
type Tailer interface {
	// Tail returns the last rows of a table, n at most. It returns fewer if it would have to read much for the others, and
	// [ErrTailTooLarge] if that is so for the last one. The error of a missing table matches [io/fs.ErrNotExist]. Tail changes nothing, no import
	// waits for it, and it returns soon after the end of ctx.
	Tail(ctx context.Context, table string, n int) (Tail, error)
}

// ErrTailTooLarge says that too much would have to be read for the last row of a table.
var ErrTailTooLarge = errors.New("the newest rows are too large to read them at once")

// Tail is the end of a table. The caller owns it.
type Tail struct {
	// Columns of the table.
	Columns []datatype.Column
	// Rows are in the order of the table, the newest at the end. A cell is the canonical text of its type, as in package datatype. A column of a
	// type that package datatype lacks has texts of the database. NULL is nil.
	Rows [][][]byte
	// Imported is when the last row was imported, or its part written, zero if there is no row or the target does not know it.
	Imported time.Time
}
