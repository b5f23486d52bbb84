package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// process is a node as the process that starts it sees it. One goroutine starts and ends it.
type process struct {
	nodeConfig
	// lost receives the reason why the node has lost its instance, and failed how the process has ended if it ended by itself.
	lost   func(why string)
	failed func(error)
	// program is the program, and next a different build of it.
	program, next string
	run           func(*exec.Cmd) error
	// client sends events, and asker asks how the node is.
	client, asker *http.Client

	cmd   *exec.Cmd
	stdin io.WriteCloser
	over  *atomic.Bool  // it was asked to end, or is killed
	frail atomic.Bool   // it may end by itself
	ended chan struct{} // closed when the process is gone
	err   error         // how it ended, valid from then on

	mu      sync.Mutex
	told    message
	status  readiness
	gone    bool          // the process has ended
	what    string        // what was done to it, for people, empty if nothing
	changed chan struct{} // closed when one of them changes
}

func newProcess(cfg nodeConfig, lost func(string), failed func(error)) *process {
	return &process{nodeConfig: cfg, lost: lost, failed: failed, run: (*exec.Cmd).Start, changed: make(chan struct{})}
}

// chaosEnv is the variable with the path of the file that disturbs a node, see testdata/chaos.go.
const chaosEnv = "FOREBAY_CLUSTER_CHAOS"

// disturb sets how wrong the clock of the node is, and how long its disk takes for each sync at most.
func (p *process) disturb(jump, sync time.Duration) error {
	path := p.folder() + ".chaos"
	if err := os.WriteFile(path+".new", fmt.Appendln(nil, int64(jump), int64(sync)), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// clockIsRight reports whether the node says that its clock is right.
func (p *process) clockIsRight(ctx context.Context) bool {
	p.mu.Lock()
	address := p.told.Address
	p.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readiness-check", nil)
	if err != nil {
		return false
	}
	resp, err := p.asker.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	at, err := http.ParseTime(resp.Header.Get("Date"))
	return err == nil && time.Since(at).Abs() < 30*time.Second
}

func (p *process) calm() error { return p.disturb(0, 0) }

// start starts the process. It does not wait until the node serves.
func (p *process) start() error {
	env, err := json.Marshal(p.nodeConfig)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.program)
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(env), chaosEnv+"="+p.folder()+".chaos")
	cmd.Stderr = os.Stderr
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.run(cmd); err != nil {
		return err
	}
	p.cmd, p.ended, p.over = cmd, make(chan struct{}), new(atomic.Bool)
	p.set(func() { p.gone = false })
	go func(over *atomic.Bool, ended chan struct{}) {
		defer close(ended)
		for in := json.NewDecoder(stdout); ; {
			var m message
			if in.Decode(&m) != nil { // a killed node may leave half a line
				break
			}
			if m.Lost != "" {
				p.lost(m.Lost)
			}
			p.set(func() { p.told = m })
		}
		p.err = cmd.Wait()
		p.set(func() { p.told, p.status, p.gone = message{}, readiness{}, true })
		if !over.Load() && !p.frail.Load() {
			p.failed(fmt.Errorf("node %s has ended by itself: %v; see %s", p.Name, p.err, p.logPath()))
		}
	}(p.over, p.ended)
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

// url is where events are sent, or empty while the node does not serve.
func (p *process) url() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told.Events
}

// await waits until the known state of the node meets a condition. It fails when the process ends by itself.
func (p *process) await(ctx context.Context, what string, met func() bool) error {
	for {
		p.mu.Lock()
		ok, changed, missing := met(), p.changed, p.status.Missing
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
	return p.await(ctx, "ready", func() bool { return p.status.Ready })
}

// kill ends the node in the middle of whatever it does.
func (p *process) kill() {
	p.set(func() { p.what = "killed" })
	p.over.Store(true)
	_ = p.cmd.Process.Kill() // fails only if it is gone already
	<-p.ended
}

// flush lets the node move its rows to the table, and waits.
func (p *process) flush(ctx context.Context) error {
	if _, err := io.WriteString(p.stdin, "flush\n"); err != nil {
		return err
	}
	return p.await(ctx, "empty", func() bool { return p.told.Flushed })
}

// stop ends the node in good order. It fails if that takes too long.
func (p *process) stop() error {
	p.set(func() { p.what = "stopped" })
	p.over.Store(true)
	p.stdin.Close()
	timer := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	<-p.ended
	if p.err != nil {
		return fmt.Errorf("node %s ended badly: %w; see %s", p.Name, p.err, p.logPath())
	}
	return nil
}

// wipe removes the disk of a node that does not run.
func (p *process) wipe() error {
	p.set(func() { p.what = "wiped" })
	return os.RemoveAll(p.folder())
}

// damage flips a bit in a file of the server of a node that does not run, or cuts the file. It takes one of the files with the records of
// logs, and returns a description of the damage. done is true if there was a file with anything in it.
func (p *process) damage(rng *rand.Rand) (what string, done bool, err error) {
	files, err := filepath.Glob(filepath.Join(p.server(), "jetstream", "*", "streams", "*_L_*", "msgs", "*.blk"))
	if err != nil {
		return "", false, err
	}
	contents := make(map[string][]byte)
	for _, path := range files {
		if contents[path], err = os.ReadFile(path); err != nil {
			return "", false, err
		}
	}
	files = slices.DeleteFunc(files, func(path string) bool { return len(contents[path]) == 0 })
	if len(files) == 0 {
		return "its logs are empty, nothing is damaged", false, nil
	}
	path := files[rng.IntN(len(files))]
	content := contents[path]
	at := rng.IntN(len(content))
	if rng.IntN(2) == 0 {
		what, content = "is cut at", content[:at]
	} else {
		what = "has another bit at"
		content[at] ^= 1 << rng.IntN(8)
	}
	stream := filepath.Base(filepath.Dir(filepath.Dir(path)))
	what = fmt.Sprintf("%s/%s %s %d of %d bytes", stream, filepath.Base(path), what, at, len(contents[path]))
	return what, true, os.WriteFile(path, content, 0o600)
}
