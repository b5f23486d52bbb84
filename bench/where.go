package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay"
)

// whereCommand is the first argument that makes this program tell where the CPU time of a row goes.
const whereCommand = "where"

// A stage is a part of the way of a row from the call to the table.
type stage struct {
	name string
	// functions are the beginnings of the names of its functions, without modulePath. A call stack belongs to the stage of the
	// innermost function that is named here.
	functions []string
}

const modulePath = "github.com/forebay/forebay"

// storeStage is the stage of what the store does in its own goroutines: it writes and syncs the log, and writes and merges tables.
const storeStage = "commit"

var stages = []stage{
	{"map", []string{".(*ingestion).mapRow", "/mapping."}},
	{"copy", []string{"/buffer.(*Buffer).append"}},
	{"compress", []string{"/buffer.(*packer).", "/buffer.(*compressor).", "/buffer.(*DefinedSink).precompress"}},
	{storeStage, []string{"/buffer.(*Buffer).commitLoop", "/buffer.(*Buffer).syncLoop", "/buffer.(*Buffer).confirmLoop"}},
	{"upload", []string{"/buffer.(*Buffer).upload", "/buffer.(*sliceSource)."}},
	{"import", []string{"/buffer.(*Buffer).import", "/buffer.(*Buffer).readShared", "/driver."}},
}

// The parts of the CPU time that belong to no stage.
const (
	// partEngine is the rest of the engine: results, waiting, and the records of slices and files.
	partEngine = "engine"
	// partRuntime is the scheduler, the collector of garbage, and the profiler.
	partRuntime = "runtime"
	// partCallers is the load of this program.
	partCallers = "callers"
	// partUnsampled is CPU time of the process that the profile does not have. It may be a little below 0, because the profile counts by samples.
	partUnsampled = "unsampled"
)

var parts = func() []string {
	var list []string
	for _, s := range stages {
		list = append(list, s.name)
	}
	return append(list, partEngine, partRuntime, partCallers, partUnsampled)
}()

// partOf returns the stage or part that a call stack belongs to.
func partOf(stack []string) string {
	for _, name := range stack {
		own, ours := strings.CutPrefix(name, modulePath)
		for _, s := range stages {
			if ours && slices.ContainsFunc(s.functions, func(f string) bool { return strings.HasPrefix(own, f) }) {
				return s.name
			}
		}
	}
	part := partRuntime
	for _, name := range stack {
		switch {
		case strings.HasPrefix(name, "main."), strings.HasPrefix(name, modulePath+"/bench."): // in its test
			return partCallers
		case strings.HasPrefix(name, "github.com/cockroachdb/pebble/"), strings.HasPrefix(name, modulePath+"/internal/pebblestore."):
			part = storeStage // unless a different part has called the store
		case strings.HasPrefix(name, modulePath):
			return partEngine
		}
	}
	return part
}

// spent is what the rows of one workload have cost.
type spent struct {
	rows int64
	cpu  time.Duration // of the process
	part map[string]time.Duration
}

// add adds a measurement. The parts add up to the CPU time of the process.
func (s *spent) add(rows int64, cpu time.Duration, samples []cpuSample) {
	if s.part == nil {
		s.part = make(map[string]time.Duration)
	}
	s.rows, s.cpu = s.rows+rows, s.cpu+cpu
	s.part[partUnsampled] += cpu
	for _, sample := range samples {
		s.part[partOf(sample.stack)] += sample.cpu
		s.part[partUnsampled] -= sample.cpu
	}
}

func (s *spent) perRow(d time.Duration) float64 { return float64(d) / float64(s.rows) }

// outside is the share of the CPU time that belongs to no stage.
func (s *spent) outside() float64 {
	rest := s.cpu
	for _, stage := range stages {
		rest -= s.part[stage.name]
	}
	return float64(rest) / float64(s.cpu)
}

// A way is how the callers of one line of the table call the engine.
type way struct {
	name            string
	callers, submit int
}

var waysOfWhere = []way{{"sync", 64, 0}, {"submit", 16, 64}}

