package clickhouse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/forebay/forebay/datatype"
)

// Columns returns the columns of a table with the types of a mapping. It returns no columns if the table is absent. A type that package datatype lacks
// has its name on the server.
func (t *Target) Columns(ctx context.Context, table string) (columns []datatype.Column, err error) {
	r, err := t.relation(ctx, table)
	if err != nil || r == nil {
		return nil, classify(err)
	}
	for _, c := range r.columns {
		_, nullable := c.base()
		columns = append(columns, datatype.Column{Name: c.name, Type: c.dataType(), Required: !nullable})
	}
	return columns, nil
}

// Rows reads a table, for programs that show or count rows. Each row has the texts of the server for the cells of [Target.Columns]. NULL is the empty
// text. The order is not defined. The sequence ends at the first error.
func (t *Target) Rows(ctx context.Context, table string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		columns, err := t.Columns(ctx, table)
		if err != nil || len(columns) == 0 {
			if err != nil {
				yield(nil, err)
			}
			return
		}
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = "toString(" + quote(c.Name) + ")"
		}
		sql := "SELECT " + strings.Join(names, ", ") + " FROM " + t.table(table)
		answer, _, err := t.client.send(ctx, statement{settings: map[string]string{"default_format": "JSONCompactEachRow"}, body: text(sql)})
		if err != nil {
			yield(nil, classify(err))
			return
		}
		for in := json.NewDecoder(bytes.NewReader(answer)); ; {
			var cells []*string
			err := in.Decode(&cells)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("clickhouse: the response cannot be read: it is larger than %d MB, or damaged: %w", maxAnswer>>20, err))
				return
			}
			row := make([]string, len(cells))
			for i, cell := range cells {
				if cell != nil {
					row[i] = *cell
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}
