package stream

import (
	"net/http"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/stream/internal/wire"
)

// Ready reports whether a process can accept events: 200 when it can, 503 with Retry-After while the local level of the
// engine cannot be written or is closed, and when another node has taken over. The JSON body says which part is unavailable. Mount it
// at /readiness-check next to [Ingest] if a balancer asks. The Stream API has a separate check there, which includes the catalog.
//
// Staging and tables do not count, because events are taken while they are away. Neither does a bound of memory or disk that is
// reached, because another process would have the same bound. Clients see it in their responses. With UnreadyWhenFull of
// [buffer.Tuning] a full disk counts, and the body says "full".
func Ready(eng *forebay.Engine) http.Handler { return wire.Ready(eng.Ready, nil) }
