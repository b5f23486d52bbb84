package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
)

// A scenario is one line of the report, something that can be measured again and again.
type scenario struct {
	// name is what -run matches.
	name string
	// group names the scenarios that are measured together, round by round, so that a disturbance of the machine
	// affects a scenario and its comparisons alike.
	group string
	// limit is the scenario that measures the limit of the hardware for the same bytes, or empty if there is none.
	// Throughputs are compared in bytes.
	limit string
	// against are the baselines, simpler ways to do a part of the same work. Throughputs are compared in rows.
	against []baseline
	// fsync compares the latencies with the time of one sync.
	fsync bool
	// goals are the targets for the figures.
	goals []goal
	// unlisted scenarios exist only to be compared with.
	unlisted bool
	// alone scenarios are measured in a separate process, because its memory counts.
	alone bool
	// run measures once.
	run scenarioFunc
}

// A scenarioFunc measures a scenario once.
type scenarioFunc func(context.Context, *env) (*sample, error)

// A baseline is a scenario to compare with.
type baseline struct {
	// field is the name of the ratio in the JSON form.
	field    string
	scenario string
}

// env is the environment of a measurement.
type env struct {
	// dir is a folder on the disk under test. Each measurement has its own, which is empty at first and removed after it.
	dir string
	// duration is the length of the measured window.
	duration time.Duration
	// size is how large the scenarios about backlogs and many sinks are.
	size size
	// volume is the target of syncs. Nil means the real one.
	volume *volume
	// ring holds the preallocated files that baselines write to. All measurements share it.
	ring *sharedRing
	// profiles is the folder for the profiles of each scenario, or empty for none.
	profiles string
	// ended, if set, is called at the end of the measured window.
	ended func()
}

const fsyncName = "limit/fsync"

// scenarios returns everything that can be measured, limits first, then baselines, then Forebay itself.
func scenarios() []scenario {
	all := []scenario{{name: fsyncName, group: "disk", run: seqwrite(4 << 10)}}
	for _, size := range []int{4 << 10, 64 << 10, 256 << 10, 1 << 20} {
		all = append(all, scenario{name: seqwriteName(size), group: "disk", run: seqwrite(size)})
	}
	for _, w := range workloads() {
		all = append(all, ofWorkload(w)...)
	}
	return slices.Concat(all, ofMapping(), ofTelemetry(), ofScale(), ofFootprint(), ofReference(), ofGrowth())
}

// manyCallers is the load of a server under pressure.
const manyCallers = 1024

// A compression is one that a sink may have. The first is the default.
type compression struct {
	name  string
	value forebay.Compression
}

var compressions = []compression{{"gzip", forebay.CompressionGzip}, {"none", forebay.CompressionNone}, {"zstd", forebay.CompressionZstd}}

// suffix is a part of a name. The default is not mentioned.
func (c compression) suffix() string {
	if c.value == forebay.CompressionGzip {
		return ""
	}
	return "/compression=" + c.name
}

