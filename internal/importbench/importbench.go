// Package importbench compares the import of a driver with the bulk loader of the same database, with the same rows in one run.
// Each driver has a command for it:
//
//	cd drivers/sqlite && go run ./bench -json
package importbench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/cputime"
)

// Scenario is one line of the report.
type Scenario struct {
	// Name is for example import/sqlite.
	Name string
	// Import opens the driver for an empty database in a folder that is removed later. It returns the call that is measured, and a second
	// call that closes the database and returns the number of rows in [Table].
	Import Way
	// Loader does the same for the database's own loader, which reads the file of [Input.CSV].
	Loader Way
	// Goal is the least ratio of the driver's rows a second to the loader's.
	Goal float64
	// RowsPerS, if not 0, is the goal instead, the least rows a second.
	RowsPerS float64
}

// Way is one way to import, see [Scenario].
type Way func(ctx context.Context, dir string, in Input) (run func() error, end func() (rows int64, err error), err error)

// Into is a [Way] into a target, which it closes at the end. count then returns the number of rows in [Table].
func Into(ctx context.Context, in Input, target interface {
	driver.Target
	io.Closer
}, count func() (int64, error),
) (run func() error, end func() (rows int64, err error), err error) {
	end = func() (int64, error) {
		if err := target.Close(); err != nil {
			return 0, err
		}
		return count()
	}
	return func() error { return target.Import(ctx, in.File) }, end, target.Ensure(ctx, in.File.Table)
}

// Input has the rows that both ways import.
type Input struct {
	// File has slices of about 16 MB.
	File *driver.File
	// CSV is the path of the same rows in one plain file without a header. NULL is an empty cell, every other cell is quoted.
	CSV string
}

// result is a line of the JSON form. A figure is the median of the rounds, a ratio the median of the ratios of the rounds.
type result struct {
	Scenario        string  `json:"scenario"`
	Rows            int64   `json:"rows"`
	Rounds          int     `json:"rounds"`
	RowsPerS        float64 `json:"rows_per_s"`
	BytesPerS       float64 `json:"bytes_per_s"`
	BytesPerCPUS    float64 `json:"bytes_per_cpu_s"`
	CPUPerRow       float64 `json:"cpu_ns_per_row"`
	LoaderRowsPerS  float64 `json:"loader_rows_per_s"`
	LoaderCPUPerRow float64 `json:"loader_cpu_ns_per_row"`
	OfLoader        float64 `json:"of_loader"`
	OfLoaderCPU     float64 `json:"of_loader_cpu"`
	Goal            string  `json:"goal"`
	Met             bool    `json:"met"`
}

// Run runs the command with these arguments. It measures and writes the report.
func Run(ctx context.Context, args []string, stdout io.Writer, scenarios ...Scenario) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var b bench
	flags.Int64Var(&b.rows, "rows", 400_000, "rows of the file")
	flags.IntVar(&b.rounds, "rounds", 5, "measurements of each way, in turn; medians are reported")
	flags.StringVar(&b.parent, "dir", "", "`folder` on the disk under test (default: the system's temporary folder)")
	flags.StringVar(&b.encoding, "encoding", "none", "encoding of the slices: none, gzip or zstd")
	flags.StringVar(&b.profile, "cpuprofile", "", "`file` for a CPU profile of this process")
	pattern := flags.String("run", ".", "measure the scenarios whose names match this `regexp`")
	asJSON := flags.Bool("json", false, "one JSON object a line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	results, err := b.run(ctx, *pattern, scenarios)
	for _, r := range results {
		if *asJSON {
			err = errors.Join(err, json.NewEncoder(stdout).Encode(r))
			continue
		}
		fmt.Fprintf(stdout, "%-20s %9.0f rows/s %7.1f MB/s, %7.1f MB a second of CPU, %6.0f ns of CPU a row; loader %9.0f rows/s, %6.0f ns; %.2f of the loader (goal %s: met %v), %.2f by CPU\n",
			r.Scenario, r.RowsPerS, r.BytesPerS/1e6, r.BytesPerCPUS/1e6, r.CPUPerRow, r.LoaderRowsPerS, r.LoaderCPUPerRow, r.OfLoader, r.Goal, r.Met, r.OfLoaderCPU)
	}
	return err
}

