// Package proctest starts and kills processes that do a part of a test or of a measurement. It sends rows to them, and compares the rows that
// they acknowledged with the rows that are stored.
//
// Usually such a process is the test binary with the same test alone. The test first asks [Child] which process it is:
//
//	func TestKills(t *testing.T) {
//		if folder, ok := proctest.Child(); ok {
//			t.Fatal(importUntilKilled(folder)) // it prints its progress
//		}
//		for range proctest.Kills(t) {
//			p := proctest.Start(t, t.Name(), folder)
//			…
//			p.Kill()
//		}
//	}
//
// [Run] does the same with another command. Programs use [Begin], which knows no test.
package proctest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Environment variables.
const (
	killsEnv = "FOREBAY_KILLS"
	childEnv = "FOREBAY_KILLED_PROCESS"
)

// tb is the part of [testing.TB] that this package needs.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// lasting is the part of [testing.TB] that a recorder of failures may lack. Its processes are not killed when it ends.
type lasting interface {
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
}

// Kills returns how often a test kills, which is as often as the environment variable FOREBAY_KILLS says, by default three times.
func Kills(t tb) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(killsEnv), "3"))
	if err != nil {
		t.Fatalf("%s: got %v, want a number", killsEnv, err)
	}
	return n
}

// Child returns the argument of [Start] in the process that it has started, and false elsewhere.
func Child() (arg string, ok bool) { return os.LookupEnv(childEnv) }

// Start starts the process of the test of that name.
func Start(t tb, name, arg string) *Process {
	t.Helper()
	return Run(t, Command(name, arg))
}

// Command is what [Start] runs.
func Command(name, arg string) *exec.Cmd {
	cmd := Self(childEnv + "=" + arg)
	cmd.Args = append(cmd.Args, "-test.run=^"+strings.ReplaceAll(name, "/", "$/^")+"$", "-test.count=1")
	return cmd
}

// Self is a command that runs this program, with variables in addition to its environment.
func Self(env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// JSON encodes what a process gets as its argument or in a variable.
func JSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Run starts a process, as [Begin] does. It is killed at the end of the test.
func Run(t tb, cmd *exec.Cmd) *Process {
	t.Helper()
	p, err := Begin(cmd)
	if err != nil {
		t.Fatalf("got %v, want a process", err)
	}
	p.t = t
	if l, ok := t.(lasting); ok {
		l.Cleanup(func() {
			p.Kill()
			if logs := p.Logs(); l.Failed() && logs != "" {
				l.Logf("process %d wrote on standard error:\n%s", p.Pid(), logs)
			}
		})
	}
	return p
}

// Line waits for the next line that the process prints. A process that has ended fails the test.
func (p *Process) Line() string {
	p.t.Helper()
	line, ok := p.next()
	if !ok {
		p.t.Fatalf("got %v, want a line", p.Ended())
	}
	return line
}

// Say writes a line to the process.
func (p *Process) Say(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.In, line); err != nil {
		p.t.Fatalf("%q to the process: %v: %v", line, err, p.Logs())
	}
}
