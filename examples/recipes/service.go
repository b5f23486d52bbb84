package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Requests is a source whose rows no request waits for.
func Requests() forebay.Source {
	return forebay.Source{ID: "requests", Settings: forebay.Settings{Sync: forebay.SyncUnsafe}, Sinks: []forebay.Sink{{
		ID: "requests", Table: forebay.Table{ID: "in.c-shop.requests", Columns: mapping.Columns{
			mapping.Path("method", "method", mapping.RawString()), mapping.Path("path", "path", mapping.RawString()),
			mapping.Path("status", "status", mapping.DataType(datatype.Int64)), mapping.Path("millis", "millis", mapping.DataType(datatype.Float64)),
			mapping.Path("at", "at", mapping.DataType(datatype.Timestamp)),
		}},
	}}}
}

// Orders is the source whose rows must not be lost.
func Orders() forebay.Source {
	return forebay.Source{ID: "orders", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "in.c-shop.orders", Columns: mapping.Columns{
			mapping.UUID("id"), mapping.Path("number", "number", mapping.RawString()), mapping.Body("order"),
		}},
	}}}
}

// Request is a row of the table of requests.
type Request struct {
	// Path is without the query, which may contain secrets. Millis is the duration of the request.
	Method string    `json:"method"`
	Path   string    `json:"path"`
	Status int       `json:"status"`
	Millis float64   `json:"millis"`
	At     time.Time `json:"at"`
}

// LogRequests returns a middleware, for net/http and for routers such as chi, that stores a row for each request. It does not wait for the disk.
func LogRequests(eng *forebay.Engine, log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began, seen := time.Now(), &statusWriter{ResponseWriter: w, status: http.StatusOK}
			defer func() {
				failed := recover()
				if failed != nil {
					seen.status = http.StatusInternalServerError
				}
				row := mapping.From(Request{r.Method, r.URL.Path, seen.status, float64(time.Since(began).Microseconds()) / 1000, began})
				if _, err := eng.Ingest(context.WithoutCancel(r.Context()), "requests", row); err != nil {
					log.Warn("request not recorded", "error", err) // the request itself succeeds
				}
				if failed != nil {
					panic(failed) // the server, or a middleware before this one, handles it
				}
			}()
			next.ServeHTTP(seen, r)
		})
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the methods that statusWriter hides.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// PlaceOrder stores an order and responds when it is on disk. A client that repeats a request with the same Idempotency-Key places one order.
func PlaceOrder(eng *forebay.Engine) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			http.Error(w, "the body is incomplete or too large", http.StatusBadRequest)
			return
		}
		once := forebay.Once{Key: r.Header.Get("Idempotency-Key"), Content: body}
		if once.Key == "" {
			http.Error(w, "Idempotency-Key is missing", http.StatusBadRequest)
			return
		}
		_, err = eng.IngestOnce(r.Context(), "orders", once, []*mapping.Record{mapping.JSON(body)})
		var rejected *mapping.Error
		var full *buffer.OverloadError
		switch {
		case err == nil:
			w.WriteHeader(http.StatusCreated)
		case errors.As(err, &rejected): // repeating it does not help
			http.Error(w, rejected.Error(), http.StatusUnprocessableEntity)
		case errors.Is(err, forebay.ErrOtherContent):
			http.Error(w, "the key was used for another order", http.StatusUnprocessableEntity)
		case errors.As(err, &full): // nothing was stored
			w.Header().Set("Retry-After", fmt.Sprint(max(1, int(full.RetryAfter.Seconds()))))
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		default: // it is unknown whether the order was stored, so the client repeats it with its key
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
}
