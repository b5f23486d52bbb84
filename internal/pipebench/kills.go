package pipebench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// serviceEnv tells a process that it is a service that will be killed. It has a task as JSON.
const serviceEnv = "FOREBAY_PIPELINE_SERVICE"

// task is what a process serves.
type task struct {
	Way, Dir string
	Address  string // of the database
}

// Address returns the address of the database in a process that is a service. That process passes a [Database] at this address to [Run], and does not
// start a server.
func Address() (address string, ok bool) {
	var t task
	err := json.Unmarshal([]byte(os.Getenv(serviceEnv)), &t)
	return t.Address, err == nil
}

// endFile is the descriptor of the pipe whose end makes a service store all rows and end.
const endFile = 3

// serveUntilKilled writes where it serves to stdout.
func (b *bench) serveUntilKilled(ctx context.Context, text string, stdout io.Writer) (err error) {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	opens := map[string]opener{
		byInserts: b.inserts, byLater: b.later,
		byEngine: func(ctx context.Context) (*service, error) { return b.engineIn(ctx, t.Dir) },
	}
	s, err := opens[t.Way](ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = s.serve(listener) }() // close ends it
	if _, err := fmt.Fprintf(stdout, "%s %s\n", listener.Addr(), s.path); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.NewFile(endFile, "end")); err != nil {
		return err
	}
	return s.flush(ctx)
}

// process is a service in another process.
type process struct {
	cmd        *exec.Cmd
	end        io.Closer // ends it after it has stored all rows
	failure    *strings.Builder
	addr, path string
}

func startProcess(ctx context.Context, t task) (*process, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, os.Args[0]), failure: new(strings.Builder)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), serviceEnv+"="+string(text)), p.failure
	end, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer end.Close()
	p.cmd.ExtraFiles, p.end = []*os.File{end}, pipe
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, p.failed(p.cmd.Wait())
	}
	p.addr, p.path, _ = strings.Cut(lines.Text(), " ")
	return p, nil
}

func (p *process) failed(err error) error { return fmt.Errorf("service: %w: %s", err, p.failure) }

// killed kills the service again and again while the client sends, and compares the events that it has confirmed with the rows in the table.
func (b *bench) killed(ctx context.Context, r *result) error {
	for _, way := range []string{byInserts, byLater, byEngine} {
		m, err := b.killedWay(ctx, way)
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		r.add(way, m)
	}
	r.finish()
	r.goal("rows of the engine lost", r.Ways[byEngine].Lost, "<=", 0)
	r.goal("rows of the engine doubled", r.Ways[byEngine].Doubled, "<=", 0)
	return nil
}

func (b *bench) killedWay(ctx context.Context, way string) (m measured, err error) {
	if err := b.db.Reset(ctx); err != nil {
		return m, err
	}
	dir, err := os.MkdirTemp(b.dir, "pipeline-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := task{way, dir, b.db.Address}
	var confirmed []int64
	for kill := range b.kills {
		p, err := startProcess(ctx, t)
		if err != nil {
			return m, err
		}
		var answers sent
		first, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			var err error
			answers, err = runClient(ctx, order{p.addr, p.path, time.Hour, 1 + int64(kill)*connections*eachConnection}, func() { close(first) })
			ended <- err
		}()
		select {
		case <-first:
		case err := <-ended:
			return m, fmt.Errorf("no event was confirmed: %w", errors.Join(err, p.cmd.Process.Kill(), p.failed(p.cmd.Wait())))
		}
		// The moments differ, because the engine and the batcher do something every second.
		err = errors.Join(ctxio.Sleep(ctx, b.duration/10+b.duration/100*time.Duration(kill)), p.cmd.Process.Kill())
		_ = p.cmd.Wait() // it was killed
		if err = errors.Join(err, p.end.Close(), <-ended); err != nil {
			return m, err
		}
		confirmed = append(confirmed, answers.Confirmed...)
	}
	p, err := startProcess(ctx, t)
	if err != nil {
		return m, err
	}
	if err := errors.Join(p.end.Close(), p.cmd.Wait()); err != nil {
		return m, p.failed(err)
	}
	stored, err := b.db.Users(ctx)
	if err != nil {
		return m, err
	}
	m.Confirmed = float64(len(confirmed))
	for _, user := range confirmed {
		if stored[user] == 0 {
			m.Lost++
		}
	}
	for _, rows := range stored {
		m.Doubled += float64(rows - 1)
	}
	return m, nil
}
