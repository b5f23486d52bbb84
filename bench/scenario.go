package main

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

// A scenario is one line of the report: something that can be measured again and again.
type scenario struct {
	// name is what -run matches.
	name string
	// group names the scenarios that are measured together, round by round, so that a disturbance of the machine
	// meets a scenario and what it is compared with alike.
	group string
	// limit is the scenario that measures what the hardware allows for the same bytes; empty if there is none.
	// Throughputs are compared in bytes.
	limit string
	// against are the baselines: simpler ways to do a part of the same work. Throughputs are compared in rows.
	against []baseline
	// fsync compares the latencies with that of one sync.
	fsync bool
	// run measures once.
	run func(context.Context, *env) (*sample, error)
}

// A baseline is a scenario to compare with.
type baseline struct {
	// field is the name of the ratio in the JSON form.
	field string
	// scenario is the name of the scenario.
	scenario string
}

// env is what a measurement finds.
type env struct {
	// dir is a folder on the disk under test. A measurement leaves nothing behind in it.
	dir string
	// duration is the length of the measured window.
	duration time.Duration
	// ring is written once for all.
	ring sharedRing
}

const fsyncName = "limit/fsync"

// scenarios returns everything that can be measured: limits first, then baselines, then Forebay itself.
func scenarios() []scenario {
	all := []scenario{
		{name: fsyncName, group: "disk", run: seqwrite(4 << 10)},
	}
	for _, size := range []int{4 << 10, 64 << 10, 256 << 10, 1 << 20} {
		all = append(all, scenario{name: seqwriteName(size), group: "disk", run: seqwrite(size)})
	}
	for _, w := range workloads() {
		for _, callers := range []int{64, 1024} {
			all = append(all,
				scenario{name: withCallers("baseline/rawfile/"+w.name, callers), group: w.name, run: rawfile(w, callers)},
				scenario{name: withCallers("baseline/rawfile-reused/"+w.name, callers), group: w.name, run: rawfileReused(w, callers)},
				scenario{name: withCallers("baseline/pebble-set/"+w.name, callers), group: w.name, run: pebbleSet(w, callers)},
			)
		}
		name := "map/row"
		if w.name != "1KB" {
			name += "/" + w.name
		}
		all = append(all, scenario{name: name, group: w.name, run: mapRow(w)})
	}
	return all
}

func withCallers(name string, callers int) string { return fmt.Sprintf("%s/callers=%d", name, callers) }

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

// A plan is what is measured together: the selected scenarios of one group and all they are compared with.
type plan struct {
	group string
	// selected are to be reported.
	selected []scenario
	// measured are the selected ones and those they are compared with, each once, in the order of scenarios.
	measured []scenario
}

// choose returns what must be measured to report the scenarios whose names match re.
func choose(all []scenario, re *regexp.Regexp) ([]plan, error) {
	var plans []plan
	index := make(map[string]int)
	for _, s := range all {
		if !re.MatchString(s.name) {
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
			if needed[s.name] {
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
