package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of sizes to docs/internals/cluster.md")

// input is a figure from which the sizes are calculated.
type input struct {
	what, from string
	value      float64
}

// The inputs, in the order of their table.
var (
	nodeRows     = input{"rows of 200 B that a node accepts in a second", "chosen", 100_000}
	nodeRecords  = input{"records that a node appends in a second", "chosen: a batch takes some 10 ms", 100}
	rowBytes     = input{"bytes of a row in the log", "`scale/nodes=3`, `bytes_per_row`", 67}
	inBytes      = input{"bytes that all servers receive for a byte in the log", "`scale/nodes=5`, `log_server_in_per_byte`", 3.8}
	outBytes     = input{"bytes that all servers send for it", "`log_server_out_per_byte`", 2.8}
	diskBytes    = input{"bytes that all servers write for it", "`log_server_written_per_byte`: three copies, each in the Raft log and in the stream", 6.4}
	syncs        = input{"syncs of a copy of a record", "`strace -f -y -e fsync` at a server of `scale/nodes=3`: 917 syncs for 905 records", 1}
	recordCPU    = input{"ms of the servers' processors for a record", "`scale/nodes=3`, `server_cpu_ns_per_s` / `records_per_s`", 2.1}
	rowCPU       = input{"µs of a node's processor for a row", "`scale/nodes=3`, `cpu_ns_per_row`", 7.5}
	beats        = input{"beats of a node in a minute", "`TestCallsOfManyNodes`", 20}
	questions    = input{"questions for keys that a node asks in a second", "`keys/nodes=3` and `5`, `questions_per_s` of a node: 60 and 43", 50}
	keyPause     = input{"ms from one question to the next, for each node beyond nine", "`keyPause` of `cluster/keys.go`", 0.5}
	responseCPU  = input{"ms of all processors for a response to one", "`keys/nodes=7`, `asked_cpu_us_per_response`", 0.5}
	checkpoint   = input{"objects of a checkpoint", "[checkpoints](#checkpoints)", 10}
	silence      = input{"seconds of silence before adoption", "[adoption](#speed) of a killed node", 10.6}
	fetchSeconds = input{"seconds to fetch a GB of a checkpoint", "[checkpoints](#checkpoints)", 2}
	applySeconds = input{"seconds to apply 256 MiB of a log", "[checkpoints](#checkpoints)", 2.05}

	// The limits of one server.
	mostDisk    = input{"MB that a disk writes in a second", "120 MB/s to a log of three servers on one disk ([speed](#speed)), and 6.4 bytes for each", 120 * 6.4}
	mostSyncs   = input{"syncs of a disk in a second", "2,400 records of 10 KB to the same three servers", 3 * 2400}
	mostNetwork = input{"MB that a network card carries in a second", "chosen: 10 Gbit/s", 1250}
	mostCores   = input{"cores of a server, and of a node", "chosen", 8}
)

// plan is a cluster, and how many of them divide the sources.
type plan struct {
	title                    string
	nodes, servers, clusters float64
}

var plans = []plan{
	{"10 nodes, 3 separate servers", 10, 3, 1},
	{"50 nodes, 9 separate servers", 50, 9, 1},
	{"200 nodes, 9 separate servers", 200, 9, 1},
	{"200 nodes in 4 clusters", 50, 9, 4},
}

const (
	copies = 3
	mega   = 1e6
)

func (c plan) logs() float64    { return c.nodes * nodeRows.value * rowBytes.value / mega } // MB/s
func (c plan) streams() float64 { return c.nodes + 2 }
func (c plan) in() float64      { return c.logs() * inBytes.value / c.servers }
func (c plan) out() float64     { return c.logs() * outBytes.value / c.servers }
func (c plan) disk() float64    { return c.logs() * diskBytes.value / c.servers }
func (c plan) syncs() float64 {
	return c.nodes * nodeRecords.value * copies * syncs.value / c.servers
}

func (c plan) cores() float64 {
	return c.nodes * nodeRecords.value * recordCPU.value / 1000 / c.servers
}
func (c plan) beats() float64 { return c.nodes * beats.value / 60 }

// asked is how many questions a node responds to in a second, and asking the cores that these and its own take at each node.
func (c plan) asked() float64 {
	return (c.nodes - 1) * min(questions.value, 1000/(keyPause.value*max(1, c.nodes-9)))
}
func (c plan) asking() float64 { return c.asked() * responseCPU.value / 1000 }

