package proctest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errs, logs []string
	cleanup    []func()
}

func (r *recorder) Cleanup(do func())          { r.cleanup = append(r.cleanup, do) }
func (r *recorder) Failed() bool               { return len(r.errs) > 0 }
func (r *recorder) Logf(f string, args ...any) { r.logs = append(r.logs, fmt.Sprintf(f, args...)) }

func (r *recorder) Errorf(f string, args ...any) { r.errs = append(r.errs, fmt.Sprintf(f, args...)) }
func (r *recorder) Fatalf(f string, args ...any) { r.Errorf(f, args...); runtime.Goexit() }

// failures runs a part of a test to its end, with its cleanup.
func failures(t *testing.T, do func(r *recorder)) (errs, logs []string) {
	t.Helper()
	r, done := &recorder{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		do(r)
	}()
	<-done
	for _, do := range slices.Backward(r.cleanup) {
		do()
	}
	return r.errs, r.logs
}

// echo prints each line of its input, and ends as a line says.
func echo() {
	fmt.Fprintln(os.Stderr, "a note")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "half":
			fmt.Print("half")
		case "exit":
			os.Exit(3)
		default:
			fmt.Println(in.Text())
		}
	}
	fmt.Println("over")
	os.Exit(0)
}

// child starts the process of the calling test.
func child(t tb, name string) *Process {
	if _, ok := Child(); ok {
		echo()
	}
	return Start(t, name, "")
}

func TestLinesOfAProcess(t *testing.T) {
	p := child(t, t.Name())
	p.Say("one")
	p.Say("two")
	if a, b := p.Line(), p.Line(); a != "one" || b != "two" {
		t.Errorf("got %q and %q, want one and two", a, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if line, err := p.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next of a process that says nothing: got %q, %v", line, err)
	}
	p.Say("three")
	if out, err := p.Wait(); err != nil || !strings.HasPrefix(out, "three\nover\n") || !strings.Contains(out, "a note") {
		t.Errorf("Wait: got %q, %v, want what the process has printed and no error", out, err)
	}
}

// A process that ends by itself fails the test, which then shows how it ended and what it wrote.
func TestProcessEndsByItself(t *testing.T) {
	errs, logs := failures(t, func(r *recorder) {
		p := child(r, t.Name())
		p.Say("exit")
		p.Line()
	})
	if len(errs) != 1 || !strings.Contains(errs[0], "exit status 3") || !strings.Contains(errs[0], "a note") {
		t.Errorf("Line: got %q, want a failure with the exit status and the note", errs)
	}
	if len(logs) != 1 || !strings.Contains(logs[0], "a note") {
		t.Errorf("got the logs %q, want the note once", logs)
	}
	errs, _ = failures(t, func(r *recorder) {
		p := child(r, t.Name())
		p.Say("one")
		p.Say("exit")
		p.Lines(2, 0, func(string) {})
	})
	if len(errs) != 1 || !strings.Contains(errs[0], "exit status 3") {
		t.Errorf("Lines that are more than the process prints: got %q, want a failure", errs)
	}
}

// Lines gets what the process has printed until the kill. A line without its end does not count.
func TestKilledProcess(t *testing.T) {
	p := child(t, t.Name())
	p.Say("one")
	p.Say("two")
	p.Say("half")
	var got []string
	p.Lines(2, 0, func(line string) { got = append(got, line) })
	if !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q, want one and two", got)
	}
	p.Kill()
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err after a kill: got %v", err)
	}
}

// No process outlives its test.
func TestNoOrphans(t *testing.T) {
	var p *Process
	errs, _ := failures(t, func(r *recorder) { p = child(r, t.Name()) })
	select {
	case <-p.Gone():
	default:
		t.Error("the process is there after the end of its test")
	}
	if len(errs) > 0 {
		t.Errorf("got %q, want no failure", errs)
	}
}

// Each attempt has a number. The loader knows which were acknowledged.
func TestLoader(t *testing.T) {
	l := Load(3, func(client, call int) ([]string, error) {
		if call%2 == 1 {
			return []string{"lost"}, errors.New("down")
		}
		return []string{fmt.Sprint(client, " ", call), fmt.Sprint(client, " ", call, " again")}, nil
	})
	l.Wait(10)
	acked := l.Stop()
	if n := l.Acknowledged(); n < 10 || int64(len(acked)) != 2*n {
		t.Errorf("got %d rows of %d acknowledged calls, want at least 10 calls with 2 rows each", len(acked), n)
	}
	for row := range acked {
		var client, call int
		if _, err := fmt.Sscan(row, &client, &call); err != nil || client < 0 || client > 2 || call%2 == 1 {
			t.Errorf("got acknowledged row %q, want only rows of calls that succeed", row)
		}
	}
	if l.Failed() == 0 {
		t.Error("no call has failed")
	}
}

func TestAudit(t *testing.T) {
	acked := slices.Values([]string{"a", "b", "c", "c"})
	for _, tt := range []struct {
		stored map[string]int
		want   string // what Check reports
	}{
		{map[string]int{"a": 1, "b": 1, "c": 1, "x": 1}, ""},
		{map[string]int{"a": 1, "b": 0, "c": 1}, "got 1 rows are lost, 0 are doubled: lost b, want each row once"},
		{map[string]int{"a": 1, "b": 3, "c": 1}, "got 0 rows are lost, 1 are doubled: doubled b, want each row once"},
		{map[string]int{"a": 1, "b": 1, "c": 1, "x": 2}, "got 0 rows are lost, 1 are doubled: doubled x, want each row once"},
	} {
		var a Audit
		errs, _ := failures(t, func(r *recorder) { a = Check(r, acked, tt.stored) })
		if got := strings.Join(errs, "; "); got != tt.want || a.Acknowledged != 3 || a.Unknown != tt.stored["x"]-tt.stored["x"]/2 {
			t.Errorf("%v: got %q and %+v, want %q", tt.stored, got, a, tt.want)
		}
	}
}
