package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// process is a node as the process that starts it sees it. One goroutine starts and ends it.
type process struct {
	nodeConfig
	say    func(format string, args ...any)
	failed func(error) // gets the process's exit if it was not ended on purpose

	cmd   *exec.Cmd
	stdin io.WriteCloser
	over  *atomic.Bool  // it was asked to end, or is killed
	ended chan struct{} // closed when the process is gone
	err   error         // how it ended, valid from then on
	done  chan message  // replies to commands

	mu      sync.Mutex
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
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	env, err := json.Marshal(p.nodeConfig)
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(env))
	cmd.Stderr = os.Stderr
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.mu.Lock()
	p.cmd = cmd
	p.mu.Unlock()
	over, ended := new(atomic.Bool), make(chan struct{})
	p.over, p.ended = over, ended
	go func() {
		defer close(ended)
		for in := json.NewDecoder(stdout); ; {
			var m message
			if in.Decode(&m) != nil { // a killed node may leave half a line
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
		p.err = cmd.Wait()
		p.set(func() { p.told, p.status, p.cmd = message{}, readiness{}, nil })
		if !over.Load() {
			p.failed(fmt.Errorf("node %s has ended by itself: %v; see %s", p.Name, p.err, p.logPath()))
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
	if p.cmd != nil {
		pid = p.cmd.Process.Pid
	}
	return p.told, p.status, pid
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

// do lets the node carry out a command.
func (p *process) do(ctx context.Context, command string) error {
	for len(p.done) > 0 {
		<-p.done // a reply that arrived too late
	}
	if _, err := io.WriteString(p.stdin, command+"\n"); err != nil {
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
	p.mu.Lock()
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // fails only if it is gone already
	}
	p.mu.Unlock()
	<-p.ended
}

// stop ends the node in good order. It fails if that takes too long.
func (p *process) stop() error {
	p.over.Store(true)
	cmd := p.cmd
	p.stdin.Close()
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	<-p.ended
	if p.err != nil {
		return fmt.Errorf("node %s ended badly: %w; see %s", p.Name, p.err, p.logPath())
	}
	return nil
}

// wipe removes the disk of a node that does not run.
func (p *process) wipe() error { return os.RemoveAll(p.folder()) }

// signal lets the node stand still, or continue.
func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

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
			if p.told.Address == m.Address && (p.cmd == nil || p.cmd.Process.Pid == pid) { // else the response is from the previous process
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
