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

// look runs check, preview or discover. It shows the result of a configuration before anything is stored.
func look(ctx context.Context, cfg *extractor.Config, state extractor.State, opts extractor.Options, o options, out io.Writer) error {
	if o.verb == "check" {
		return check(ctx, cfg, state, opts, out)
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

// check says what ends each job. The configuration works if each job has a response and no response says that records are missing.
func check(ctx context.Context, cfg *extractor.Config, state extractor.State, opts extractor.Options, out io.Writer) error {
	samples, err := extractor.Preview(ctx, cfg, state, 1, opts)
	if err != nil {
		return err
	}
	doubts := 0
	for _, s := range samples {
		text := "ends now, because " + s.End
		switch {
		case s.Err != nil:
			text = "failed"
		case s.End == "" && s.Depth == 0:
			text = "was not asked, because it has no window yet"
		case s.End == "":
			text = "was not asked, because its parent has no records"
		case !s.Ended:
			text = "has more pages, and ends when " + s.End
		}
		fmt.Fprintf(out, "%s%s (%s) %s\n", strings.Repeat("  ", s.Depth), s.DataType, s.Endpoint, text)
		for _, d := range s.Doubts {
			doubts++
			fmt.Fprintf(out, "%s  look at this: %s\n", strings.Repeat("  ", s.Depth), d)
		}
	}
	switch err := extractor.Failures(samples); {
	case err != nil:
		return err
	case doubts == 0:
		fmt.Fprintln(out, "the configuration works: each job has a response")
	case opts.Strict:
		return usageError{errors.New("records may be missing")}
	default:
		fmt.Fprintln(out, "each job has a response, but records may be missing")
	}
	return nil
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