type bench struct {
	rows              int64
	rounds            int
	parent            string
	encoding, profile string
}

func (b *bench) run(ctx context.Context, pattern string, scenarios []Scenario) (results []result, err error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.parent, "importbench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	in, err := makeInput(filepath.Join(dir, "input"), b.rows, b.encoding)
	if err != nil {
		return nil, err
	}
	if b.profile != "" {
		f, err := os.Create(b.profile)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	for _, s := range scenarios {
		if !re.MatchString(s.Name) {
			continue
		}
		r, err := b.measure(ctx, dir, in, s)
		if err != nil {
			return results, fmt.Errorf("%s: %w", s.Name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

func (b *bench) measure(ctx context.Context, dir string, in Input, s Scenario) (result, error) {
	var took, cpu, loaderTook, loaderCPU, ratio, cpuRatio []float64
	for range b.rounds {
		lt, lc, err := once(ctx, dir, in, s.Loader)
		if err != nil {
			return result{}, fmt.Errorf("loader: %w", err)
		}
		t, c, err := once(ctx, dir, in, s.Import)
		if err != nil {
			return result{}, err
		}
		took, cpu, loaderTook, loaderCPU, ratio = append(took, t), append(cpu, c), append(loaderTook, lt), append(loaderCPU, lc), append(ratio, lt/t)
		cpuRatio = append(cpuRatio, over(lc, c))
	}
	n := float64(b.rows)
	r := result{
		Scenario: s.Name, Rows: b.rows, Rounds: b.rounds,
		RowsPerS: n / median(took), BytesPerS: float64(in.File.RawBytes) / median(took), BytesPerCPUS: over(float64(in.File.RawBytes), median(cpu)),
		CPUPerRow:      median(cpu) * 1e9 / n,
		LoaderRowsPerS: n / median(loaderTook), LoaderCPUPerRow: median(loaderCPU) * 1e9 / n,
		OfLoader: median(ratio), OfLoaderCPU: median(cpuRatio), Goal: fmt.Sprintf("at least %g", s.Goal),
	}
	r.Met = r.OfLoader >= s.Goal
	if s.RowsPerS > 0 {
		r.Goal, r.Met = fmt.Sprintf("at least %.0f rows/s", s.RowsPerS), r.RowsPerS >= s.RowsPerS
	}
	return r, nil
}

// once measures one way, in seconds of the clock and of CPU time. The CPU time includes the processes that this one has started, once they
// have ended.
func once(ctx context.Context, parent string, in Input, way Way) (took, cpu float64, err error) {
	dir, err := os.MkdirTemp(parent, "round-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	run, end, err := way(ctx, dir, in)
	if err != nil {
		return 0, 0, err
	}
	runtime.GC() // garbage of the other way must not count as work of this way
	begin, before := time.Now(), cputime.Process()+cputime.Children()
	err = run()
	took, cpu = time.Since(begin).Seconds(), (cputime.Process() + cputime.Children() - before).Seconds()
	rows, endErr := end()
	if err = errors.Join(err, endErr); err == nil && rows != in.File.Rows {
		err = fmt.Errorf("the table has %d rows, want %d", rows, in.File.Rows)
	}
	return took, cpu, err
}

// over divides by a CPU time, which may be unknown. Then the result is 0.
func over(v, cpu float64) float64 {
	if cpu == 0 {
		return 0
	}
	return v / cpu
}

func median(values []float64) float64 {
	values = slices.SortedFunc(slices.Values(values), cmp.Compare[float64])
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
