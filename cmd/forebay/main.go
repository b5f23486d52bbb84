// Command forebay is Forebay for users who write no Go. It accepts events and telemetry over the network and stores them in tables.
//
//	cd cmd/forebay && go build .
//	./forebay demo -target sqlite:demo.db
//	./forebay serve -source web -target sqlite:events.db
//	./forebay -h
//
// It is a separate module, because it has all drivers. Build tags add the targets duckdb: and iceberg:. docs/forebay.md describes flags, the configuration file and failures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/damage"
	"github.com/forebay/forebay/internal/program/extract"
	"github.com/forebay/forebay/internal/program/files"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/internal/program/inspect"
	"github.com/forebay/forebay/internal/program/quarantine"
	"github.com/forebay/forebay/internal/program/quickstart"
	"github.com/forebay/forebay/internal/program/size"
	"github.com/forebay/forebay/internal/program/templates"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	p := process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.LookupEnv}
	os.Exit(p.run(ctx, os.Args[1:]))
}

// process is the part of the process that a verb uses.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) (string, bool)
	// reload asks a server to read its configuration again. The verb serve sets it.
	reload <-chan os.Signal
}

// verb is a command of the program.
type verb struct {
	name, summary string
	// help has examples, for forebay help.
	help string
	run  func(p process, ctx context.Context, args []string) int
}

func verbs() []verb {
	return []verb{
		{"serve", "receive events and telemetry, and store them in tables", serveHelp, process.serve},
		{"otlp", "receive logs, metrics and traces, and keep a day of them in tables", otlpHelp, process.otlp},
		{"demo", "send events through the engine, and count the rows in the tables", demoHelp, process.demo},
		{"health", "ask a server on this machine whether it runs, for a health check", healthHelp, process.health},
		{"check", "check a configuration file, and show the rows of sample events", checkHelp, process.check},
		{"extract", "pull records from an HTTP API into tables", extractHelp, process.extract},
		{"inspect", "show the rows that wait in a data directory, and the reason", inspectHelp, process.inspect},
		{"size", "compute the disk and memory that a data directory or a rate needs", sizeHelp, process.size},
		{"files", "list files whose upload or import failed; retry, split or discard them", filesHelp, process.files},
		{"damage", "list the rows that the disk of a running server has lost", damageHelp, process.damage},
		{"orphans", "list and remove objects left in buckets by processes that were killed", orphansHelp, process.orphans},
		{"quarantine", "show, edit, replay and discard rejected records of a running server", quarantineHelp, process.quarantine},
		{"replay", "map the raw records of an archive into a sink again", replayHelp, process.replay},
		{"erase", "erase the records of a person, and list the data that remains elsewhere", eraseHelp, process.erase},
		{"shadow", "try changed columns of a sink on live records, then switch to them", shadowHelp, process.shadow},
		{"giveup", "abandon the unreadable part of the log of a lost cluster node", giveUpHelp, process.giveUp},
		{"salvage", "store rows that only the disk of a lost cluster node has", salvageHelp, process.salvage},
		{"templates", "try a template on an event", templatesHelp, process.templates},
	}
}

// The exit status of a verb that failed, and of one that was called in a wrong way.
const (
	failed     = 1
	wrongUsage = 2
)

// run returns the exit status.
func (p process) run(ctx context.Context, args []string) int {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	all := verbs()
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, name) {
		if len(args) == 0 {
			fmt.Fprint(p.stdout, overview())
			return 0
		}
		return p.help(args[0])
	}
	if slices.Contains([]string{"version", "-version", "--version"}, name) && len(args) == 0 {
		fmt.Fprintf(p.stdout, "forebay %s, %s %s/%s\n", forebay.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	}
	for _, v := range all {
		if v.name != name {
			continue
		}
		if len(args) > 0 && slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
			p.stderr = p.stdout
			fmt.Fprintf(p.stdout, "forebay %s: %s.\n\"forebay help %[1]s\" shows examples.\n", v.name, v.summary)
		}
		return v.run(p, ctx, args)
	}
	if name == "" {
		fmt.Fprint(p.stderr, overview())
		return wrongUsage
	}
	return p.unknown("command", name, nil)
}

