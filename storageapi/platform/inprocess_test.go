package platform

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"
)

// A call of a component gets its response, even if the handler has ended before the caller waits for it.
func TestAnswerOfAHandlerThatHasEnded(t *testing.T) {
	const threads = 16 // more than processors, so now and then a caller is stopped while the handler overtakes it
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	life := newRunLife(nil)
	defer life.end()
	client := http.Client{Transport: &selfTransport{life: life, handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})}}
	var callers sync.WaitGroup
	for range threads {
		callers.Go(func() {
			for i := range 500 {
				resp, err := client.Get("http://platform/")
				if err != nil {
					t.Errorf("call %d: %v", i, err)
					return
				}
				if text, err := io.ReadAll(resp.Body); err != nil || len(text) > 0 || resp.StatusCode != http.StatusCreated {
					t.Errorf("call %d: status %d, %q, %v", i, resp.StatusCode, text, err)
				}
				resp.Body.Close()
			}
		})
	}
	callers.Wait()

	stopped := errors.New("stopped")
	for cause, want := range map[error]error{errAnswered: nil, stopped: stopped} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		w := &pipeWriter{begun: make(chan struct{})}
		w.begin(http.StatusCreated)
		seen := false
		for range 100 { // either end is seen first
			err := w.await(ctx)
			if err != nil && err != want {
				t.Fatalf("got %v, want %v", err, want)
			}
			seen = seen || err == want
		}
		if !seen {
			t.Errorf("no call ended with %v", want)
		}
	}
}
