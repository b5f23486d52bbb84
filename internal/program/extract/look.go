package extract

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/program/show"
	"github.com/forebay/forebay/mapping"
)

// look runs check, preview or discover: what a configuration gives, before anything is stored.
func look(ctx context.Context, cfg *extractor.Config, state extractor.State, opts extractor.Options, o options, out io.Writer) error {
	if o.verb == "check" {
		if err := extractor.Check(ctx, cfg, state, opts); err != nil {
			return err
		}
		fmt.Fprintln(out, "the configuration works: each job has answered")
		return nil
	}
	records := cmp.Or(o.records, 10)
	if o.verb == "discover" {
		records = cmp.Or(o.records, 1000)
	}
	samples, err := extractor.Preview(ctx, cfg, state, records, opts)
	if err != nil {
		return err
	}
	if o.verb == "preview" {
		for _, s := range samples {
			t := show.Table{ID: strings.Repeat("  ", s.Depth) + s.DataType + " (" + s.Endpoint + ")", Columns: s.Columns(), Keep: records}
			for _, row := range s.Rows() {
				t.Add(row)
			}
			err = errors.Join(err, t.Print(out, 40), s.Err)
		}
		return err
	}
	for _, s := range samples {
		err = errors.Join(err, s.Err)
	}
	for _, t := range extractor.Discover(samples) {
		text, failed := json.MarshalIndent(proposal{t.DataType, t.Records, proposed(t)}, "", "  ")
		if err = errors.Join(err, failed); failed == nil {
			fmt.Fprintf(out, "%s\n", text)
		}
	}
	return err
}

// A proposal is a table as sinks of definitions and of the Stream API have it.
type proposal struct {
	DataType string          `json:"dataType"`
	Records  int             `json:"records"`
	Columns  mapping.Columns `json:"columns"`
}

// proposed returns the columns of a mapping. None is required, because later records may lack fields that these have.
func proposed(t extractor.ProposedTable) mapping.Columns {
	var columns mapping.Columns
	for _, c := range t.Columns {
		columns = append(columns, mapping.Path(c.Name, c.Path, mapping.DataType(datatype.Type(c.Type))))
	}
	return columns
}