// help prints what forebay knows of a command or another subject.
func (p process) help(name string) int {
	var others []string
	for _, v := range verbs() {
		if v.name == name {
			fmt.Fprintln(p.stdout, strings.TrimSpace(v.help))
			return 0
		}
	}
	for _, s := range subjects() {
		if s.name == name {
			fmt.Fprintln(p.stdout, strings.TrimSpace(s.text()))
			return 0
		}
		others = append(others, s.name)
	}
	return p.unknown("command or subject", name, others)
}

// unknown says that a name is none of the commands, and none of the others.
func (p process) unknown(kind, name string, others []string) int {
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	names = append(names, others...)
	fmt.Fprintf(p.stderr, "forebay: there is no %s %q", kind, name)
	if near := flagtext.Nearest(name, names); near != "" {
		fmt.Fprintf(p.stderr, "; do you mean %q?", near)
	} else {
		fmt.Fprint(p.stderr, ".")
	}
	fmt.Fprintf(p.stderr, " There are %s. \"forebay -h\" explains them.\n", strings.Join(names, ", "))
	return wrongUsage
}

// end reports how a verb ended.
func (p process) end(name string, err error, status int) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(p.stderr, "forebay %s: %v\n", name, err)
	return status
}

func (p process) inspect(ctx context.Context, args []string) int {
	return p.end("inspect", inspect.Run(ctx, args, p.stdout, p.stderr, inspect.Options{Staging: openInspected}), failed)
}

func (p process) size(ctx context.Context, args []string) int {
	return p.end("size", size.Run(ctx, args, p.stdout, p.stderr), failed)
}

// environment returns the parts of this process that a verb of the Stream API uses.
func (p process) environment() api.Environment {
	return api.Environment{Stdin: p.stdin, Out: p.stdout, Errors: p.stderr, Getenv: func(name string) string {
		env := &variables{getenv: p.getenv}
		value, _ := env.lookup(name)
		for _, problem := range env.problems {
			fmt.Fprintln(p.stderr, problem)
		}
		return value
	}}
}

// endAPI reports how a verb that speaks the Stream API ended.
func (p process) endAPI(name string, err error) int {
	if _, ok := errors.AsType[*api.UsageError](err); ok {
		return p.end(name, err, wrongUsage)
	}
	return p.end(name, err, failed)
}

func (p process) quarantine(ctx context.Context, args []string) int {
	return p.endAPI("quarantine", quarantine.Run(ctx, args, p.environment()))
}

func (p process) files(ctx context.Context, args []string) int {
	return p.endAPI("files", files.Run(ctx, args, p.environment()))
}

func (p process) damage(ctx context.Context, args []string) int {
	return p.endAPI("damage", damage.Run(ctx, args, p.environment()))
}

func (p process) templates(_ context.Context, args []string) int {
	return p.end("templates", templates.Run(args, p.stdin, p.stdout, p.stderr), failed)
}

func (p process) extract(ctx context.Context, args []string) int {
	var pl places
	err := extract.Run(ctx, args, p.stdout, p.stderr, extract.Options{Flags: pl.register, Open: pl.open})
	return p.end("extract", err, extract.ExitStatus(err))
}

func (p process) demo(ctx context.Context, args []string) int {
	var pl places
	return quickstart.Main(ctx, args, p.stdout, p.stderr, quickstart.Options{
		Name: "forebay demo", Flags: pl.register, Open: pl.open,
		Child: func() []string {
			return []string{"demo", "-target=" + pl.target, "-staging=" + pl.staging, "-target-options=" + pl.options.text}
		},
	})
}