// first is the limit that is reached first, when all nodes accept more rows.
func (c plan) first() string {
	most, first := 0.0, ""
	for _, part := range []struct {
		name  string
		share float64
	}{
		{"bytes to disk", c.disk() / mostDisk.value},
		{"syncs", c.syncs() / mostSyncs.value},
		{"network", max(c.in(), c.out()) / mostNetwork.value},
		{"processor", c.cores() / mostCores.value},
	} {
		if part.share > most {
			most, first = part.share, part.name
		}
	}
	return fmt.Sprintf("%s, %.0f %%", first, 100*most)
}

// figure has two digits.
func figure(v float64) string {
	if v <= 0 {
		return "0"
	}
	scale := math.Pow(10, math.Floor(math.Log10(v))-1)
	v = math.Round(v/scale) * scale
	text := strconv.FormatFloat(v, 'f', int(max(0, -math.Round(math.Log10(scale)))), 64)
	for at := len(text) - 3; !strings.Contains(text, ".") && at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func inputTable() string {
	var b strings.Builder
	b.WriteString("| input | value | from |\n|---|---|---|\n")
	for _, in := range []input{
		nodeRows, nodeRecords, rowBytes, inBytes, outBytes, diskBytes, syncs, recordCPU, rowCPU, beats, questions, keyPause, responseCPU, checkpoint, silence, fetchSeconds, applySeconds,
		mostDisk, mostSyncs, mostNetwork, mostCores,
	} {
		value := strconv.FormatFloat(in.value, 'f', -1, 64)
		if in.value >= 1000 {
			value = figure(in.value)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", in.what, value, in.from)
	}
	return b.String()
}

func sizeTable() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range plans {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(plans)) + "\n")
	line := func(what string, of func(c plan) string) {
		fmt.Fprintf(&b, "| %s |", what)
		for _, c := range plans {
			b.WriteString(" " + of(c) + " |")
		}
		b.WriteString("\n")
	}
	numbers := func(what string, of ...func(c plan) float64) {
		line(what, func(c plan) string {
			var texts []string
			for _, f := range of {
				texts = append(texts, figure(f(c)))
			}
			return strings.Join(texts, ", ")
		})
	}
	numbers("million rows a second, in all", func(c plan) float64 { return c.clusters * c.nodes * nodeRows.value / mega })
	numbers("MB a second to the logs of a cluster", plan.logs)
	line("streams of a cluster", func(c plan) string { return strconv.Itoa(int(c.streams())) })
	numbers("leaders, copies of streams on a server", func(c plan) float64 { return c.streams() / c.servers }, func(c plan) float64 { return copies * c.streams() / c.servers })
	numbers("network of a server: MB a second in, out", plan.in, plan.out)
	numbers("disk of a server: MB a second, syncs a second", plan.disk, plan.syncs)
	numbers("cores of a server, of a node", plan.cores, func(plan) float64 { return nodeRows.value * rowCPU.value / mega })
	numbers("`MaxStore` of a server in GiB, at least", func(c plan) float64 { return copies * c.streams() / c.servers })
	numbers("beats a second; records a second that a node receives", plan.beats, func(c plan) float64 { return 2 * c.beats() })
	numbers("with keys: questions a second to a node, cores of a node", plan.asked, plan.asking)
	numbers("checkpoints: seconds between two of a node, PUTs a second of all nodes", func(plan) float64 { return (256 << 20) / (nodeRows.value * rowBytes.value) },
		func(c plan) float64 {
			return c.clusters * c.nodes * checkpoint.value / ((256 << 20) / (nodeRows.value * rowBytes.value))
		})
	numbers("adoption with 1 GB in the checkpoint: seconds until a different node has the rows", func(plan) float64 { return silence.value + fetchSeconds.value + applySeconds.value })
	line("first limit reached", plan.first)
	return b.String()
}

// The tables of the page follow from their inputs. After a change of an input: go test ./bench -run TestSizing -update.
func TestSizing(t *testing.T) {
	const page = "../../docs/internals/cluster.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	after := string(text)
	for _, table := range []string{inputTable(), sizeTable()} {
		head, _, _ := strings.Cut(table, "\n")
		before, rest, ok := strings.Cut(after, head+"\n")
		if !ok {
			t.Fatalf("%s has no table with the head %q", page, head)
		}
		end := strings.Index(rest, "\n\n") + 1
		if rest[:end] != strings.TrimPrefix(table, head+"\n") && !*update {
			t.Errorf("the table of %s differs from its inputs, repeat with -update. Got:\n%s\nwant:\n%s", page, head+"\n"+rest[:end], table)
		}
		after = before + table + rest[end:]
	}
	if *update {
		if err := os.WriteFile(page, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
