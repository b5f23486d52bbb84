package recipes

import (
	"context"
	"fmt"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Prices is a source whose column price takes numbers. Events without a number are quarantined until an operator looks.
func Prices(price string) forebay.Source {
	return forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "prices", OnReject: forebay.Quarantine,
		Table: forebay.Table{ID: "in.c-shop.prices", Columns: mapping.Columns{
			mapping.Path("article", "article", mapping.DataType(datatype.String), mapping.Required()),
			mapping.Template("price", price, mapping.DataType(datatype.Decimal(10, 2))),
		}},
	}}}
}

// Repair repairs the events that a sink has rejected. It counts them by cause, switches the source to a definition that accepts them,
// and replays them. Each becomes one row, even if Repair is called again after a crash. Events that are rejected again stay, with the new reason.
func Repair(ctx context.Context, eng *forebay.Engine, changed forebay.Source, say func(string)) (forebay.ReplayResult, error) {
	q := eng.Sink(changed.ID, changed.Sinks[0].ID).Quarantine()
	causes := make(map[string]int)
	var first string
	for r, err := range q.List(ctx, forebay.RejectedFilter{}) {
		if err != nil {
			return forebay.ReplayResult{}, err
		}
		causes[r.Column+": "+string(r.Reason)]++
		if first == "" {
			first = r.ID
		}
	}
	for cause, n := range causes {
		say(fmt.Sprintf("%d records, column %s", n, cause))
	}
	if first == "" {
		return forebay.ReplayResult{}, nil
	}
	if err := eng.Define(ctx, changed); err != nil {
		return forebay.ReplayResult{}, err
	}
	cells, err := q.Test(ctx, first) // the result of the new definition for one of them. Nothing is stored
	if err != nil {
		return forebay.ReplayResult{}, err
	}
	for _, cell := range cells {
		say(fmt.Sprintf("%s = %s", cell.Column, cell.Value))
	}
	return q.ReplayAll(ctx, forebay.RejectedFilter{})
}
