package quickstart

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

// childCommand is the last argument but one of a child process, the data directory is the last. The child writes its address
// and its levels to standard output, one JSON object a line. When its standard input is closed it drains and ends, so it
// also ends when its parent is gone.
const (
	childCommand = "engine-process"
	secretEnv    = "QUICKSTART_SECRET"
)

type message struct {
	URL    string
	Levels levels
}

// runChild is the main function of a child.
func runChild(cfg config, out io.Writer) error {
	signal.Ignore(os.Interrupt) // the parent gets it too, and decides
	ctx := context.Background()
	n, err := startNode(ctx, cfg, cfg.child, os.Getenv(secretEnv))
	if err != nil {
		return err
	}
	tell := func() error {
		return json.NewEncoder(out).Encode(message{n.url(), n.levels()})
	}
	if err := tell(); err != nil {
		return errors.Join(err, n.close())
	}
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			_ = tell()
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it
	return errors.Join(n.drain(ctx), tell(), n.close())
}

// child is a running child process, seen from its parent.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	told  atomic.Pointer[message] // the last one
	over  atomic.Bool             // it was asked to end, or is killed
	ended chan struct{}           // closed when the process is gone
	err   error                   // how it ended, valid from then on
}

// startChild returns when the child serves. fail is called when it ends by itself.
func startChild(cfg config, dir, secret string, fail func(error)) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var args []string
	if cfg.childArgs != nil {
		args = cfg.childArgs()
	}
	c := &child{cmd: exec.Command(exe, append(args, childCommand, dir)...), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), secretEnv+"="+secret)
	c.cmd.Stderr = os.Stderr
	var stdout io.Reader
	if c.stdin, err = c.cmd.StdinPipe(); err == nil {
		stdout, err = c.cmd.StdoutPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	in := json.NewDecoder(stdout)
	hear := func() error {
		m := new(message)
		err := in.Decode(m)
		if err == nil {
			c.told.Store(m)
		}
		return err
	}
	if err := hear(); err != nil {
		return nil, errors.Join(fmt.Errorf("the engine process did not start: %w", err), c.cmd.Wait())
	}
	go func() {
		defer close(c.ended)
		for hear() == nil { // a killed child may leave half a line
		}
		if c.err = c.cmd.Wait(); !c.over.Load() {
			fail(fmt.Errorf("the engine process ended by itself: %v", c.err))
		}
	}()
	return c, nil
}

// drain asks the child to bring every row to its table and to end.
func (c *child) drain() {
	c.over.Store(true)
	c.stdin.Close()
}

// kill ends the child in the middle of whatever it does.
func (c *child) kill() {
	c.over.Store(true)
	_ = c.cmd.Process.Kill() // fails only if it is gone already
	<-c.ended
}

// crashing is a service that is killed with SIGKILL and started again on the same directory. Its clients meet a closed
// port meanwhile, and try again.
type crashing struct {
	start   func() (*child, error)
	rng     *rand.Rand
	current atomic.Pointer[child]
	kills   int

	mu sync.Mutex // held by the client during whose response the service is killed
	at []int64    // the numbers of responses at which it is killed, ascending
}

// startCrashing starts a service that is killed at random numbers of responses. fail is called if it exits by itself.
func startCrashing(cfg config, dir, secret string, l *ledger, fail func(error)) (*crashing, error) {
	s := &crashing{rng: rand.New(rand.NewPCG(cfg.seed, 0xdead))}
	s.start = func() (*child, error) { return startChild(cfg, dir, secret, fail) }
	c, err := s.start()
	if err != nil {
		return nil, err
	}
	s.current.Store(c)
	for range min(cfg.kills-1, cfg.n/2) {
		s.at = append(s.at, 1+s.rng.Int64N(int64(cfg.n)))
	}
	slices.Sort(s.at)
	l.onAnswer = func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.at) == 0 || l.answered.Load() < s.at[0] {
			return nil
		}
		s.at = s.at[1:]
		return s.restart() // with the requests of the other clients on their way
	}
	return s, nil
}

func (s *crashing) restart() error {
	s.current.Load().kill()
	s.kills++
	c, err := s.start()
	if err == nil {
		s.current.Store(c)
	}
	return err
}

func (s *crashing) url() string    { return s.current.Load().told.Load().URL }
func (s *crashing) levels() levels { return s.current.Load().told.Load().Levels }

func (s *crashing) finish(ctx context.Context) error {
	// The last kill hits uploads and imports. The child drains for a random moment only.
	c := s.current.Load()
	c.drain()
	select {
	case <-time.After(time.Duration(s.rng.Int64N(int64(100 * time.Millisecond)))):
	case <-c.ended:
	}
	if err := s.restart(); err != nil {
		return err
	}
	c = s.current.Load()
	c.drain()
	select {
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		c.kill()
		return ctx.Err()
	}
}

// abort is called when the run has failed.
func (s *crashing) abort() { s.current.Load().kill() }
