// Package servertest has the parts of a private server that do not depend on its database. The server starts for the first test that needs it, in a
// temporary folder, and ends with the process of the tests.
package servertest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/proctest"
)

// Server is embedded in the server of a database, which calls [Server.Once] first. The zero value is ready to use.
type Server struct {
	once   sync.Once
	failed error
	steps  Steps
	made   atomic.Int64

	dir     string
	end     io.Closer // ends the sweeper
	sweeper *exec.Cmd

	mu      sync.Mutex
	process *proctest.Process
	used    time.Duration // CPU of the processes before
}

// Steps start and stop a server of one database.
type Steps struct {
	// Create makes the files of the server with Folder, and starts it.
	Create func() error
	// Start starts a server that was stopped, and returns when it is ready.
	Start func() error
	// Stop ends the server as a crash of its process does.
	Stop func() error
}

// Once creates the server in the first call. Each call returns the error of the first.
func (s *Server) Once(steps Steps) error {
	s.once.Do(func() {
		s.steps = steps
		s.failed = steps.Create()
	})
	return s.failed
}

// Need checks the error of a start. If the programs of the server are missing, the test is skipped, or fails where CI=true.
func Need(tb testing.TB, err, missing error) {
	tb.Helper()
	switch {
	case errors.Is(err, missing) && os.Getenv("CI") != "true":
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
}

// Run runs the tests and then stops the server. TestMain calls it.
func (s *Server) Run(m *testing.M) int {
	defer s.Close()
	return m.Run()
}

// Close stops the server, if it was started, and removes its files.
func (s *Server) Close() {
	if s.sweeper != nil {
		_ = s.end.Close()
		_ = s.sweeper.Wait()
	}
}

// Kill ends the server at once, as a crash of its process does. Restart starts it again.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.steps.Stop(); err != nil {
		tb.Fatal(err)
	}
}

// Restart starts the server after Kill.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.steps.Start(); err != nil {
		tb.Fatal(err)
	}
}

// Shutdown ends the server at once and returns a function that starts it again.
func (s *Server) Shutdown() (restore func() error, err error) { return s.steps.Start, s.steps.Stop() }

// Name returns a new name that begins with a prefix.
func (s *Server) Name(prefix string) string { return fmt.Sprint(prefix, s.made.Add(1)) }

// Path returns the path of a file in the folder of the server.
func (s *Server) Path(name string) string { return filepath.Join(s.dir, name) }

// sweep waits for the end of its input, which ends at the latest with this process. Then it stops the server and removes its files. Signals to the
// group of the tests do not end it.
const sweep = `trap "" HUP INT QUIT TERM
read -r _
%s
rm -r "$PWD"`

// Killed is how the sweeper stops a server of [Server.Launch].
const Killed = `[ ! -e pid ] || kill -9 "$(cat pid)"`

// Folder makes the folder of the server, with a short path, because a socket may be in it. stop is what the sweeper runs there to stop the server.
// command, if not nil, makes the process of the sweeper, and may change the owner of the folder first.
func (s *Server) Folder(prefix, stop string, command func(args ...string) (*exec.Cmd, error)) (err error) {
	if s.dir, err = os.MkdirTemp("", prefix); err != nil {
		return err
	}
	args := []string{"sh", "-c", fmt.Sprintf(sweep, stop)}
	cmd := exec.Command(args[0], args[1:]...)
	if command != nil {
		if cmd, err = command(args...); err != nil {
			return err
		}
	}
	cmd.Dir = s.dir
	if s.end, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.sweeper = cmd
	return nil
}

// Launch starts the process of the server in its folder, and returns when ready has no error.
func (s *Server) Launch(cmd *exec.Cmd, ready func() error) error {
	cmd.Dir = s.dir
	process, err := proctest.Begin(cmd)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = process
	s.mu.Unlock()
	if err := os.WriteFile(s.Path("pid"), []byte(strconv.Itoa(process.Pid())), 0o600); err != nil {
		return err
	}
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(time.Minute); ; {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-process.Gone():
			return process.Ended()
		case <-retry.C:
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// KillProcess ends the process of Launch.
func (s *Server) KillProcess() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.cpu()
	s.process.Kill()
	s.used += used
	return nil
}

// Signal sends a signal to the process of Launch.
func (s *Server) Signal(sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Signal(sig)
}

// Ended returns a channel that is closed when the process of Launch has ended.
func (s *Server) Ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Gone()
}

// CPU returns the processor time of all processes of Launch, as far as Linux tells.
func (s *Server) CPU() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used + s.cpu()
}

// cpu is CPU of the process that runs.
func (s *Server) cpu() time.Duration {
	if s.process == nil {
		return 0
	}
	if fields := Stat(strconv.Itoa(s.process.Pid())); fields != nil {
		return Ticks(fields[11:13]) // user and system
	}
	return 0
}

// Stat returns the fields of /proc/PID/stat after the name: state, parent, …. It returns nil if there is no such process.
func Stat(pid string) []string {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 15 {
		return nil
	}
	return fields
}

// Ticks returns the sum of times of [Stat].
func Ticks(fields []string) (total time.Duration) {
	for _, t := range fields {
		ticks, _ := strconv.ParseInt(t, 10, 64)
		total += time.Duration(ticks) * 10 * time.Millisecond
	}
	return total
}
