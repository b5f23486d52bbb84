package wire

import (
	"errors"
	"net/http"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driverkit/buildversion"
	"github.com/forebay/forebay/stream/refusal"
)

// ReopenRetryAfter is the Retry-After of responses while a failed store is reopened.
const ReopenRetryAfter = 2 * time.Second

// Ready reports whether a process can accept requests: 200, or 503 with Retry-After. catalog is nil if the process has none.
func Ready(local, catalog func() error) http.Handler {
	type readiness struct {
		Ready      bool   `json:"ready"`
		LocalLevel string `json:"localLevel"`
		Catalog    string `json:"catalog,omitempty"`
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		SetCommonHeaders(w.Header())
		w.Header().Set("Server", buildversion.Product())
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			e := Prefix("stream.").Errorf(http.StatusMethodNotAllowed, "methodNotAllowed", "%s", refusal.WrongMethod(w, r, http.MethodGet, http.MethodHead))
			LeaveBody(w, r)
			WriteJSON(w, e.Status, e.Body(""))
			return
		}
		body, status := readiness{Ready: true}, http.StatusOK
		check := func(state *string, ready func() error) {
			*state = "ok"
			if err := ready(); err != nil {
				*state, body.Ready, status = "unavailable", false, http.StatusServiceUnavailable
				SetRetryAfter(w.Header(), ReopenRetryAfter)
				if over, ok := errors.AsType[*buffer.OverloadError](err); ok {
					*state = "full"
					SetRetryAfter(w.Header(), over.RetryAfter)
				}
			}
		}
		check(&body.LocalLevel, local)
		if catalog != nil {
			check(&body.Catalog, catalog)
		}
		WriteJSON(w, status, body)
	})
}
