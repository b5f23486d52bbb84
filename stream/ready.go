package stream

import (
	"net/http"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

// readyPath is the usual one of [Ready]: that of the health check beside it.
const readyPath = "/readiness-check"

// readiness is the body of [Ready].
type readiness struct {
	Ready      bool   `json:"ready"`
	LocalLevel string `json:"localLevel"`
	Catalog    string `json:"catalog,omitempty"`
}

// Ready answers whether a process can take requests now: 200 when it can, 503 with Retry-After while the local level of
// the engine or the store of the catalog cannot be written, or is closed. The JSON body says which. The catalog may be
// nil. [API] has it at /readiness-check; mount it there beside [Ingest] too, if a balancer asks.
//
// Staging and tables are not asked for: events are taken while they are away. A bound of memory or disk that is reached
// is no reason either, because another process would not end it: clients see it in their answers.
func Ready(eng *forebay.Engine, cat *catalog.Catalog) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setCommonHeaders(w.Header())
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body := readiness{Ready: true}
		check := func(state *string, err error) {
			*state = "ok"
			if err != nil {
				*state, body.Ready = "unavailable", false
			}
		}
		check(&body.LocalLevel, eng.Ready())
		if cat != nil {
			check(&body.Catalog, cat.Ready())
		}
		status := http.StatusOK
		if !body.Ready {
			status = http.StatusServiceUnavailable
			setRetryAfter(w.Header(), failedRetryAfter)
		}
		writeJSON(w, status, body)
	})
}
