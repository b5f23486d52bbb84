package recipes

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Usage is a source of metering events. The key of a customer's event is a column too.
func Usage() forebay.Source {
	return forebay.Source{ID: "usage", Sinks: []forebay.Sink{{
		ID: "usage", Table: forebay.Table{ID: "usage", Columns: mapping.Columns{
			mapping.Path("customer", "customer", mapping.DataType(datatype.String), mapping.Required()),
			mapping.Path("key", "key", mapping.DataType(datatype.String), mapping.Required()),
			mapping.Path("units", "units", mapping.DataType(datatype.Int64), mapping.Required()),
			mapping.Datetime("at", mapping.DataType(datatype.Timestamp)),
		}},
	}}}
}

// Metered is one event of a customer.
type Metered struct {
	// Customer is from the authentication, not from the body, so that no customer can use up the keys of others.
	Customer string `json:"customer"`
	Key      string `json:"key"`
	Units    int64  `json:"units"`
}

// Meter is a handler that counts units of a customer once for each key. A repeated event gets the response of the first one.
func Meter(eng *forebay.Engine, customer func(*http.Request) (string, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := customer(r)
		if !ok {
			http.Error(w, "unknown customer", http.StatusUnauthorized)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		var units int64
		if err == nil {
			_, err = fmt.Sscan(string(body), &units)
		}
		if err != nil || key == "" || units < 1 {
			http.Error(w, "the body is a number of units, and Idempotency-Key is needed", http.StatusBadRequest)
			return
		}
		once := forebay.Once{Key: strconv.Quote(who) + key, Content: body} // a customer's keys are its own
		res, err := eng.IngestOnce(r.Context(), "usage", once, []*mapping.Record{mapping.From(Metered{who, key, units})})
		var full *buffer.OverloadError
		switch {
		case errors.Is(err, forebay.ErrOtherContent):
			http.Error(w, "the key was used for other units", http.StatusConflict)
		case errors.As(err, &full): // nothing was stored
			w.Header().Set("Retry-After", fmt.Sprint(max(1, int(full.RetryAfter.Seconds()))))
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case err != nil: // unknown, so the client repeats it with its key
			http.Error(w, "try again", http.StatusServiceUnavailable)
		case res[0].Sinks[0].Replayed:
			fmt.Fprintln(w, "counted before")
		default:
			fmt.Fprintln(w, "counted")
		}
	})
}
