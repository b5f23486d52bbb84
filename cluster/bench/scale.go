package main

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/natsdriver"
	"github.com/forebay/forebay/mapping"
)

// events make rows of 200 bytes each. 128 of the bytes are hex digits, so a row is 64 bytes at best when it is compressed.
var events = sync.OnceValue(func() (list [][]byte) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 1 << 16 {
		e := bytes.Clone(event)
		for at := 10; at < 138; at += 16 {
			copy(e[at:], fmt.Sprintf("%016x", random.Uint64()))
		}
		list = append(list, e)
	}
	return list
})

func anEvent() *mapping.Record { return mapping.JSON(events()[rand.IntN(len(events()))]) }

func putEvent(ctx context.Context, e *forebay.Engine) error {
	_, err := e.Ingest(ctx, sourceID, anEvent())
	return err
}

// scale measures the limits of n nodes on the processors of this machine: n engines without logs, n nodes with n servers in separate processes, and n
// logs without engines, which get records of the size that the nodes made.
func (b *bench) scale(ctx context.Context, folder string, n int) (figures map[string]float64, err error) {
	figures = map[string]float64{}
	if err := b.measureWay(ctx, folder, "engine_", func(ctx context.Context, folder string) (way, error) {
		var configs []jobConfig
		for i := range n {
			configs = append(configs, jobConfig{Kind: kindEngine, Name: fmt.Sprintf("engine-%d", i), Dir: folder})
		}
		return openJobs(ctx, putEvent, configs...)
	}, figures); err != nil {
		return nil, err
	}
	s, err := startScaled(ctx, folder, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := b.measureWay(ctx, folder, "", func(ctx context.Context, folder string) (way, error) {
		return s.nodes(ctx, putEvent, false, nil)
	}, figures); err != nil {
		return nil, err
	}
	recordBytes, err := s.recordBytes(ctx)
	if err != nil {
		return nil, err
	}
	rows := figures["rows_per_s"] / figures["records_per_s"]
	if err := b.measureWay(ctx, folder, "log_", func(ctx context.Context, _ string) (way, error) {
		return s.logs(ctx, int(recordBytes))
	}, figures); err != nil {
		return nil, err
	}
	figures["record_bytes"], figures["rows_per_record"] = recordBytes, rows
	figures["log_rows_per_s"] *= rows
	figures["log_cpu_ns_per_row"] /= rows
	for _, field := range []string{"", "log_"} {
		bytes := figures[field+"records_per_s"] * recordBytes
		figures[field+"bytes_per_s"] = bytes
		figures[field+"server_cpu_ns_per_row"] = figures[field+"server_cpu_ns_per_s"] / figures[field+"rows_per_s"]
		figures[field+"server_cpu_ms_per_mb"] = figures[field+"server_cpu_ns_per_s"] / bytes
		for _, flow := range []string{"in", "out", "written"} { // of all servers
			figures[field+"server_"+flow+"_per_byte"] = figures[field+"server_"+flow+"_per_s"] / bytes
		}
	}
	figures["bytes_per_row"] = recordBytes / rows
	figures["of_limit"] = figures["rows_per_s"] / min(figures["engine_rows_per_s"], figures["log_rows_per_s"])
	figures["cpu_of_engine"] = (figures["cpu_ns_per_row"] + figures["server_cpu_ns_per_row"]) / figures["engine_cpu_ns_per_row"]
	return figures, nil
}

// keys measures calls with keys at n nodes that ask each other, compared with calls whose nodes do not ask.
func (b *bench) keys(ctx context.Context, folder string, n int) (figures map[string]float64, err error) {
	figures = map[string]float64{}
	for _, field := range []string{"bynode_", ""} {
		if err := func() (err error) {
			folder := filepath.Join(folder, field+"keys")
			s, err := startScaled(ctx, folder, n)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			var questions, bytes atomic.Int64
			if _, err := s.conn.Subscribe("fb.main.peers", func(m *nats.Msg) {
				questions.Add(1)
				bytes.Add(int64(len(m.Data)))
			}); err != nil {
				return err
			}
			return b.measureWay(ctx, folder, field, func(ctx context.Context, folder string) (way, error) {
				return s.nodes(ctx, func(ctx context.Context, e *forebay.Engine) error {
					_, err := e.IngestOnce(ctx, sourceID, forebay.Once{Key: crand.Text()}, []*mapping.Record{anEvent()})
					return err
				}, field != "", func(totals map[string]float64) {
					totals["questions"], totals["question_bytes"] = float64(questions.Load()), float64(bytes.Load())
				})
			}, figures)
		}(); err != nil {
			return nil, fmt.Errorf("%s%w", field, err)
		}
		figures[field+"cpu_ns_per_row"] += figures[field+"server_cpu_ns_per_s"] / figures[field+"rows_per_s"]
	}
	figures["keys_per_question"] = figures["rows_per_s"] / figures["questions_per_s"]
	figures["asked_cpu_ns_per_row"] = figures["cpu_ns_per_row"] - figures["bynode_cpu_ns_per_row"]
	figures["asked_cpu_us_per_response"] = figures["asked_cpu_ns_per_row"] * figures["rows_per_s"] / figures["questions_per_s"] / float64(n-1) / 1e3
	figures["of_bynode"] = figures["rows_per_s"] / figures["bynode_rows_per_s"]
	return figures, nil
}

// scaled are n servers in separate processes.
type scaled struct {
	n       int
	folder  string
	url     string
	servers processes
	conn    *nats.Conn
	js      jetstream.JetStream
}

func startScaled(ctx context.Context, folder string, n int) (s *scaled, err error) {
	s = &scaled{n: n, folder: folder}
	if s.servers, s.url, err = startServers(ctx, n, folder); err != nil {
		return nil, err
	}
	if s.conn, err = nats.Connect(s.url); err == nil {
		s.js, err = jetstream.New(s.conn)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *scaled) close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	s.servers.kill()
	return nil
}

// replicas returns the copies of each stream, 0 for the default.
func (s *scaled) replicas() int {
	if s.n == 1 {
		return 1
	}
	return 0
}

// eachLog calls do for the stream of each log.
func (s *scaled) eachLog(ctx context.Context, do func(*jetstream.StreamInfo)) error {
	list := s.js.ListStreams(ctx)
	for info := range list.Info() {
		if strings.HasPrefix(info.Config.Name, "FB_main_L_") {
			do(info)
		}
	}
	return list.Err()
}

// recordBytes returns the mean size of the records in all logs.
func (s *scaled) recordBytes(ctx context.Context) (float64, error) {
	var bytes, records uint64
	err := s.eachLog(ctx, func(info *jetstream.StreamInfo) { bytes, records = bytes+info.State.Bytes, records+info.State.Msgs })
	return float64(bytes) / float64(max(1, records)), err
}

// totals returns the records of all logs, and the work of all servers.
func (s *scaled) totals(ctx context.Context) (map[string]float64, error) {
	totals := map[string]float64{}
	if err := s.eachLog(ctx, func(info *jetstream.StreamInfo) { totals["records"] += float64(info.State.LastSeq) }); err != nil {
		return nil, err
	}
	usages, err := ask[usage](ctx, s.servers, func(int) question { return question{Do: "usage"} })
	for _, u := range usages {
		totals["server_cpu_ns"] += float64(u.CPU)
		totals["server_in"] += float64(u.In)
		totals["server_out"] += float64(u.Out)
		totals["server_written"] += float64(u.Written)
	}
	return totals, err
}

// nodes opens n nodes in this process. add adds further totals, unless it is nil.
func (s *scaled) nodes(ctx context.Context, put func(context.Context, *forebay.Engine) error, keysByNode bool, add func(map[string]float64)) (way, error) {
	configs, err := nodes(s.n, s.folder, s.url)
	if err != nil {
		return way{}, err
	}
	for i := range configs {
		configs[i].Replicas, configs[i].KeysByNode = s.replicas(), keysByNode
	}
	w, err := openJobs(ctx, put, configs...)
	w.totals = func(ctx context.Context) (map[string]float64, error) {
		totals, err := s.totals(ctx)
		if err == nil && add != nil {
			add(totals)
		}
		return totals, err
	}
	return w, err
}

// logs opens n logs without engines, each with a separate connection and as many callers as a log has records in flight. They append records of so many bytes.
func (s *scaled) logs(ctx context.Context, bytes int) (w way, err error) {
	type appender struct {
		log  *natsdriver.Log
		name string

		mu     sync.Mutex
		writer changelog.Writer
		number uint64
	}
	const overhead = 200 // of a record, in addition to its data
	data := make([]byte, min(max(1, bytes-overhead), changelog.PartBytes))
	_, _ = crand.Read(data) // it never fails. Batches are compressed, so the servers cannot compress them
	all := make([]*appender, s.n)
	w.close, err = together(s.n, func(i int) (func() error, error) {
		conn, err := nats.Connect(s.url)
		if err != nil {
			return nil, err
		}
		closeOne := func() error { conn.Close(); return nil }
		a := &appender{name: fmt.Sprintf("log-%d", i)}
		all[i] = a
		if a.log, err = natsdriver.NewLog(conn, natsdriver.Options{Replicas: s.replicas()}); err != nil {
			return closeOne, err
		}
		if err := a.log.Create(ctx, a.name); err != nil {
			return closeOne, err
		}
		if a.writer, err = a.log.Open(ctx, a.name, changelog.Record{Kind: changelog.Opened, Epoch: 1, Node: "bench"}); err != nil {
			return closeOne, err
		}
		return func() error { return errors.Join(a.writer.Close(), closeOne()) }, nil
	})
	if err != nil {
		return w, err
	}
	w.callers, w.totals = s.n*changelog.Window, s.totals
	const trimEvery = 1000
	w.store = func(ctx context.Context, caller int) error {
		a := all[caller%s.n]
		a.mu.Lock()
		a.number++
		number := a.number
		ticket := a.writer.Append(changelog.Record{Kind: changelog.Batch, Epoch: 1, Number: number, Part: 1, Parts: 1, Node: "bench", Data: data})
		a.mu.Unlock()
		at, err := ticket.Wait(ctx)
		if err == nil && number%trimEvery == 0 {
			err = a.log.Trim(ctx, a.name, at)
		}
		return err
	}
	w.count = func(ctx context.Context) (records int64, err error) {
		for _, a := range all {
			stat, err := a.log.Stat(ctx, a.name)
			if err != nil {
				return 0, err
			}
			records += int64(stat.Last - a.writer.Marker())
		}
		return records, nil
	}
	return w, nil
}
