package stream

import (
	"net/http"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/stream/internal/wire"
)

// Ready answers whether a process can take events: 200 when it can, 503 with Retry-After while the local level of the
// engine cannot be written or is closed, and when another node has taken over. The JSON body says which part is unavailable. Mount it
// at /readiness-check beside [Ingest] if a balancer asks; the Stream API has a check of its own there, which includes the catalog.
//
// Staging and tables do not count: events are taken while they are away. Neither does a bound of memory or disk that is
// reached, because another process would have the same bound: clients see it in their answers. With UnreadyWhenFull of
// [buffer.Tuning] a full disk counts, and the body says "full".
func Ready(eng *forebay.Engine) http.Handler { return wire.Ready(eng.Ready, nil) }
