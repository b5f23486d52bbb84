package wire

import (
	"errors"
	"net/http"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/buildversion"
)

// ReopenRetryAfter is the Retry-After of answers while a failed store is reopened.
const ReopenRetryAfter = 2 * time.Second

// Ready answers whether a process can take requests: 200, or 503 with Retry-After. catalog is nil where there is none.
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
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
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
