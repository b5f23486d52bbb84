package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/proctest"
)

// process is a node as the process that starts it sees it. One goroutine starts and ends it.
type process struct {
	nodeConfig
	say    func(format string, args ...any)
	failed func(error) // gets the process's exit if it was not ended on purpose

	*proctest.Process
	over  *atomic.Bool  // it was asked to end, or is killed
	ended chan struct{} // closed when the process is gone, and this is known
	done  chan message  // replies to commands

	mu      sync.Mutex
	pid     int // 0 if it is gone
	told    message
	status  readiness
	changed chan struct{} // closed when one of them changes
}

// readiness is the response of a node to a readiness check.
type readiness struct {
	Instance          string
	Ready             bool
	Missing           string
	Adopting, Adopted []string
}

// start starts the process. It does not wait until the node serves.
func (p *process) start() error {
	cmd := proctest.Self(nodeEnv + "=" + proctest.JSON(p.nodeConfig))
	cmd.Stderr = os.Stderr
	running, err := proctest.Begin(cmd)
	if err != nil {
		return err
	}
	over, ended := new(atomic.Bool), make(chan struct{})
	p.Process, p.over, p.ended = running, over, ended
	p.set(func() { p.pid = running.Pid() })
	go func() {
		defer close(ended)
		for line := range running.All() {
			var m message
			if json.Unmarshal([]byte(line), &m) != nil {
				break
			}
			if m.Lost != "" {
				p.say("%s has lost its instance, and begins a new one: %s", p.Name, m.Lost)
			}
			if m.Done != "" {
				select {
				case p.done <- m:
				default: // no command waits
				}
			}
			p.set(func() {
				if p.told = m; m.Address == "" {
					p.status = readiness{}
				}
			})
		}
		how := running.Ended()
		p.set(func() { p.told, p.status, p.pid = message{}, readiness{}, 0 })
		if !over.Load() {
			p.failed(fmt.Errorf("node %s: %w; see %s", p.Name, how, p.logPath()))
		}
	}()
	return nil
}

// set changes the known state of the node.
func (p *process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// state returns the known state of the node.
func (p *process) state() (m message, s readiness, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told, p.status, p.pid
}

// await waits until the known state of the node meets a condition.
func (p *process) await(ctx context.Context, what string, met func(message, readiness) bool) error {
	for {
		p.mu.Lock()
		ok, changed, missing := met(p.told, p.status), p.changed, p.status.Missing
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("node %s is not %s: %w: %s; see %s", p.Name, what, context.Cause(ctx), missing, p.logPath())
		}
	}
}

func (p *process) awaitReady(ctx context.Context) error {
	return p.await(ctx, "ready", func(_ message, s readiness) bool { return s.Ready })
}

// instance returns the instance of the node, once it is known. A busy node may not have responded to the last readiness check.
func (p *process) instance(ctx context.Context) (instance string, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	err = p.await(ctx, "ready", func(_ message, s readiness) bool {
		instance = s.Instance
		return s.Ready && instance != ""
	})
	return instance, err
}

// do lets the node carry out a command.
func (p *process) do(ctx context.Context, command string) error {
	for len(p.done) > 0 {
		<-p.done // a reply that arrived too late
	}
	if _, err := fmt.Fprintln(p.In, command); err != nil {
		return err
	}
	for {
		select {
		case m := <-p.done:
			switch {
			case m.Done != command:
			case m.Failed != "":
				return fmt.Errorf("node %s: %s: %s", p.Name, command, m.Failed)
			default:
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("node %s: %s: %w", p.Name, command, context.Cause(ctx))
		}
	}
}

// kill ends the node in the middle of whatever it does.
func (p *process) kill() {
	p.over.Store(true)
	p.Kill()
	<-p.ended
}

// stop ends the node in good order. It fails if that takes too long.
func (p *process) stop() error {
	p.over.Store(true)
	p.In.Close()
	timer := time.AfterFunc(time.Minute, p.Kill)
	defer timer.Stop()
	<-p.ended
	if err := p.Err(); err != nil {
		return fmt.Errorf("node %s: %w; see %s", p.Name, err, p.logPath())
	}
	return nil
}

// wipe removes the disk of a node that does not run.
func (p *process) wipe() error { return os.RemoveAll(p.folder()) }

// watch asks the node how it is until ctx ends.
func (p *process) watch(ctx context.Context) {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		m, _, pid := p.state()
		var found readiness
		if m.Address != "" {
			found = ready(ctx, client, m.Address)
		}
		p.set(func() {
			if p.told.Address == m.Address && p.pid == pid { // else the response is from the previous process
				p.status = found
			}
		})
		_ = ctxio.Sleep(ctx, 300*time.Millisecond)
	}
}

func ready(ctx context.Context, client *http.Client, address string) (r readiness) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readiness-check", nil)
	if err != nil {
		return readiness{Missing: err.Error()}
	}
	resp, err := client.Do(req)
	if err != nil {
		return readiness{Missing: err.Error()}
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		return readiness{Missing: err.Error()}
	}
	return r
}

// nodes are all of them.
type nodes []*process

// urls are the addresses of the nodes that are ready.
func (ns nodes) urls() (list []string) {
	for _, p := range ns {
		if m, s, _ := p.state(); s.Ready && m.Address != "" {
			list = append(list, m.Address)
		}
	}
	return list
}

// longest bounds each wait, as an election takes 4 to 9 seconds, and more on a busy machine.
const longest = 4 * time.Minute

func (ns nodes) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for _, p := range ns {
		if err := p.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitTaken waits until another node has taken over an instance. It may keep it, because an instance stays while its quarantine has records.
func (ns nodes) awaitTaken(ctx context.Context, instance string) (by string, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		for _, p := range ns {
			if _, s, _ := p.state(); slices.Contains(s.Adopting, instance) || slices.Contains(s.Adopted, instance) {
				return p.Name, nil
			}
		}
		if err := ctxio.Sleep(ctx, 100*time.Millisecond); err != nil {
			return "", fmt.Errorf("no node takes over %s: %w", instance, err)
		}
	}
}

// doAll lets all nodes carry out a command, and repeats it at a node where it fails.
func (ns nodes) doAll(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*longest)
	defer cancel()
	for _, p := range ns {
		for {
			once, cancel := context.WithTimeout(ctx, 3*time.Minute) // a node that loses its instance does not reply
			err := p.do(once, command)
			cancel()
			if err == nil {
				break
			}
			if strings.Contains(err.Error(), ledgerDiffers) {
				return err
			}
			if wait := ctxio.Sleep(ctx, time.Second); wait != nil {
				return errors.Join(err, wait)
			}
		}
	}
	return nil
}
