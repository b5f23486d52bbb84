package collectortest

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
)

var requests = flag.Int("requests", 1000, "how many requests of 100 records a round of BenchmarkBesideCollector sends to each side")

// BenchmarkBesideCollector sends the same log records, in turns, to Forebay, to a Collector whose queue is in file_storage with fsync, and to
// a Collector without fsync. Each runs in its own process. A response of the first two means that the records are on disk. Then all three send
// the records to the same kind of target, either one that discards them, Parquet files with the columns of LogsTable, such a table of a
// PostgreSQL server, or ClickHouse. The Collector gets there with the exporters of this package, each batch in one part or one COPY, and with its
// own exporter for ClickHouse, which creates its own table. The rows are counted in the target afterwards.
//
//	go test -run '^$' -bench BesideCollector -benchtime 5x -requests 3000
//
// rows/s count until the last response, stored_rows/s until the last row is in the target. cpu_ns/row is the CPU of the
// process, db_cpu_ns/row the CPU of the database. Ratios are medians of the rounds, Forebay's figure being 1.
func BenchmarkBesideCollector(b *testing.B) {
	for _, kind := range []string{toNone, toParquet, toPostgres, toClickHouse} {
		b.Run("target="+kind, func(b *testing.B) { besideCollector(b, kind) })
	}
}

func besideCollector(b *testing.B, kind string) {
	sides := []struct {
		name string
		run  func(b *testing.B, p place) figures
	}{
		{"forebay", benchForebay},
		{"collector", func(b *testing.B, p place) figures { return benchCollector(b, p, true) }},
		{"nosync", func(b *testing.B, p place) figures { return benchCollector(b, p, false) }},
	}
	total, ratios := map[string]figures{}, map[string][]float64{}
	for b.Loop() {
		round := map[string]figures{}
		for _, side := range sides {
			p := newPlace(b, kind)
			f := side.run(b, p)
			if n := p.count(); kind != toNone && n != int64(*requests*perRequest) {
				b.Fatalf("%s: got %d rows in the target, want %d", side.name, n, *requests*perRequest)
			}
			p.remove()
			round[side.name], total[side.name] = f, total[side.name].add(f)
		}
		ours := round["forebay"]
		for _, side := range sides[1:] {
			theirs := round[side.name]
			for metric, ratio := range map[string]float64{
				"stored_ratio": theirs.stored.Seconds() / ours.stored.Seconds(), "cpu_ratio": theirs.cpu.Seconds() / ours.cpu.Seconds(),
			} {
				ratios[side.name+"_"+metric] = append(ratios[side.name+"_"+metric], ratio)
			}
		}
	}
	rows := float64(*requests * perRequest * b.N)
	for name, f := range total {
		b.ReportMetric(rows/f.answered.Seconds(), name+"_rows/s")
		b.ReportMetric(rows/f.stored.Seconds(), name+"_stored_rows/s")
		b.ReportMetric(float64(f.cpu.Nanoseconds())/rows, name+"_cpu_ns/row")
		if kind == toPostgres || kind == toClickHouse {
			b.ReportMetric(float64(f.database.Nanoseconds())/rows, name+"_db_cpu_ns/row")
		}
	}
	for metric, all := range ratios {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], metric)
	}
}

// figures are the times of a round. cpu is the CPU time of the process, database the CPU time of the database.
type figures struct{ answered, stored, cpu, database time.Duration }

func (f figures) add(o figures) figures {
	return figures{f.answered + o.answered, f.stored + o.stored, f.cpu + o.cpu, f.database + o.database}
}

func benchForebay(b *testing.B, p place) (f figures) {
	b.Helper()
	s := startForebay(b, p)
	before, db, began := cpuOf(b, s.cmd), p.cpu(), time.Now()
	sendAll(b, s.addr, *requests)
	f.answered = time.Since(began)
	if rows := s.flush(); rows != int64(*requests*perRequest) {
		b.Fatalf("the engine has stored %d rows", rows)
	}
	f.stored = time.Since(began)
	f.database = p.cpu() - db
	s.wait()
	f.cpu = s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime() - before
	return f
}

func benchCollector(b *testing.B, p place, fsync bool) (f figures) {
	b.Helper()
	stored := newTally(int64(*requests * perRequest))
	exporter, where := p.kind, p.where
	changes := []string{"      queue_size: 1000000\n", "      queue_size: 1000000\n      block_on_overflow: true\n", "fsync: true", fmt.Sprint("fsync: ", fsync)}
	switch p.kind {
	case toNone:
		exporter, where = "otlp_grpc", throwAway(b, stored)
		changes = append(changes, "    compression: gzip\n", "    compression: none\n")
	case toParquet, toPostgres:
		p.create()
	}
	storage := b.TempDir()
	c := startCollector(b, stored, exporter, storage, where, changes...)
	before, db, began := cpuOf(b, c.cmd), p.cpu(), time.Now()
	sendAll(b, c.addr, *requests)
	f.answered = time.Since(began)
	if p.kind == toClickHouse {
		p.wait(stored.want)
	} else {
		stored.wait(c)
	}
	f.stored = time.Since(began)
	f.database = p.cpu() - db
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if <-c.ended; c.err != nil {
		b.Fatalf("got %v\n%s\nwant nil", c.err, &c.logs)
	}
	f.cpu = c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime() - before
	if err := os.RemoveAll(storage); err != nil {
		b.Fatal(err)
	}
	return f
}

// throwAway returns the address of a server that counts records, and does nothing else with them.
func throwAway(b *testing.B, stored *tally) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(64<<20), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var request []byte
		if err := s.RecvMsg(&request); err != nil {
			return err
		}
		stored.add(int64(bytes.Count(request, []byte(marker))))
		return s.SendMsg([]byte(nil))
	}))
	go func() { _ = s.Serve(l) }()
	b.Cleanup(s.Stop)
	return l.Addr().String()
}

// cpuOf is the CPU that a process has used. Its start is not a part of the figures.
func cpuOf(b *testing.B, cmd *exec.Cmd) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		b.Skip("the figures need /proc: ", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks time.Duration
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}
