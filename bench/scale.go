package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/driver"
)

// size is how large the scenarios are whose size matters more than their duration.
type size struct {
	// Backlog is the rows in the local level while the staging is out of reach.
	Backlog byteSize
	// Sinks is the number of open sinks.
	Sinks int
	// Life is how long a slice waits for its upload.
	Life time.Duration
}

// defaultSize ends soon. The figures of docs/internals/performance.md are of 5GB, 10,000 sinks and 30 s.
var defaultSize = size{Backlog: 32 << 20, Sinks: 200, Life: 500 * time.Millisecond}

// byteSize is a number of bytes as a flag: 500MB, 5GB, 4KiB, or digits alone.
type byteSize int64

var byteUnits = []struct {
	name string
	size int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

// Set implements [flag.Value].
func (b *byteSize) Set(text string) error {
	for _, unit := range byteUnits {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > (1<<62)/unit.size {
			return fmt.Errorf("%q is no size such as 500MB or 5GB", text)
		}
		*b = byteSize(n * unit.size)
		return nil
	}
	return nil // not reached, because the last unit is always a suffix
}

func (b *byteSize) String() string { return strconv.FormatInt(int64(*b), 10) + "B" }

// ofScale returns the scenarios of backlogs, many sinks, and the bytes that reach the disk.
func ofScale() []scenario {
	w := workload{"1KB", 1024, 1269}
	all := []scenario{
		{
			name: "reopen", group: "reopen", run: reopen(w),
			goals: []goal{atMost("ready_s", 2), atMost("peak_mb", 300)},
		},
		{
			name: "outage", group: "outage", run: outage(w), alone: true,
			goals: []goal{atLeast("backlogged_of_normal", 0.7), atLeast("drain_of_arrival", 3), atMost("peak_mb", 600)},
		},
	}
	for _, v := range []struct {
		name string
		run  scenarioFunc
	}{
		{"engine", openSinksOfEngine},
		{"buffer", openSinksOfBuffer(false, false)},
		{"buffer/nosync", openSinksOfBuffer(false, true)},
		{"buffer/flow", openSinksOfBuffer(true, false)},
	} {
		all = append(all, scenario{
			name: "sinks/open/" + v.name, group: "sinks/open", run: v.run, alone: true,
			goals: []goal{atMost("resident_mb", 150), atMost("cores", 0.02)},
		})
	}
	for _, v := range []struct {
		name    string
		staging func(*env) driver.Staging
	}{{"", stagingFolder}, {"/memory", stagingInMemory}} {
		all = append(all, scenario{
			name: "sinks/steady" + v.name, group: "sinks/steady", run: steadySinks(v.staging), alone: true,
			goals: []goal{atMost("cores", 0.15)},
		})
	}
	all = append(all, scenario{name: "sources/64x16", group: "sources", run: sourcesTimesSinks(w, 64, 16)})
	for _, c := range compressions {
		all = append(
			all,
			scenario{name: "upload" + c.suffix(), group: "upload", run: upload(w, c.value), goals: []goal{atMost("of_ingest_cpu", 0.05)}},
			scenario{name: "compression/" + c.name, group: "compression", run: compressing(c.value)},
		)
	}
	for _, c := range compressions[:2] {
		all = append(
			all,
			scenario{
				name: "written/short" + c.suffix(), group: "written", run: written(c.value, false),
				goals: []goal{atMost("local_written_per_byte", 1.3)},
			},
			scenario{
				name: "written/held" + c.suffix(), group: "written", run: written(c.value, true),
				goals: []goal{atMost("local_written_per_byte", 2.2)},
			},
		)
	}
	return all
}

// coreList is a flag of numbers of cores, such as 1,2.
type coreList []int

// Set implements [flag.Value].
func (l *coreList) Set(text string) error {
	*l = nil
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number of cores", part)
		}
		*l = append(*l, n)
	}
	return nil
}

func (l *coreList) String() string { return fmt.Sprint(*l) }