// where measures one line once, from the first call until the last row is in its table.
func where(ctx context.Context, e *env, i ingestion, s *spent) (err error) {
	eng, err := setup{source: forebay.Source{Settings: i.settings}, flow: true}.open(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	cleanUp()
	var profile bytes.Buffer
	before := processCPU()
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return err
	}
	m, err := i.measure(ctx, e, eng)
	if err == nil {
		err = eng.FlushAll(ctx)
	}
	pprof.StopCPUProfile()
	cpu := processCPU() - before
	if err != nil {
		return err
	}
	samples, err := readCPUProfile(&profile)
	if err != nil {
		return err
	}
	s.add(m.Total, cpu, samples)
	return verify(ctx, eng, m.Total, true)
}

// whereLine is a line of the table, in nanoseconds of CPU a row.
type whereLine struct {
	Size        string             `json:"size"`
	Way         string             `json:"way"`
	Compression string             `json:"compression"`
	Rows        int64              `json:"rows"`
	CPUPerRow   float64            `json:"cpu_ns_per_row"`
	Parts       map[string]float64 `json:"parts"`
	Outside     float64            `json:"outside"`
}

func lineOf(w workload, y way, c compression, s *spent) whereLine {
	l := whereLine{
		Size: w.name, Way: y.name, Compression: c.name, Rows: s.rows, CPUPerRow: s.perRow(s.cpu), Parts: make(map[string]float64), Outside: s.outside(),
	}
	for _, part := range parts {
		l.Parts[part] = s.perRow(s.part[part])
	}
	return l
}

// runWhere is the command of that name.
func runWhere(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) (err error) {
	flags := flag.NewFlagSet("bench "+whereCommand, flag.ContinueOnError)
	flags.SetOutput(stderr)
	duration := flags.Duration("duration", 4*time.Second, "how long events are sent in one measurement, after a quarter of it that counts too")
	rounds := flags.Int("rounds", 3, "measurements of each line, in turns; they are added up")
	parent := flags.String("dir", "", "`folder` on the disk under test (default: the system's temporary folder)")
	packed := flags.String("compression", compressions[0].name, "compression of the rows: gzip, none or zstd")
	asJSON := flags.Bool("json", false, "write one JSON object per line instead of a table")
	if err := flags.Parse(args); err != nil {
		return err
	}
	at := slices.IndexFunc(compressions, func(c compression) bool { return c.name == *packed })
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case *duration <= 0 || *rounds <= 0:
		return errors.New("-duration and -rounds must be positive")
	case at < 0:
		return fmt.Errorf("-compression is %q, must be gzip, none or zstd", *packed)
	case processCPU() < 0:
		return errors.New("this system does not tell the CPU time of a process")
	}
	folder, err := os.MkdirTemp(*parent, "forebay-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	type line struct {
		workload
		way
		spent
	}
	var lines []*line
	for _, w := range workloads() {
		for _, y := range waysOfWhere {
			lines = append(lines, &line{workload: w, way: y})
		}
	}
	for range *rounds {
		for _, l := range lines {
			own := filepath.Join(folder, "measured")
			if err := os.Mkdir(own, 0o755); err != nil {
				return err
			}
			i := ingestion{
				workload: l.workload, callers: l.callers, submit: l.submit, settings: forebay.Settings{Compression: compressions[at].value}, flow: true,
			}
			err := where(ctx, &env{dir: own, duration: *duration}, i, &l.spent)
			if err = errors.Join(err, os.RemoveAll(own)); err != nil {
				return fmt.Errorf("%s, %s: %w", l.workload.name, l.way.name, err)
			}
		}
	}
	var list []whereLine
	for _, l := range lines {
		list = append(list, lineOf(l.workload, l.way, compressions[at], &l.spent))
	}
	if *asJSON {
		for _, l := range list {
			if err := json.NewEncoder(stdout).Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	return writeWhere(stdout, list)
}

// writeWhere writes the table, first the stages, then what belongs to none of them, then the CPU time of the process, which is their sum.
func writeWhere(w io.Writer, list []whereLine) error {
	fmt.Fprintf(w, "ns of CPU a row, from the call to the table, rows stored with %s. The columns from %s to %s belong to no stage.\n\n", list[0].Compression, partEngine, partUnsampled)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "size\tway\t%s\tall\tin no stage\t\n", strings.Join(parts, "\t"))
	for _, l := range list {
		fmt.Fprintf(t, "%s\t%s\t", l.Size, l.Way)
		for _, part := range parts {
			fmt.Fprintf(t, "%.0f\t", l.Parts[part])
		}
		fmt.Fprintf(t, "%.0f\t%.0f%%\t\n", l.CPUPerRow, 100*l.Outside)
	}
	return t.Flush()
}
