// Package killtest lets a test kill processes that do a part of it.
//
// Such a process is the test binary with the same test alone. The test first asks [Child] which process it is:
//
//	func TestKills(t *testing.T) {
//		if folder, ok := killtest.Child(); ok {
//			t.Fatal(importUntilKilled(folder)) // it prints its progress
//		}
//		for range killtest.Count(t) {
//			p := killtest.Start(t, t.Name(), folder)
//			…
//			p.Kill()
//		}
//	}
package killtest

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Environment variables.
const (
	countEnv = "FOREBAY_KILLS"
	childEnv = "FOREBAY_KILLED_PROCESS"
)

// tb is the part of [testing.TB] that this package needs.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Count returns how often a test kills, which is as often as the environment variable FOREBAY_KILLS says, by default three times.
func Count(t tb) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(countEnv), "3"))
	if err != nil {
		t.Fatalf("%s: %v", countEnv, err)
	}
	return n
}

// Child returns the argument of [Start] in the process that it has started, and false elsewhere.
func Child() (arg string, ok bool) { return os.LookupEnv(childEnv) }

// Process is a process that does a part of a test. It is not safe for concurrent use, Kill aside.
type Process struct {
	// In is its standard input.
	In io.WriteCloser

	t   tb
	out *bufio.Scanner
	cmd *exec.Cmd
}

// Start starts the process of the test of that name.
func Start(t tb, name, arg string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+strings.ReplaceAll(name, "/", "$/^")+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), childEnv+"="+arg)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("%v", err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &Process{In: in, t: t, out: bufio.NewScanner(out), cmd: cmd}
}

// Line waits for the next line that the process prints. A process that has ended by itself fails the test.
func (p *Process) Line() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the process has ended by itself: %v", p.cmd.Wait())
	}
	return p.out.Text()
}

// Lines reads lines until the process has printed n and is killed, a moment later. each gets them all.
func (p *Process) Lines(n int, moment time.Duration, each func(line string)) {
	p.t.Helper()
	for p.out.Scan() {
		each(p.out.Text())
		if n--; n == 0 {
			time.AfterFunc(moment, p.kill)
		}
	}
	p.Kill()
	if n > 0 {
		p.t.Fatalf("the process has ended by itself")
	}
}

func (p *Process) kill() { _ = p.cmd.Process.Kill() }

// Kill kills the process and waits for its end. It may be repeated.
func (p *Process) Kill() {
	p.kill()
	_ = p.cmd.Wait() // it was killed
}

// Wait ends the input of the process, waits until it has ended by itself, and returns what else it has printed.
func (p *Process) Wait() (output string, err error) {
	p.In.Close()
	for p.out.Scan() {
		output += p.out.Text() + "\n"
	}
	return output, p.cmd.Wait()
}
