package recipes

import (
	"context"
	"fmt"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Payments is a source whose column total was text. The typed column has another name, in the same table.
func Payments(typed bool) forebay.Source {
	columns := mapping.Columns{mapping.UUID("id"), mapping.Path("total", "total", mapping.Default(nil))}
	if typed {
		columns = append(columns, mapping.Path("total_amount", "total", mapping.DataType(datatype.Decimal(12, 2))))
	}
	return forebay.Source{ID: "payments", Sinks: []forebay.Sink{{
		ID: "payments", Table: forebay.Table{ID: "in.c-shop.payments", Columns: columns, Extend: true}, OnReject: forebay.Quarantine,
	}}}
}

// Try runs a changed sink alongside the current one on the next records, and stores nothing. It fails if the changed sink rejects a record
// that the current one accepts.
func Try(ctx context.Context, eng *forebay.Engine, source string, changed forebay.Sink, records int64) (forebay.ShadowReport, error) {
	shadow, err := eng.Sink(source, changed.ID).Shadow(ctx, changed, forebay.ShadowOptions{Records: records})
	if err != nil {
		return forebay.ShadowReport{}, err
	}
	select {
	case <-shadow.Done():
	case <-ctx.Done():
	}
	report := shadow.Close()
	if report.OnlyCurrent > 0 {
		return report, fmt.Errorf("the changed mapping rejects %d of %d records, for example: %s", report.OnlyCurrent, report.Compared, report.Errors[0].Message)
	}
	return report, context.Cause(ctx)
}
