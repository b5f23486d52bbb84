package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

const (
	// maxTail bounds what Tail reads, in bytes of text, a few rows of the largest size.
	maxTail = 4 << 20
	// firstTail is read first of a part. It is enough for most tables.
	firstTail = 64 << 10
)

// Tail implements [driver.Tailer]. It reads the parts that are last by name, which is roughly the order of the imports, each from its end,
// and not more than 4 MiB. A compressed part must be read from its start.
func (t *TableDir) Tail(ctx context.Context, table string, n int) (driver.Tail, error) {
	tail, err := t.folder.Tail(ctx, table, n, maxTail, t.tailOf)
	if err != nil {
		return driver.Tail{}, fmt.Errorf("table directory: read the end of %q: %w", table, err)
	}
	return tail, nil
}

// tailOf returns the last n rows of a part, or fewer if those before are beyond the limit, and how many bytes they took.
func (t *TableDir) tailOf(ctx context.Context, d parts.Definition, path string, n int, limit int64) (rows [][][]byte, read int64, err error) {
	p, err := openPart(&t.folder.Store, d, path)
	if err != nil {
		return nil, 0, err
	}
	defer p.file.Close()
	var text []byte
	if file, ok := p.file.(io.ReadSeeker); ok && !p.gzip {
		text, err = tailText(ctx, file, p.size, n, limit)
	} else {
		text, err = wholeText(ctx, p, limit)
	}
	if err != nil {
		return nil, 0, err
	}
	text = lastRows(text, n)
	at := columnsOf(d, p.names)
	for in := newRowReader(bytes.NewReader(text)); ; {
		if !in.Next() {
			return rows, int64(len(text)), in.Err()
		}
		row := make([][]byte, len(d.Columns))
		for i, cell := range in.Cells() {
			if i < len(at) && at[i] >= 0 {
				row[at[i]] = bytes.Clone(cell)
			}
		}
		rows = append(rows, row)
	}
}

// tailText reads the end of the rows that begin at an offset, whole rows only, n of them if the limit allows.
func tailText(ctx context.Context, file io.ReadSeeker, begin int64, n int, limit int64) ([]byte, error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	for length := int64(firstTail); ; length *= 4 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		length = min(length, limit)
		from := max(begin, end-length)
		if _, err := file.Seek(from, io.SeekStart); err != nil {
			return nil, err
		}
		text := make([]byte, end-from)
		if _, err := io.ReadFull(file, text); err != nil {
			return nil, err
		}
		if from == begin {
			return text, nil
		}
		// The first row is cut. It ends at the last of the boundaries, which are searched from the end.
		starts := rowStarts(text, n)
		if len(starts) == n || length == limit && len(starts) > 0 {
			return text[starts[len(starts)-1]:], nil
		}
		if length == limit {
			return nil, driver.ErrTailTooLarge
		}
	}
}

// wholeText reads all rows of a part, if they are not above the limit.
func wholeText(ctx context.Context, p *openedPart, limit int64) ([]byte, error) {
	rows, err := p.rows()
	if err != nil {
		return nil, err
	}
	var text []byte
	for block := make([]byte, firstTail); ; {
		n, err := rows.Read(block)
		text = append(text, block[:n]...)
		switch {
		case errors.Is(err, io.EOF):
			return text, rows.Close()
		case err == nil && int64(len(text)) > limit:
			err = driver.ErrTailTooLarge
		case err == nil && ctx.Err() != nil:
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
	}
}

// lastRows cuts the rows before the last n.
func lastRows(text []byte, n int) []byte {
	if starts := rowStarts(text, n); len(starts) == n {
		return text[starts[n-1]:]
	}
	return text
}

// rowStarts returns where the last n rows of a text begin, searching from the end, as far as the text has the end of the row
// before. Quotes are read backwards from the end of a row, which is outside of all cells. A doubled one counts twice.
func rowStarts(text []byte, n int) (starts []int) {
	quoted := false
	for i := len(text) - 2; i >= 0 && len(starts) < n; i-- {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == '\n' && !quoted:
			starts = append(starts, i+1)
		}
	}
	return starts
}

// Query implements [driver.Querier]. It returns the rows with the latest times, if the table has a time, else the rows of the newest files. It
// assumes that the table was created with the current options.
func (t *TableDir) Query(table driver.Table) (language, query string) {
	path := t.Path(table.ID)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	literal := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	header := "header = true, union_by_name = true"
	if t.folder.NoHeader {
		var names []string
		for _, c := range table.Columns {
			names = append(names, literal(c.Name))
		}
		header = "header = false, names = [" + strings.Join(names, ", ") + "]"
	}
	return "DuckDB", parts.FilesQuery("read_csv", literal(filepath.Join(path, "**", "*.csv*"))+", "+header+", all_varchar = true,\n"+
		"  delim = ',', quote = '\"', escape = '\"', allow_quoted_nulls = false, hive_partitioning = true", table.Columns, false)
}
