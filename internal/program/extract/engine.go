package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/extractor/feed"
	"github.com/forebay/forebay/internal/program/show"
	"github.com/forebay/forebay/internal/program/store"
	"github.com/forebay/forebay/mapping"
)

// tables feeds an engine with the records of an extraction. It has a source and a table for every data type, defined when its
// first page arrives.
type tables struct {
	eng   *forebay.Engine
	store *store.Store
	toy   bool // whether the bundled API sends the records
	// source is by data type. It belongs to the state, because an id is made unique in the order in which data types arrive, and
	// a run that resumes in the middle sees a different order.
	source map[string]string
	// proposals are the columns of -columns by data type. Other data types have the whole record in one column.
	proposals map[string]mapping.Columns
	// bucket is the bucket of the page at hand, buckets the number of different ones.
	bucket  string
	buckets int
}

func openTables(o options, names map[string]string, logger *slog.Logger) (*tables, error) {
	proposals, err := readProposals(o.columns)
	if err != nil {
		return nil, usageError{err}
	}
	st, err := o.open(o.data)
	if err != nil {
		return nil, usageError{err}
	}
	eng, err := forebay.Open(o.data, forebay.Options{Logger: logger, Target: st.Target, Staging: st.Staging})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	source := make(map[string]string)
	maps.Copy(source, names)
	return &tables{eng: eng, store: st, toy: o.config == "", source: source, proposals: proposals}, nil
}

// columns of a table, the whole record, or the fields of a record that the program knows.
func (t *tables) columns(dataType string) mapping.Columns {
	text := func(name, path string) mapping.Column {
		return mapping.Path(name, path, mapping.Default(`""`), mapping.RawString())
	}
	if columns, ok := t.proposals[dataType]; ok {
		return columns
	}
	switch {
	case t.toy && dataType == "orders":
		return mapping.Columns{text("id", "id"), text("customer", "customer.name"), text("total", "total"), mapping.Datetime("pulled")}
	case t.toy && dataType == "items":
		return mapping.Columns{text("order_id", "parent_id"), text("sku", "sku"), text("quantity", "quantity"), mapping.Datetime("pulled")}
	}
	return mapping.Columns{mapping.UUID("id"), mapping.Datetime("pulled"), mapping.Body("record")}
}

// tableID returns the table of a source, in the bucket of the configuration, or in the bucket extract.
func tableID(bucket, source string) string { return "in.c-" + cmp.Or(bucket, "extract") + "." + source }

// emit stores a page in the tables of its bucket.
func (t *tables) emit() func(context.Context, *extractor.Page) error {
	store := feed.Into(t.eng, t.define)
	return func(ctx context.Context, p *extractor.Page) error {
		t.bucket = p.Bucket // one page at a time
		return store(ctx, p)
	}
}

func (t *tables) define(ctx context.Context, dataType string) (string, error) {
	key := dataType
	if t.buckets > 1 { // each has its own tables
		key = t.bucket + "." + dataType
	}
	id, ok := t.source[key]
	if _, defined := t.eng.Source(id); defined {
		return id, nil
	}
	if !ok {
		id = sourceID(dataType)
		for n := 2; slices.Contains(slices.Collect(maps.Values(t.source)), id); n++ {
			id = fmt.Sprintf("%s-%d", sourceID(dataType), n)
		}
	}
	err := t.eng.Define(ctx, forebay.Source{ID: id, Sinks: []forebay.Sink{{
		ID: "records", Table: forebay.Table{ID: tableID(t.bucket, id), Columns: t.columns(dataType)},
	}}})
	t.source[key] = id
	return id, err
}

// sourceID makes an id of a data type, which may be any text.
func sourceID(dataType string) string {
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(dataType))
	id = strings.Trim(id[:min(len(id), 40)], "-")
	if id == "" {
		return "records"
	}
	return id
}

// report waits until everything is in the tables, and shows them.
func (t *tables) report(ctx context.Context, out io.Writer) error {
	if err := t.eng.FlushAll(ctx); err != nil {
		return err
	}
	for _, s := range t.eng.Sources() {
		id := s.Sinks[0].Table.ID
		columns, err := t.store.Tables.Columns(id)
		if err != nil {
			return err
		}
		shown := show.Table{ID: id, Columns: datatype.Names(columns), Keep: 5}
		for row, err := range t.store.Tables.Rows(id) {
			if err != nil {
				return err
			}
			shown.Add(row)
		}
		if err := shown.Print(out, 60); err != nil {
			return err
		}
	}
	return nil
}
