package quickstart

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ledger is the clients' knowledge of which deliveries each sink has acknowledged.
type ledger struct {
	run      string       // the prefix of all delivery ids
	answered atomic.Int64 // events with a final response
	onAnswer func() error // called after each of them, nil does nothing

	mu       sync.Mutex
	acked    []map[delivery]struct{} // by sink
	rejected int64
}

func newLedger() *ledger {
	l := &ledger{run: strings.ToLower(rand.Text()[:8])}
	for range sinkIDs {
		l.acked = append(l.acked, make(map[delivery]struct{}))
	}
	return l
}

// response is the part of a response that a client needs, which is the outcome of the event at each sink.
type response struct {
	Sources []struct {
		Sinks []struct {
			SinkID     string
			StatusCode int
		}
	}
}

// record notes the outcome at each sink. A response without sinks is a success at all of them.
func (l *ledger) record(a response, d delivery, final bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(a.Sources) == 0 {
		for _, acked := range l.acked {
			acked[d] = struct{}{}
		}
	}
	for _, src := range a.Sources {
		for _, s := range src.Sinks {
			if s.StatusCode < http.StatusMultipleChoices {
				l.acked[slices.Index(sinkIDs, s.SinkID)][d] = struct{}{}
			} else if final {
				l.rejected++
			}
		}
	}
}

// sendAll sends events 0 to cfg.n-1, each until it has a final response.
func sendAll(ctx context.Context, cfg config, svc service, l *ledger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	transport := &http.Transport{MaxIdleConnsPerHost: cfg.clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}

	var next atomic.Int64
	var wg sync.WaitGroup
	for range cfg.clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				event := next.Add(1) - 1
				if event >= int64(cfg.n) {
					return
				}
				if err := send(ctx, client, cfg, svc, l, uint32(event)); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// send repeats one event until the response is final, that is, a success, or a refusal of the event itself. Every attempt has
// its own number, so that rows can be matched to attempts.
func send(ctx context.Context, client *http.Client, cfg config, svc service, l *ledger, event uint32) error {
	for attempt := uint32(1); ; attempt++ {
		d := delivery{event, attempt}
		body, err := newBody(cfg, l.run, d)
		if err != nil {
			return err
		}
		status, wait, reply, err := post(ctx, client, svc.url(), body)
		success := status == http.StatusOK || status == http.StatusAccepted
		final := success || status < http.StatusInternalServerError
		var a response
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil: // it may or may not be stored
			wait, final = time.Duration(min(attempt, 50))*10*time.Millisecond, false
		case success:
			l.record(response{}, d, true)
		case json.Unmarshal(reply, &a) != nil || final && len(a.Sources) == 0:
			return fmt.Errorf("event %d: unexpected response %d: %s", event, status, reply)
		case len(a.Sources) > 0:
			l.record(a, d, final)
		}
		if final {
			if l.answered.Add(1); l.onAnswer != nil {
				return l.onAnswer()
			}
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// post sends one request. wait is the pause that the server requests before the next attempt, if one is needed.
func post(ctx context.Context, client *http.Client, url string, body []byte) (status int, wait time.Duration, reply []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "example-shop/1.0")
	req.Header.Set("X-Shop", "prague")
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, nil, err
	}
	defer resp.Body.Close()
	reply, err = io.ReadAll(resp.Body)
	wait = 100 * time.Millisecond
	if s, e := strconv.Atoi(resp.Header.Get("Retry-After")); e == nil {
		wait = time.Duration(s) * time.Second
	}
	return resp.StatusCode, wait, reply, err
}
