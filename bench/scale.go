package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay"
)

// size is how large the scenarios are whose size matters more than their duration.
type size struct {
	// backlog is what waits in the local level while the staging is out of reach.
	backlog byteSize
	// sinks is the number of open sinks.
	sinks int
	// life is how long a slice waits for its upload.
	life time.Duration
}

// defaultSize ends soon. The figures of docs/performance.md are of 5GB, 10,000 sinks and 30 s.
var defaultSize = size{backlog: 32 << 20, sinks: 200, life: 500 * time.Millisecond}

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
	return nil // not reached: the last unit is always a suffix
}

func (b *byteSize) String() string { return strconv.FormatInt(int64(*b), 10) + "B" }

// ofScale returns the scenarios of backlogs, many sinks, and what reaches the disk.
func ofScale() []scenario {
	w := workload{"1KB", 1024, 1269}
	all := []scenario{
		{
			name: "reopen", group: "reopen", run: reopen(w),
			goals: []goal{atMost("ready_s", 2), atMost("peak_mb", 300)},
		},
		{
			name: "outage", group: "outage", run: outage(w),
			goals: []goal{atLeast("backlogged_of_normal", 0.7), atLeast("drain_of_arrival", 3), atMost("peak_mb", 600)},
		},
	}
	for _, variant := range []string{"engine", "buffer", "buffer/nosync", "buffer/flow"} {
		all = append(all, scenario{
			name: "sinks/open/" + variant, group: "sinks/open", run: openSinks(variant),
			goals: []goal{atMost("resident_mb", 150), atMost("cores", 0.02)},
		})
	}
	const one = "sinks/spread/1"
	for _, sinks := range []int{1, 10, 100, 1000} {
		s := scenario{name: fmt.Sprintf("sinks/spread/%d", sinks), group: "sinks/spread", run: spreadOver(w, sinks)}
		if sinks > 1 {
			s.against = []baseline{{"one_sink", one}}
			s.goals = []goal{atLeast("of_one_sink", 0.6)}
		}
		all = append(all, s)
	}
	for _, c := range []struct {
		suffix string
		value  forebay.Compression
	}{{"", forebay.CompressionDefault}, {"/compression=none", forebay.CompressionNone}, {"/compression=zstd", forebay.CompressionZstd}} {
		all = append(all, scenario{
			name: "upload" + c.suffix, group: "upload", run: upload{w, c.value}.run,
			goals: []goal{atMost("of_ingest_cpu", 0.05)},
		})
	}
	for _, c := range []struct {
		suffix string
		value  forebay.Compression
	}{{"/compression=none", forebay.CompressionNone}, {"", forebay.CompressionDefault}} {
		all = append(all,
			scenario{
				name: "written/short" + c.suffix, group: "written", run: written{compression: c.value}.run,
				goals: []goal{atMost("local_written_per_byte", 1.3)},
			},
			scenario{
				name: "written/held" + c.suffix, group: "written", run: written{compression: c.value, held: true}.run,
				goals: []goal{atMost("local_written_per_byte", 2.2)},
			},
		)
	}
	for _, c := range []struct {
		name  string
		value forebay.Compression
	}{{"none", forebay.CompressionNone}, {"gzip", forebay.CompressionGzip}, {"zstd", forebay.CompressionZstd}} {
		all = append(all, scenario{name: "compression/" + c.name, group: "compression", run: compressing(c.value)})
	}
	return all
}
