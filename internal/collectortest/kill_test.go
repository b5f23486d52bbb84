package collectortest

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"google.golang.org/grpc"

	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// killable is a process that stores the logs of senders.
type killable interface {
	kill()
	restart()
}

type killedForebay struct{ *forebayProcess }

func (f killedForebay) restart() { f.start() }

type killedCollector struct{ *collector }

func (c killedCollector) restart() { c.start(io.Discard) }

const (
	senders      = 16
	perSmallSend = 20
)

// Senders repeat each request until it is acknowledged, while the receiver is killed again and again. In the table of ClickHouse each record of Forebay is
// there once. The log has the same of a Collector with its exporter for ClickHouse and a queue with fsync, which may store records twice.
func TestKillsOfTheReceiver(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	kills, rng := proctest.Kills(t), seedtest.Rand(t)
	for name, start := range map[string]func(p place) (r killable, addr string){
		"forebay": func(p place) (killable, string) {
			s := startForebay(t, p)
			return killedForebay{s}, s.addr
		},
		"collector": func(p place) (killable, string) {
			// It loses no record that it has no room for.
			c := startCollector(t, io.Discard, p.kind, t.TempDir(), p.where, "      queue_size: 1000000\n", "      queue_size: 1000000\n      block_on_overflow: true\n")
			return killedCollector{c}, c.addr
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, toClickHouse)
			r, addr := start(p)
			acknowledged := killWhileSending(t, r, addr, kills, rng)
			stored := p.bodies(len(acknowledged))
			audit := proctest.Compare(maps.Keys(acknowledged), stored)
			t.Logf("%s: %d kills: %v, %d lost, %d doubled", name, kills, audit, audit.Lost, audit.Doubled)
			if err := audit.Err(); err != nil && name == "forebay" {
				t.Errorf("got %v, want each row once", err)
			}
		})
	}
}

// killWhileSending returns the bodies of the records that were acknowledged.
func killWhileSending(t *testing.T, r killable, addr string, kills int, rng *rand.Rand) map[string]bool {
	t.Helper()
	send := connect(t, addr, grpc.WaitForReady(true))
	clients := proctest.Load(senders, func(client, call int) ([]string, error) {
		request, bodies := smallSend(t, fmt.Sprintf("%s-%d-%d", t.Name(), client, call))
		for deadline := time.Now().Add(time.Minute); ; {
			if err := send(request); err == nil || time.Now().After(deadline) {
				return bodies, err
			}
		}
	})
	for range kills {
		clients.Wait(100 + rng.Int64N(400))
		r.kill()
		r.restart()
	}
	clients.Wait(100)
	return clients.Stop()
}

// smallSend returns a request whose records have different bodies.
func smallSend(t *testing.T, id string) (request []byte, bodies []string) {
	t.Helper()
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	resource(rl.Resource())
	records := rl.ScopeLogs().AppendEmpty().LogRecords()
	for i := range perSmallSend {
		r := records.AppendEmpty()
		r.SetTimestamp(pcommon.Timestamp(began))
		bodies = append(bodies, fmt.Sprintf("%s-%d", id, i))
		r.Body().SetStr(bodies[i])
	}
	return encoded(t, batch), bodies
}

// bodies returns how often each body is in the table, when n different bodies are there and no row came for three seconds, or none for a minute.
func (p place) bodies(n int) map[string]int {
	p.tb.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	number := func(text *string) int {
		n, err := strconv.Atoi(*text)
		if err != nil {
			p.tb.Fatal(err)
		}
		return n
	}
	table := p.database + ".otel_logs"
	for last, quiet := -1, 0; quiet < 60; <-tick.C {
		counts := clickhouseServer.Rows(p.tb, "SELECT toString(count()), toString(uniqExact(Body)) FROM "+table)[0]
		rows, different := number(counts[0]), number(counts[1])
		if quiet++; rows != last {
			last, quiet = rows, 0
		}
		if different >= n && quiet >= 3 {
			break
		}
	}
	stored := map[string]int{}
	for _, row := range clickhouseServer.Rows(p.tb, "SELECT Body, toString(count()) FROM "+table+" GROUP BY Body") {
		stored[*row[0]] = number(row[1])
	}
	return stored
}