// ofWorkload returns the scenarios with events of one size. The bare name, without callers and compression, means
// 64 callers and the default settings.
func ofWorkload(w workload) []scenario {
	var all []scenario
	add := func(s scenario) {
		s.group = w.name
		all = append(all, s)
	}
	// limitOf adds the limit of a log that syncs after that many rows.
	limitOf := func(rows int) string {
		bytes := min(rows*w.rowBytes, maxGroup)
		name := seqwriteName(bytes)
		if !slices.ContainsFunc(all, func(s scenario) bool { return s.name == name }) {
			add(scenario{name: name, run: seqwrite(bytes), unlisted: true})
		}
		return name
	}
	limits := map[int]string{1: limitOf(1), 64: limitOf(64), maxGroup: limitOf(maxGroup), manyCallers: limitOf(manyCallers)}

	limitHTTP, fastHTTP := "limit/http/"+w.name, "limit/http/"+w.name+"/server=fast"
	add(scenario{name: limitHTTP, run: httpDiscard(w.traffic(), netHTTP)})
	add(scenario{name: fastHTTP, run: httpDiscard(w.traffic(), fast)})
	baselines := make(map[int][]baseline)
	for _, callers := range []int{64, manyCallers} {
		for _, b := range []struct {
			field, name string
			run         scenarioFunc
		}{
			{"rawfile", "rawfile", rawfile(w, callers)},
			{"rawfile_reused", "rawfile-reused", rawfileReused(w, callers)},
			{"pebble_set", "pebble-set", pebbleSet(w, callers)},
		} {
			name := "baseline/" + b.name + "/" + w.name + callersSuffix(callers)
			baselines[callers] = append(baselines[callers], baseline{b.field, name})
			add(scenario{name: name, run: b.run})
		}
	}

	// Goals in CPU time hold on every machine. Rows a second also depend on the disk and the cores.
	mapName, batchGoal, nosyncGoals := "map/row", atMost("cpu_ns_per_row", 5000), map[string][]goal(nil)
	if w.name == "150B" {
		mapName, batchGoal = "map/row/150B", atMost("cpu_ns_per_row", 2500)
		nosyncGoals = map[string][]goal{"none": {atLeast("rows_per_s", 1_000_000)}, "gzip": {atLeast("rows_per_s", 500_000)}}
	}
	add(scenario{name: mapName, run: mapTask(w.task())})
	// A goal of 0.87 is a row that takes 1.15 times as long.
	add(scenario{
		name: mapName + "/typed", run: mapTask(w.typedTask()), against: []baseline{{"untyped", mapName}}, goals: []goal{atLeast("of_untyped", 0.87)},
	})
	goals := map[int][]goal{
		1:           {atMost("p50_of_fsync", 1.3)},
		64:          {atMost("p50_of_fsync", 1.5), atMost("p99_of_fsync", 5)},
		manyCallers: {atLeast("of_rawfile", 0.9), atLeast("of_pebble_set", 2)},
	}
	for _, callers := range []int{1, 64, manyCallers} {
		for _, c := range compressions[:2] {
			add(scenario{
				name:  "ingest/sync/" + w.name + callersSuffix(callers) + c.suffix(),
				limit: limits[callers], against: baselines[callers], fsync: true, goals: goals[callers],
				run: ingestion{workload: w, callers: callers, settings: forebay.Settings{Compression: c.value}}.run,
			})
		}
	}
	for _, c := range compressions {
		add(scenario{
			name: "ingest/sync-batch/" + w.name + c.suffix(), limit: limits[maxGroup], fsync: true, goals: []goal{batchGoal},
			run: ingestion{workload: w, callers: 64, batch: 100, settings: forebay.Settings{Compression: c.value}}.run,
		})
		add(scenario{
			name: "ingest/nosync/" + w.name + c.suffix(), limit: limits[maxGroup], goals: nosyncGoals[c.name],
			run: ingestion{workload: w, callers: 64, settings: forebay.Settings{Sync: forebay.SyncUnsafe, Compression: c.value}}.run,
		})
	}
	add(scenario{
		name: "ingest/submit/" + w.name, limit: limits[manyCallers], against: baselines[manyCallers], fsync: true,
		run: ingestion{workload: w, callers: 16, submit: 64}.run,
	})
	add(scenario{
		name: "flow/sync/" + w.name, limit: limits[64], fsync: true,
		run: ingestion{workload: w, callers: 64, flow: true}.run,
	})
	add(scenario{
		name: "http/single/" + w.name, limit: limitHTTP, fsync: true, goals: []goal{atLeast("of_limit", 0.85)}, run: httpSingle(w.traffic(), fast),
		against: []baseline{{"fast_limit", fastHTTP}},
	})
	add(scenario{name: "http/single/" + w.name + "/server=net-http", limit: limitHTTP, fsync: true, run: httpSingle(w.traffic(), netHTTP)})
	add(scenario{
		name: fmt.Sprintf("http/single/%s/connections=%d", w.name, manyCallers), fsync: true, run: httpSingle(w.manyConnections(), fast),
	})
	add(scenario{
		name: "http/ndjson/" + w.name, fsync: true, goals: []goal{atLeast("of_ingest_sync", 0.6)}, run: httpLines(w),
		against: []baseline{{"ingest_sync", "ingest/sync/" + w.name}},
	})
	return append(all, ofBeside(w)...)
}

