package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A job runs in a separate process, because its memory is measured or because it is killed. It may write lines while
// it works. The value that it returns is its report.
type job func(ctx context.Context, args json.RawMessage, lines io.Writer) (any, error)

// jobs are known by name, since a child is this program with other arguments.
func jobs() map[string]job {
	return map[string]job{
		"scenario":     asJob(measureScenario),
		"traffic":      asJob(generate),
		"backlog/fill": asJob(fillBacklog),
		"backlog/open": asJob(openBacklog),

		"footprint/open": asJob(openEmpty),
		"footprint/idle": asJob(idle),
	}
}

func asJob[A, R any](run func(context.Context, A, io.Writer) (R, error)) job {
	return func(ctx context.Context, args json.RawMessage, lines io.Writer) (any, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return run(ctx, a, lines)
	}
}

// childCommand is the first argument that makes this program do one job.
const childCommand = "job"

// reportMark begins the last line of a child that did its job. One that failed says why on standard error.
const reportMark = "report "

func runChild(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 2 || jobs()[args[0]] == nil {
		return errors.New("jobs are started by bench itself")
	}
	report, err := jobs()[args[0]](ctx, json.RawMessage(args[1]), stdout)
	if err != nil {
		return err
	}
	line, err := json.Marshal(report)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s%s\n", reportMark, line)
	return err
}

// A child is a running job.
type child struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr bytes.Buffer
	name   string
}

func startChild(ctx context.Context, name string, args any) (*child, error) {
	c, err := newChild(ctx, name, args)
	if err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

func newChild(ctx context.Context, name string, args any) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, childCommand, name, string(text)), name: name}
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(out)
	c.lines.Buffer(nil, 1<<20)
	return c, nil
}

// wait hands the lines of the child to a function and decodes its report, which is the last one.
func (c *child) wait(report any, line func(string)) error {
	last := ""
	for c.lines.Scan() {
		if text, ok := strings.CutPrefix(c.lines.Text(), reportMark); ok {
			last = text
		} else {
			line(c.lines.Text())
		}
	}
	err := errors.Join(c.lines.Err(), c.cmd.Wait())
	if err == nil {
		err = json.Unmarshal([]byte(last), report)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", c.name, err, c.stderr.String())
	}
	return nil
}

// kill ends the process at once, as a lack of memory would (SIGKILL), and waits until it is gone. rest gets the lines
// that it had written.
func (c *child) kill(rest func(line string)) error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	for c.lines.Scan() {
		rest(c.lines.Text())
	}
	err := c.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// inChild does a job and returns its report.
func inChild[R any](ctx context.Context, name string, args any) (R, error) {
	var report R
	c, err := startChild(ctx, name, args)
	if err == nil {
		err = c.wait(&report, func(string) {})
	}
	return report, err
}

type scenarioArgs struct {
	Name, Dir, Volume string
	Duration          time.Duration
	Size              size
}

// apart measures a scenario in a separate process with the given number of cores; 0 means all.
func (s scenario) apart(ctx context.Context, e *env, cores int) (*sample, error) {
	var m sample
	c, err := newChild(ctx, "scenario", scenarioArgs{s.name, e.dir, e.volume.String(), e.duration, e.size})
	if err == nil {
		err = withCores(cores, c.cmd.Start)
	}
	if err == nil {
		err = c.wait(&m, func(string) {})
	}
	return &m, err
}

func measureScenario(ctx context.Context, a scenarioArgs, _ io.Writer) (_ *sample, err error) {
	volume, err := chooseVolume(a.Volume)
	if err != nil {
		return nil, err
	}
	e := &env{dir: a.Dir, duration: a.Duration, size: a.Size, volume: volume, ring: newSharedRing(a.Dir)}
	defer func() { err = errors.Join(err, e.ring.close()) }()
	for _, s := range scenarios() {
		if s.name == a.Name {
			return s.run(ctx, e)
		}
	}
	return nil, fmt.Errorf("there is no scenario %q", a.Name)
}
