// Command bench measures a cluster:
//
//	cd cluster && go run ./bench -json
//
// The scenarios, from which -run chooses:
//
//	cluster/acknowledged             rows of 200 B, each acknowledged before its caller has the next one, 1,024 callers: three nodes in one
//	                                 process, compared with one engine without a log, and with publishing each event to a stream with three copies
//	cluster/adoption                 a node whose rows wait is lost with its disk: the time until another node has restored its instance from
//	                                 the last checkpoint and the log (goal: 10 s for each GB), and until all rows are in their table
//	cluster/keys/nodes=N             calls with keys, at nodes that ask each other for the keys, compared with nodes that do not
//	cluster/scale/nodes=N            N engines, N nodes with N separate servers, and N logs without engines, all on this machine: their limits, and
//	                                 the bytes and the processor's time of the servers
//	cluster/idle/PLACE/sinks=N       processor and memory of nodes that do nothing, with their servers inside, or in separate processes
//
// Every measurement that stores rows counts them afterwards, and fails if one is missing or there twice.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if job := os.Getenv(jobEnv); job != "" {
		os.Exit(exitCode(runJob(context.Background(), job, os.Stdin, os.Stdout)))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(exitCode(run(ctx, os.Args[1:], os.Stdout)))
}

func exitCode(err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	return 1
}

// bench holds the flags.
type bench struct {
	duration time.Duration
	settle   time.Duration
	rounds   int
	megabyte int64
	parent   string
	profiles string
}

// scenario is one line of the report. measure returns the figures of one round.
type scenario struct {
	name    string
	measure func(ctx context.Context, dir string) (map[string]float64, error)
	goals   []goal
}

func (b *bench) scenarios() []scenario {
	all := []scenario{
		{"cluster/acknowledged", b.acknowledged, []goal{{"of_engine", 0.35, false}, {"of_publish", 5, false}, {"p50_of_engine", 3, true}}},
		{"cluster/adoption", b.adoption, []goal{{"restore_s_per_gb", 10, true}}},
	}
	for _, n := range []int{1, 3, 5, 7} {
		add := func(name string, measure func(context.Context, string, int) (map[string]float64, error)) {
			all = append(all, scenario{fmt.Sprintf("cluster/%s/nodes=%d", name, n), func(ctx context.Context, dir string) (map[string]float64, error) {
				return measure(ctx, dir, n)
			}, nil})
		}
		add("scale", b.scale)
		if n > 1 {
			add("keys", b.keys)
		}
	}
	for _, inside := range []bool{true, false} {
		for _, sinks := range []int{1, 100} {
			all = append(all, scenario{
				fmt.Sprintf("cluster/idle/%s/sinks=%d", map[bool]string{true: "inside", false: "beside"}[inside], sinks),
				func(ctx context.Context, dir string) (map[string]float64, error) {
					return b.idle(ctx, dir, inside, sinks)
				},
				nil,
			})
		}
	}
	return all
}

// run runs the command with these arguments.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var b bench
	flags.DurationVar(&b.duration, "duration", 10*time.Second, "how long each way of acknowledged, keys and scale, and each scenario of idle, is measured")
	flags.DurationVar(&b.settle, "settle", 15*time.Second, "how long nodes of idle run before they are measured")
	flags.IntVar(&b.rounds, "rounds", 3, "measurements of each scenario; medians are reported")
	flags.Int64Var(&b.megabyte, "mb", 256, "MB that wait on the node of adoption")
	flags.StringVar(&b.parent, "dir", "", "`folder` on the disk under test (default: the system's temporary folder)")
	flags.StringVar(&b.profiles, "cpuprofile", "", "`folder` for a CPU profile of acknowledged's nodes and of each process of idle")
	pattern := flags.String("run", ".", "measure the scenarios whose names match this `regexp`")
	asJSON := flags.Bool("json", false, "one JSON object a line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	re, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	for _, s := range b.scenarios() {
		if !re.MatchString(s.name) {
			continue
		}
		r, err := b.report(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if *asJSON {
			err = json.NewEncoder(stdout).Encode(r.fields())
		} else {
			_, err = fmt.Fprintln(stdout, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// report measures a scenario in a separate folder each round.
func (b *bench) report(ctx context.Context, s scenario) (report, error) {
	rounds := map[string][]float64{}
	for range b.rounds {
		if err := func() (err error) {
			dir, err := os.MkdirTemp(b.parent, "clusterbench-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			figures, err := s.measure(ctx, dir)
			for name, v := range figures {
				rounds[name] = append(rounds[name], v)
			}
			return err
		}(); err != nil {
			return report{}, err
		}
	}
	r := report{scenario: s, rounds: b.rounds, figures: map[string]float64{}}
	for name, values := range rounds {
		r.figures[name] = median(values)
	}
	return r, nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// goal is a bound of a figure, the least value, or with most the greatest one.
type goal struct {
	figure string
	bound  float64
	most   bool
}

// report has the medians of the rounds.
type report struct {
	scenario
	rounds  int
	figures map[string]float64
}

// verdict is a goal in the JSON form, as of the command bench of the core.
type verdict struct {
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	Goal   string  `json:"goal"`
	Met    bool    `json:"met"`
}

func (r report) verdicts() (all []verdict) {
	for _, g := range r.goals {
		v, words := r.figures[g.figure], "at least"
		met := v >= g.bound
		if g.most {
			words, met = "at most", v <= g.bound
		}
		all = append(all, verdict{g.figure, v, fmt.Sprintf("%s %g", words, g.bound), met})
	}
	return all
}

// fields is one flat object.
func (r report) fields() map[string]any {
	fields := map[string]any{"scenario": r.name, "rounds": r.rounds}
	for name, v := range r.figures {
		fields[name] = v
	}
	if goals := r.verdicts(); len(goals) > 0 {
		fields["goals"] = goals
	}
	return fields
}

func (r report) String() string {
	text := []string{r.name}
	for _, name := range slices.Sorted(maps.Keys(r.figures)) {
		text = append(text, fmt.Sprintf("%s %.4g", name, r.figures[name]))
	}
	for _, v := range r.verdicts() {
		text = append(text, fmt.Sprintf("%s: goal %s, met %t", v.Figure, v.Goal, v.Met))
	}
	return strings.Join(text, "  ")
}
