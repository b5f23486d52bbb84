package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/streamapi"
)

// nodeEnv is the variable that makes a process a node. It has a nodeConfig as JSON.
const nodeEnv = "FOREBAY_WEEK_NODE"

const (
	sourceID  = "week"
	token     = "token"
	tableType = "table"
)

// nodeConfig is the configuration that a node gets from the process that starts it.
type nodeConfig struct {
	Name string
	// Dir is the folder of the whole run. The staging is shared. The node's own folder is named for it.
	Dir            string
	Target         string // a key of databases
	Database       string // its address
	Listen, Secret string
	Peers          []string
	Lease          time.Duration
}

func (c nodeConfig) folder() string  { return filepath.Join(c.Dir, c.Name) }
func (c nodeConfig) logPath() string { return c.folder() + ".log" }

func stagingPath(dir string) string { return filepath.Join(dir, "staging") }

// message is one line of a node's standard output, a JSON object.
type message struct {
	// Address is where the node serves, empty while it does not.
	Address string
	// Lost says why the node has lost its instance. The node continues with a different instance.
	Lost string
	// Goroutines and Heap are figures of the process, which also show that it lives. Heap is the live heap after the last collection.
	Goroutines int
	Heap       uint64
	// Done names a command that has ended, and Failed why it has failed.
	Done, Failed string
}

// runNode is the main function of a node. It ends when in is closed, and so when the process that started it is gone. Each line is a
// command.
func runNode(ctx context.Context, env string, in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt) // the process that started it gets it too, and decides
	var cfg nodeConfig
	if err := json.Unmarshal([]byte(env), &cfg); err != nil {
		return err
	}
	log, err := os.OpenFile(cfg.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	target, err := databases[cfg.Target]().open(cfg.Database)
	if err != nil {
		return err
	}
	defer target.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commands := make(chan string)
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case commands <- lines.Text():
			case <-ctx.Done():
			}
		}
	}()
	n := &nodeProcess{nodeConfig: cfg, target: target, log: slog.New(slog.NewTextHandler(log, nil)), commands: commands, out: json.NewEncoder(out)}
	for {
		err := n.serve(ctx)
		if ctx.Err() != nil || err != nil {
			return err
		}
	}
}

type nodeProcess struct {
	nodeConfig
	target   target
	log      *slog.Logger
	commands <-chan string
	out      *json.Encoder
}

func (n *nodeProcess) tell(m message) { _ = n.out.Encode(m) } // if that fails, no process reads it

// closing is how long a node that closes waits for a log that is away.
const closing = 20 * time.Second

// serve opens the node and serves until ctx ends, or until the node has lost its instance.
func (n *nodeProcess) serve(ctx context.Context) (err error) {
	node, err := cluster.Open(ctx, n.folder(), cluster.Options{
		Node:   n.Name,
		Server: &natsserver.Options{Listen: n.Listen, Peers: n.Peers, Secret: n.Secret, MaxStore: 64 << 30},
		Lease:  n.Lease, CheckpointBytes: 16 << 20,
		Engine: forebay.Options{Staging: dir.Staging(stagingPath(n.Dir)), Target: n.target},
		API:    streamapi.Options{Auth: streamapi.StaticToken(token, 1), IngestURL: "http://events.example.com", TableType: tableType},
		Logger: n.log,
	})
	if err != nil {
		return err
	}
	defer func() {
		begin := time.Now()
		closed := node.Close()
		if failed := (*buffer.FailedError)(nil); errors.As(closed, &failed) && time.Since(begin) >= closing {
			n.log.Warn("the log was away while the node closed; no caller was told that the last rows are stored", "error", closed)
			closed = nil
		}
		err = errors.Join(err, closed)
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := stream.Server("", withInsight(node))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		n.tell(message{}) // before connections are refused
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = errors.Join(server.Shutdown(end), server.Close()) // requests that take longer fail
		<-served
	}()
	alive := time.NewTicker(5 * time.Second)
	defer alive.Stop()
	now := message{Address: "http://" + listener.Addr().String()}
	for {
		now.Goroutines, now.Heap = runtime.NumGoroutine(), liveHeap()
		n.tell(now)
		now.Done, now.Failed = "", ""
		select {
		case <-ctx.Done():
			return nil
		case <-node.Done():
			n.tell(message{Lost: node.Err().Error()})
			return nil
		case <-alive.C:
		case now.Done = <-n.commands:
			if err := command(ctx, node.Engine(), now.Done); err != nil {
				now.Failed = err.Error()
			}
		case err := <-served:
			served <- err
			return err
		}
	}
}

// liveHeap returns the bytes of the heap that the last collection has marked.
func liveHeap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// enginePath returns the names of the columns that the engine of a node has, by sink.
const enginePath = "/debug/engine"

// withInsight serves enginePath, and /debug/pprof for operators who look where memory goes.
func withInsight(node *cluster.Node) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", node.Handler())
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc(enginePath, func(w http.ResponseWriter, _ *http.Request) {
		var have [sinks][]string
		for _, source := range node.Engine().Sources() {
			for _, sink := range source.Sinks {
				i := slices.Index(sinkIDs[:], sink.ID)
				for _, column := range sink.Table.Columns {
					have[i] = append(have[i], column.Name)
				}
			}
		}
		_ = json.NewEncoder(w).Encode(have) // who asks tries again
	})
	return mux
}

// The commands.
const (
	flushCommand  = "flush"
	verifyCommand = "verify"
)

func command(ctx context.Context, engine *forebay.Engine, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	switch name {
	case flushCommand:
		return engine.FlushAll(ctx)
	case verifyCommand:
		report, err := engine.Verify(ctx)
		if err == nil && !report.OK() {
			err = fmt.Errorf("%s%+v", ledgerDiffers, report)
		}
		return err
	}
	return fmt.Errorf("unknown command %q", name)
}

// ledgerDiffers begins the failure of a verification that has a result.
const ledgerDiffers = "the ledger differs: "
