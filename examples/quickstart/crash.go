package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// childCommand is the first argument of a child process, the data directory is the second. The child tells its
// address and its levels on standard output, one JSON object a line. When its standard input is closed it drains and
// ends; so it also ends when its parent is gone.
const (
	childCommand = "engine-process"
	secretEnv    = "QUICKSTART_SECRET"
)

type message struct {
	URL    string  `json:",omitempty"`
	Levels *levels `json:",omitempty"`
}

// runChild is the main function of a child.
func runChild(dir string) error {
	signal.Ignore(os.Interrupt) // the parent gets it too, and decides
	ctx := context.Background()
	n, err := startNode(ctx, dir, os.Getenv(secretEnv))
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(message{URL: n.url}); err != nil {
		return errors.Join(err, n.eng.Close())
	}
	drained := make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // any end is the end
		drained <- n.drain(ctx)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case err := <-drained:
			l := n.levels()
			return errors.Join(err, out.Encode(message{Levels: &l}), n.eng.Close())
		}
		l := n.levels()
		if err := out.Encode(message{Levels: &l}); err != nil {
			return errors.Join(err, n.eng.Close())
		}
	}
}

// child is a running child process, seen from its parent.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
	// ended is closed when the process is gone; err is how, valid from then on.
	ended chan struct{}
	err   error
}

// startChild returns when the child serves. Its levels go to tell.
func startChild(dir, secret string, tell func(levels)) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(exe, childCommand, dir), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), secretEnv+"="+secret)
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	in := json.NewDecoder(stdout)
	var hello message
	if err := in.Decode(&hello); err != nil {
		return nil, errors.Join(fmt.Errorf("the engine process did not start: %w", err), c.cmd.Wait())
	}
	c.url = hello.URL
	go func() {
		defer close(c.ended)
		for {
			var m message
			if in.Decode(&m) != nil { // a killed child may leave half a line
				break
			}
			if m.Levels != nil {
				tell(*m.Levels)
			}
		}
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only if it is gone already
	<-c.ended
}

// crashing is a service that is killed with SIGKILL and started again on the same directory.
type crashing struct {
	dir, secret string
	rng         *rand.Rand
	told        atomic.Pointer[levels]
	killed      int
	replayed    chan error // the result of the goroutine that kills

	mu      sync.Mutex
	current *child
	up      chan struct{} // closed while current serves
	failed  error
}

func startCrashing(cfg config, dir, secret string, l *ledger) (*crashing, error) {
	s := &crashing{
		dir: dir, secret: secret, rng: rand.New(rand.NewPCG(cfg.seed, 0xdead)), up: make(chan struct{}),
		replayed: make(chan error, 1),
	}
	s.told.Store(new(levels))
	if err := s.start(); err != nil {
		return nil, err
	}
	// All but the last kill happen at random numbers of answered events, with other requests on their way.
	var at []int64
	for range min(cfg.kills-1, cfg.n/2) {
		at = append(at, 1+s.rng.Int64N(int64(cfg.n)))
	}
	slices.Sort(at)
	at = slices.Compact(at)
	due := l.notifyAt(at)
	go func() {
		for range at {
			<-due
			if err := s.restart(); err != nil {
				s.replayed <- err
				return
			}
		}
		s.replayed <- nil
	}()
	return s, nil
}

func (s *crashing) start() error {
	c, err := startChild(s.dir, s.secret, func(l levels) { s.told.Store(&l) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.failed = c, err
	close(s.up)
	return err
}

// restart kills the child in the middle of whatever it does.
func (s *crashing) restart() error {
	s.mu.Lock()
	c := s.current
	s.up = make(chan struct{})
	s.mu.Unlock()
	c.kill()
	s.killed++
	return s.start()
}

func (s *crashing) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.url
}

func (s *crashing) endpoint(ctx context.Context) (string, error) {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return "", s.failed
	}
	select {
	case <-s.current.ended:
		if s.up == up {
			return "", fmt.Errorf("the engine process ended by itself: %v", s.current.err)
		}
	default:
	}
	return s.current.url, nil
}

func (s *crashing) levels() levels { return *s.told.Load() }

func (s *crashing) finish(ctx context.Context) error {
	if err := <-s.replayed; err != nil {
		return err
	}
	// The last kill hits uploads and imports: the child drains for a random moment only.
	s.current.stdin.Close()
	select {
	case <-time.After(time.Duration(s.rng.Int64N(int64(100 * time.Millisecond)))):
	case <-s.current.ended:
	}
	if err := s.restart(); err != nil {
		return err
	}
	s.current.stdin.Close()
	select {
	case <-s.current.ended:
	case <-ctx.Done():
		s.current.kill()
		return ctx.Err()
	}
	if err := s.current.err; err != nil {
		return fmt.Errorf("engine process: %w", err)
	}
	return nil
}

func (s *crashing) abort() {
	s.mu.Lock()
	c := s.current
	s.mu.Unlock()
	if c != nil {
		c.kill()
	}
}

func (s *crashing) note() string {
	return fmt.Sprintf("the engine was killed %d times and recovered each time", s.killed)
}
