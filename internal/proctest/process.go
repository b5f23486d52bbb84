package proctest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Process is a process that was started. One goroutine reads its lines. The other methods are safe for concurrent use.
type Process struct {
	// In is its standard input.
	In io.WriteCloser

	t     tb // nil after [Begin]
	cmd   *exec.Cmd
	out   output
	logs  output
	ended chan struct{} // closed when it is gone, and its output is complete
	err   error         // how it ended, valid from then on
}

// Begin starts a process. Its standard error is collected for failure messages, unless the command has a place for it.
func Begin(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	p.out.more = make(chan struct{}, 1)
	cmd.Stdout = &p.out
	if cmd.Stderr == nil {
		cmd.Stderr = &p.logs
	}
	cmd.WaitDelay = 10 * time.Second // a process of the process may keep the pipes
	var err error
	if p.In, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// output is what a process has written and no one has read.
type output struct {
	mu   sync.Mutex
	text []byte
	more chan struct{} // gets a value when there is more text. Nil if no one waits for it.
}

// Write implements [io.Writer].
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, text...)
	select {
	case o.more <- struct{}{}:
	default:
	}
	return len(text), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// line takes the first line. Without its end it does not count: the process may have been killed while it wrote the line.
func (o *output) line() (line string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, rest, ok := bytes.Cut(o.text, []byte("\n"))
	if ok {
		o.text = rest
	}
	return string(text), ok
}

// Next waits for the next line that the process prints. It fails when the process has ended, or with ctx.
func (p *Process) Next(ctx context.Context) (string, error) {
	for {
		over := false
		select {
		case <-p.ended:
			over = true
		default:
		}
		switch line, ok := p.out.line(); {
		case ok:
			return line, nil
		case over:
			return "", p.Ended()
		}
		select {
		case <-p.out.more:
		case <-p.ended:
		case <-ctx.Done():
			return "", fmt.Errorf("%w\n%s", context.Cause(ctx), p.Logs())
		}
	}
}

func (p *Process) next() (line string, ok bool) {
	line, err := p.Next(context.Background())
	return line, err == nil
}

// All yields the lines that the process prints until it has ended.
func (p *Process) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line, ok := p.next(); ok && yield(line); line, ok = p.next() {
		}
	}
}

// Lines reads lines until the process has printed n and is killed, a moment later. each gets them all.
func (p *Process) Lines(n int, moment time.Duration, each func(line string)) {
	p.t.Helper()
	for line := range p.All() {
		each(line)
		if n--; n == 0 {
			time.AfterFunc(moment, p.kill)
		}
	}
	if n > 0 {
		p.t.Fatalf("got %v, want %d more lines", p.Ended(), n)
	}
}

func (p *Process) kill() { _ = p.cmd.Process.Kill() } // fails only if it is gone already

// Kill kills the process and waits for its end. It may be repeated.
func (p *Process) Kill() {
	p.kill()
	<-p.ended
}

// Signal sends a signal, for example SIGSTOP, after which the process stands still until SIGCONT.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait ends the input of the process, waits until it has ended by itself, and returns what else it has printed.
func (p *Process) Wait() (output string, err error) {
	p.In.Close()
	<-p.ended
	return p.out.String() + p.logs.String(), p.err
}

// Gone is closed when the process has ended.
func (p *Process) Gone() <-chan struct{} { return p.ended }

// Ended waits until the process has ended, and returns an error that says how, with what it has printed.
func (p *Process) Ended() error {
	<-p.ended
	return fmt.Errorf("the process has ended: %v\n%s", p.cmd.ProcessState, strings.TrimSpace(p.out.String()+p.logs.String()))
}

// Err waits until the process has ended, and returns [Process.Ended] unless it has ended well.
func (p *Process) Err() error {
	if <-p.ended; p.err == nil {
		return nil
	}
	return p.Ended()
}

// Logs returns what the process has written on standard error so far.
func (p *Process) Logs() string { return p.logs.String() }

// Pid returns its number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// State waits until the process has ended, and returns how.
func (p *Process) State() *os.ProcessState {
	<-p.ended
	return p.cmd.ProcessState
}