// maxGroup bounds the groups of a limit because beyond it a disk gets no faster.
const maxGroup = 4 << 20

// callersSuffix is a part of a name; 64 callers are not mentioned.
func callersSuffix(callers int) string {
	if callers == 64 {
		return ""
	}
	return fmt.Sprintf("/callers=%d", callers)
}

// seqwriteName names the limit for groups of n bytes.
func seqwriteName(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("limit/seqwrite/%dM", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("limit/seqwrite/%dK", n>>10)
	}
	return fmt.Sprintf("limit/seqwrite/%dB", n)
}

// A plan lists scenarios that are measured together, the selected scenarios of one group and all their comparisons.
type plan struct {
	group string
	// selected are to be reported.
	selected []scenario
	// measured are the selected scenarios and their comparisons, each once, in the order of scenarios.
	measured []scenario
}

// choose returns the scenarios that must be measured to report the scenarios whose names match re.
func choose(all []scenario, re *regexp.Regexp) ([]plan, error) {
	var plans []plan
	index := make(map[string]int)
	for _, s := range all {
		if s.unlisted || !re.MatchString(s.name) {
			continue
		}
		i, ok := index[s.group]
		if !ok {
			i = len(plans)
			index[s.group] = i
			plans = append(plans, plan{group: s.group})
		}
		plans[i].selected = append(plans[i].selected, s)
	}
	for i := range plans {
		needed := make(map[string]bool)
		for _, s := range plans[i].selected {
			for _, name := range s.needs() {
				needed[name] = true
			}
		}
		for _, s := range all {
			// The limits of another group may have the same name.
			if needed[s.name] && (s.group == plans[i].group || !s.unlisted) {
				plans[i].measured = append(plans[i].measured, s)
				delete(needed, s.name)
			}
		}
		for name := range needed {
			return nil, fmt.Errorf("scenario %q is compared with, but is not defined", name)
		}
	}
	return plans, nil
}

// bare returns s without its comparisons.
func (s scenario) bare() scenario {
	s.limit, s.against, s.fsync, s.goals = "", nil, false, nil
	return s
}

// coresSuffix is a part of a name, and the number of cores follows.
const coresSuffix = "/cpu="

// onCores returns each scenario that matches once for each number of cores. All but the first are compared with it, and
// with nothing else.
func onCores(all []scenario, re *regexp.Regexp, cores []int) []scenario {
	var list []scenario
	for _, s := range all {
		if s.unlisted || !re.MatchString(s.name) {
			continue
		}
		name := func(n int) string { return fmt.Sprintf("%s%s%d", s.name, coresSuffix, n) }
		for i, n := range cores {
			c := s.bare()
			c.name, c.run = name(n), func(ctx context.Context, e *env) (*sample, error) { return s.apart(ctx, e, n) }
			if i > 0 {
				field := fmt.Sprintf("cpu%d", cores[0])
				c.against = []baseline{{field, name(cores[0])}}
				if many := strings.HasSuffix(s.name, callersSuffix(manyCallers)); n == 2*cores[0] && (many || strings.HasPrefix(s.name, "http/")) {
					c.goals = []goal{atLeast("of_"+field, 1.7)}
				}
			}
			list = append(list, c)
		}
	}
	return list
}

// modelled reports whether the syncs of s go to the volume of its env. The other scenarios sync in separate processes, or
// measure something else.
func (s scenario) modelled() bool {
	sized := slices.ContainsFunc(workloads(), func(w workload) bool { return s.group == w.name })
	return sized || s.group == "disk" || s.group == "compression" || strings.HasPrefix(s.group, "otlp/")
}

// needs returns the names of all scenarios that a report of s requires, itself included.
func (s scenario) needs() []string {
	names := []string{s.name}
	if s.limit != "" {
		names = append(names, s.limit)
	}
	for _, b := range s.against {
		names = append(names, b.scenario)
	}
	if s.fsync {
		names = append(names, fsyncName)
	}
	return names
}
