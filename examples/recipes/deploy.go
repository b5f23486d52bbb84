package recipes

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
)

// Serve serves events until ctx ends, which a signal does, and then leaves in the order that loses nothing. Readiness says 503, so that the
// balancer sends no more. When noticed returns, the listener closes and requests are completed. Then the engine closes. The rows on its disk
// wait there for the next process. A deploy needs no row to be in its table. Noticed usually sleeps for longer than the balancer's checks take.
func Serve(ctx context.Context, listener net.Listener, eng *forebay.Engine, events http.Handler, noticed func(), log *slog.Logger) error {
	var leaving atomic.Bool
	mux := http.NewServeMux()
	mux.Handle("/", events)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if leaving.Load() || eng.Ready() != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return errors.Join(err, eng.Close())
	case <-ctx.Done():
	}
	leaving.Store(true)
	log.Info("leaving: no longer ready")
	noticed()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err := server.Shutdown(end)
	<-failed
	return errors.Join(err, eng.Close())
}
