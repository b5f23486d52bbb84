// Command testrun builds and runs the tests of many packages of many modules, for .ci/run.
//
//	testrun [flags] FOLDER... [-- FLAGS OF A TEST PROGRAM]
//
// Each FOLDER holds a package. `go test` links every test program in every run; testrun keeps the programs below the build cache and links
// only the programs whose sources changed. It runs a few programs at a time. The program that took longest in the last run starts first, so that
// no long program runs alone at the end. It prints a line for each package, the output of failed tests only, and at the end the packages and tests
// that took longest. It ends with status 1 if a test failed.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	stage string   // names the folder of the test programs, and their times
	build string   // flags of go test when it builds
	at    int      // how many test programs run at a time
	busy  int      // processes that only use a processor
	tests []string // flags of each test program
}

// hangs is how long a test program may take. No program takes nearly as long, even while others run, because the limit must end only programs that hang.
const hangs = time.Hour

func main() {
	var o options
	flag.StringVar(&o.stage, "stage", "test", "the `name` under which test programs and their times are kept")
	flag.StringVar(&o.build, "build", "", "`flags` of go test, for example '-race'")
	flag.IntVar(&o.at, "p", 3, "how many test programs run at a time")
	flag.IntVar(&o.busy, "busy", 0, "run the tests under the load of `n` processes that only use a processor")
	spin := flag.Bool("spin", false, "use a processor until the parent ends; for -busy")
	flag.Parse()
	if *spin {
		for parent := os.Getppid(); os.Getppid() == parent; {
			work(50 * time.Millisecond)
		}
		return
	}
	folders := flag.Args()
	if i := slices.Index(folders, "--"); i >= 0 {
		folders, o.tests = folders[:i], folders[i+1:]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, folders, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		stop()
		os.Exit(1)
	}
}

// work uses a processor for about d.
func work(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for range 10000 {
		}
	}
}

// result is the result of one test program.
type result struct {
	pkg   string
	took  time.Duration // wall clock
	cpu   time.Duration // with its children
	tests []timed
	err   error
	text  string // the output of failed tests
}

// run builds and runs the tests of the packages in the folders.
func run(ctx context.Context, o options, folders []string, out io.Writer) error {
	cache, err := folder(ctx, o.stage)
	if err != nil {
		return err
	}
	store := filepath.Join(cache, "times.json")
	times := map[string]float64{} // seconds of each package in the last run
	if data, err := os.ReadFile(store); err == nil {
		_ = json.Unmarshal(data, &times) // without it the largest tests begin
	}
	if len(folders) == 0 {
		return errors.New("no folder is named")
	}
	packages, err := list(ctx, folders)
	if err != nil {
		return err
	}
	slices.SortStableFunc(packages, func(a, b pkg) int {
		return cmp.Or(cmp.Compare(times[b.ImportPath], times[a.ImportPath]), cmp.Compare(b.size, a.size))
	})
	stop, err := burn(ctx, o.busy)
	if err != nil {
		return err
	}
	defer stop()
	results, err := play(ctx, o, cache, packages, out)
	for _, r := range results {
		if !slices.Contains(o.tests, "-test.run") {
			times[r.pkg] = r.took.Seconds()
		}
	}
	if data, err := json.Marshal(times); err == nil {
		_ = os.WriteFile(store, data, 0o600) // an old order is no fault
	}
	report(results, out)
	var failed []string
	for _, r := range results {
		if r.err != nil {
			failed = append(failed, r.pkg)
		}
	}
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d packages failed: %s", len(failed), strings.Join(failed, " ")))
	}
	return err
}

// folder returns the folder in the build cache that keeps the test programs of a stage.
func folder(ctx context.Context, stage string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "forebay-tests", stage)
	return dir, os.MkdirAll(dir, 0o755)
}

// burn starts n processes that use a processor until stop.
func burn(ctx context.Context, n int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	self, err := os.Executable()
	var started []*exec.Cmd
	for range n {
		if err == nil {
			c := exec.CommandContext(ctx, self, "-spin")
			err = c.Start()
			started = append(started, c)
		}
	}
	stop = func() {
		cancel()
		for _, c := range started {
			_ = c.Wait() // it was killed
		}
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting a busy process: %w", err)
	}
	return stop, nil
}

// report prints the packages and tests that took longest.
func report(results []result, out io.Writer) {
	type line struct {
		took time.Duration
		text string
	}
	var packages, tests []line
	for _, r := range results {
		packages = append(packages, line{r.took, fmt.Sprintf("%s, CPU %.0fs", r.pkg, r.cpu.Seconds())})
		for _, t := range r.tests {
			tests = append(tests, line{t.took, t.name + " of " + r.pkg})
		}
	}
	for what, lines := range map[string][]line{"packages": packages, "tests": tests} {
		slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(b.took, a.took) })
		fmt.Fprintf(out, "the slowest %s:\n", what)
		for _, l := range lines[:min(len(lines), 8)] {
			fmt.Fprintf(out, "%6.1fs  %s\n", l.took.Seconds(), l.text)
		}
	}
}
