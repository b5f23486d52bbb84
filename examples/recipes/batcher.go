package recipes

import (
	"context"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Visit is an event of the program.
type Visit struct {
	// User is the number of the user, Page the path of the page.
	User int64  `json:"user"`
	Page string `json:"page"`
}

// Visits is the source that replaces a slice, its mutex, its ticker and its flush function.
func Visits() forebay.Source {
	return forebay.Source{ID: "visits", Sinks: []forebay.Sink{{
		ID: "visits", Table: forebay.Table{ID: "visits", Columns: mapping.Columns{
			mapping.Datetime("at", mapping.DataType(datatype.Timestamp)),
			mapping.Path("user", "user", mapping.DataType(datatype.Int64)),
			mapping.Path("page", "page", mapping.DataType(datatype.String)),
		}},
	}}}
}

// Record replaces the batcher's Add. It returns once the visit is on disk, so a handler that responds afterwards confirms only stored visits.
func Record(ctx context.Context, eng *forebay.Engine, v Visit) error {
	_, err := eng.Ingest(ctx, "visits", mapping.From(v))
	return err
}
