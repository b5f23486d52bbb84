package extractor

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// paceConfig bounds the rate of requests. It is comparable, and iterations with equal bounds share them.
type paceConfig struct {
	perSecond        float64 // 0 means no bound
	burst            int
	remaining, reset string // names of headers, "" for none
}

func parsePace(api *section) paceConfig {
	s := api.section("rateLimit")
	if s == nil {
		return paceConfig{}
	}
	positive := func(key string, byDefault float64) float64 {
		n, ok := s.get(key)
		if !ok {
			return byDefault
		}
		f, ok := n.Number()
		if !ok || f.Real() <= 0 || f.Real() > 1e9 {
			s.wrong(key, "must be a positive number")
			return 1
		}
		return f.Real()
	}
	pc := paceConfig{burst: max(int(min(positive("burst", 1), 1e6)), 1), remaining: s.text("remaining", ""), reset: s.text("reset", "")}
	requests, seconds := positive("requests", 0), positive("seconds", 1)
	pc.perSecond = requests / seconds
	if (pc.remaining == "") != (pc.reset == "") {
		s.wrong("reset", "remaining and reset are needed together")
	}
	if pc.perSecond == 0 && pc.remaining == "" {
		s.wrong("requests", "is required, or remaining and reset")
	}
	s.done()
	return pc
}

// A pace makes requests wait for their turn. It is safe for concurrent use. Nil lets all pass.
type pace struct {
	config paceConfig

	mu sync.Mutex
	// free is when the bound of the rate would let a request pass without a burst.
	free time.Time
	// until is when the server accepts requests again.
	until time.Time
}

func newPace(pc paceConfig) *pace {
	if pc == (paceConfig{}) {
		return nil
	}
	return &pace{config: pc}
}

// turn books the turn of a request and returns the time until then.
func (p *pace) turn(now time.Time) time.Duration {
	if p.config.perSecond == 0 {
		return 0
	}
	every := time.Duration(float64(time.Second) / p.config.perSecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	at := p.free.Add(-time.Duration(p.config.burst-1) * every)
	p.free = p.free.Add(every)
	return at.Sub(now)
}

// wait returns when a request may be sent. It is an error when the server asks for a longer pause than most.
func (p *pace) wait(ctx context.Context, most time.Duration) error {
	if p == nil {
		return nil
	}
	// A response that arrives while a request waits for its turn may say that nothing remains. Then the request waits for another turn.
	for {
		if err := p.waitForServer(ctx, most); err != nil {
			return err
		}
		if err := ctxio.Sleep(ctx, p.turn(time.Now())); err != nil {
			return err
		}
		if p.closedFor() <= 0 {
			return nil
		}
	}
}

// closedFor returns how long the server accepts no request.
func (p *pace) closedFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until)
}

func (p *pace) waitForServer(ctx context.Context, most time.Duration) error {
	for {
		pause := p.closedFor()
		if pause <= 0 {
			return nil
		}
		if pause > most {
			return fmt.Errorf("the server accepts no request for %s, more than %s", pause.Round(time.Second), most)
		}
		if err := ctxio.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// exhausted reports whether the headers of a response say that nothing remains.
func (p *pace) exhausted(h http.Header) bool {
	if p == nil || p.config.remaining == "" {
		return false
	}
	left, err := strconv.ParseFloat(strings.TrimSpace(h.Get(p.config.remaining)), 64)
	return err == nil && left < 1
}

// learn reads the headers of a response. When nothing remains, requests wait until the reset, which [pauseIn] reads.
func (p *pace) learn(h http.Header, now time.Time) {
	if !p.exhausted(h) {
		return
	}
	pause, ok := pauseIn(h.Get(p.config.reset), now)
	if !ok {
		return
	}
	until := now.Add(pause)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.until) {
		p.until = until
	}
}
