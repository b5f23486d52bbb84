// Command bench measures Forebay against the limits of the machine it runs on.
//
//	go run ./bench                                  everything, as a table
//	go run ./bench -run 'ingest/sync/1KB' -json     one object per scenario and line
//	go run ./bench -list                            names of all scenarios
//	go run ./bench where                            CPU time of a row by stage, from the call to the table
//	go run ./bench report                           a page with plots for people, in the folder report
//
// Each scenario is measured once a round, in turn with its limit (what the disk allows for the same syncs) and its
// baselines (simpler programs for a part of the same work), and the medians over the rounds are reported. Ratios hold
// on a noisy machine, absolute figures do not. After each measurement the stored rows are counted. A missing one fails
// the run. docs/internals/benchmarks.md explains every scenario and field.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) { // the flags were shown
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) (err error) {
	if len(args) > 0 && args[0] == childCommand {
		return runChild(ctx, args[1:], stdout)
	}
	if len(args) > 0 && args[0] == whereCommand {
		return runWhere(ctx, args[1:], stdout, stderr)
	}
	command := strings.TrimSpace("go run ./bench " + strings.Join(args, " "))
	asPage := len(args) > 0 && args[0] == reportCommand
	if asPage {
		args = args[1:]
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	everything := "."
	var folder, compare string
	if asPage {
		everything = reportPattern
		flags.StringVar(&folder, "out", "report", "`folder` of the report")
		flags.StringVar(&compare, "compare", "", "`file` results.json of another report, to show beside this one")
	}
	pattern := flags.String("run", everything, "measure the scenarios whose names match this `regexp`")
	duration := flags.Duration("duration", 3*time.Second, "length of one measurement, without its warm-up of a quarter")
	rounds := flags.Int("rounds", 5, "measurements of each scenario; medians are reported")
	parent := flags.String("dir", "", "`folder` on the disk under test (default: the system's temporary folder)")
	size := defaultSize
	flags.Var(&size.Backlog, "backlog", "`bytes` that wait in the scenarios of a backlog, for example 5GB; a little more than twice of it must be free")
	flags.IntVar(&size.Sinks, "sinks", size.Sinks, "sinks of the scenario sinks/open")
	flags.DurationVar(&size.Life, "life", size.Life, "how long a slice lives in the scenario written/held")
	volumeName := flags.String("volume", realVolume, "`name` of the volume that syncs go to: \"real\", or \"network\", the pace of a known slower disk")
	var cores coreList
	flags.Var(&cores, "cpu", "measure with these `numbers` of cores, for example 1,2, and compare with the first")
	profiles := flags.String("profile", "", "write CPU, mutex and block profiles of each scenario to this `folder`")
	asJSON := flags.Bool("json", false, "write one JSON object per scenario and line instead of a table")
	list := flags.Bool("list", false, "list the names and measure nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	re, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	var shown page
	if asPage {
		re = regexp.MustCompile("(" + *pattern + ")|" + reportDisk)
		if compare != "" { // before half an hour of measurements
			if shown.otherMachine, shown.other, err = readReport(compare); err != nil {
				return fmt.Errorf("-compare: %w", err)
			}
		}
	}
	volume, err := chooseVolume(*volumeName)
	if err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case *duration <= 0:
		return errors.New("-duration must be positive")
	case *rounds <= 0:
		return errors.New("-rounds must be positive")
	case size.Backlog < 1<<20:
		return errors.New("-backlog must be at least 1MB")
	case size.Sinks < 1:
		return errors.New("-sinks must be positive")
	case size.Life <= 0:
		return errors.New("-life must be positive")
	case asPage && (*asJSON || len(cores) > 0):
		return errors.New("a report has no -json, its folder has results.json, and no -cpu")
	case len(cores) > 0 && *profiles != "":
		return errors.New("-profile is of this process, -cpu starts others: give one of them")
	}
	all := scenarios()
	if len(cores) > 0 {
		all, re = onCores(all, re, cores), regexp.MustCompile("")
	}
	if *profiles != "" { // comparisons would be in the profiles of the scenario
		for i := range all {
			all[i] = all[i].bare()
		}
	}
	plans, err := choose(all, re)
	if err != nil {
		return err
	}
	if len(plans) == 0 {
		return fmt.Errorf("no scenario matches %q; -list shows them", *pattern)
	}
	if volume.modelled() {
		if err := onlyModelled(plans); err != nil {
			return err
		}
	}
	if *list {
		for _, p := range plans {
			for _, s := range p.selected {
				fmt.Fprintln(stdout, s.name)
			}
		}
		return nil
	}

	dir, err := os.MkdirTemp(*parent, "forebay-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if inMemory(dir) {
		fmt.Fprintf(stderr, "bench: %s is in memory: syncs cost nothing there, so the figures say nothing about a disk; use -dir\n", dir)
	}
	e := &env{dir: dir, duration: *duration, size: size, volume: volume, ring: newSharedRing(dir), profiles: *profiles}
	defer func() { err = errors.Join(err, e.ring.close()) }()

	shown.machine = thisMachine(dir)
	shown.machine.Command = command
	if volume.modelled() {
		shown.machine.Volume = volume.name
	}
	err = measureAll(ctx, e, plans, *rounds, newProgress(stderr, plans, *rounds), func(r result) error {
		shown.results = append(shown.results, r)
		if *asJSON {
			return json.NewEncoder(stdout).Encode(r)
		}
		return nil
	})
	switch {
	case err != nil || *asJSON:
		return err
	case asPage:
		shown.machine.LoadAfter = loadAverage()
		if err := shown.write(folder); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s\n", filepath.Join(folder, pageFile))
		return nil
	}
	return writeTable(stdout, shown.results)
}

// onlyModelled returns an error that names the scenarios that would use the real disk.
func onlyModelled(plans []plan) error {
	for _, p := range plans {
		for _, s := range p.selected {
			if !s.modelled() {
				return fmt.Errorf("%s has no -volume, it syncs to the real disk: choose others with -run", s.name)
			}
		}
	}
	return nil
}
