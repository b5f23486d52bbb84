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
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/trigger"
)

// nodeEnv is the variable that makes a process a node. It has a nodeConfig as JSON.
const nodeEnv = "FOREBAY_CLUSTER_NODE"

// nodeConfig is the configuration that a node gets from the process that starts it.
type nodeConfig struct {
	Name string
	// Dir is the folder of the whole run. Staging and tables are shared. The node's own folder is named for it.
	Dir               string
	Listen, Advertise string
	Peers             []string
	Secret            string
	Lease             time.Duration
	// Checkpoint is the size in bytes.
	Checkpoint int64
}

func (c nodeConfig) folder() string  { return filepath.Join(c.Dir, c.Name) }
func (c nodeConfig) server() string  { return filepath.Join(c.folder(), "nats") }
func (c nodeConfig) logPath() string { return c.folder() + ".log" }

// message is a line of a node's standard output, as a JSON object.
type message struct {
	// Events is where events are sent, and Address where the node serves. Both are empty while it does not.
	Events, Address string
	// Lost says why the node has lost its instance. It continues with a different one.
	Lost string
	// Flushed says that all rows are in the table.
	Flushed bool
}

// runNode is the main function of a node. It ends when in is closed, thus even if the process that started it is gone. The line "flush"
// lets it move all its rows to the table.
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
	logger := slog.New(slog.NewTextHandler(log, nil))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	flush := make(chan struct{})
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			flush <- struct{}{}
		}
	}()
	tell := func(m message) { _ = json.NewEncoder(out).Encode(m) } // if that fails, no process reads it
	for {
		err := serve(ctx, cfg, logger, flush, tell)
		if ctx.Err() != nil || err != nil {
			return err
		}
	}
}

// closing is how long a node that closes waits for a log that is away.
const closing = 20 * time.Second

// serve opens the node and serves until ctx ends, or until the node has lost its instance.
func serve(ctx context.Context, cfg nodeConfig, logger *slog.Logger, flush <-chan struct{}, tell func(message)) (err error) {
	node, err := cluster.Open(ctx, cfg.folder(), cluster.Options{
		Node: cfg.Name,
		Server: &natsserver.Options{
			Dir: cfg.server(), Listen: cfg.Listen, Advertise: cfg.Advertise, Peers: cfg.Peers, Secret: cfg.Secret, MaxStore: 8 << 30,
		},
		Lease: cfg.Lease, CheckpointBytes: cfg.Checkpoint,
		Engine: forebay.Options{
			Staging: dir.Staging(filepath.Join(cfg.Dir, "staging")), Target: dir.Tables(filepath.Join(cfg.Dir, "tables")),
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer func() {
		begin := time.Now()
		closed := node.Close()
		if failed := (*buffer.FailedError)(nil); errors.As(closed, &failed) && time.Since(begin) >= closing {
			logger.Warn("the log was away while the node closed; no caller was told that the last rows are stored", "error", closed)
			closed = nil
		}
		err = errors.Join(err, closed)
	}()
	path, err := define(ctx, node)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := stream.Server("", node.Handler())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		tell(message{}) // before connections are refused
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = errors.Join(server.Shutdown(end), server.Close()) // requests that take longer fail
		<-served
	}()
	address := "http://" + listener.Addr().String()
	tell(message{Address: address, Events: address + path})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-node.Done():
			tell(message{Lost: node.Err().Error()})
			return nil
		case <-flush:
			if err := node.Engine().FlushAll(ctx); err != nil {
				return err
			}
			tell(message{Address: address, Events: address + path, Flushed: true})
		case err := <-served:
			served <- err
			return err
		}
	}
}

const sourceID = "web"

func columns() mapping.Columns {
	return mapping.Columns{mapping.Path("id", "id", mapping.RawString()), mapping.Path("event", "event"), mapping.Datetime("received_at")}
}

// define makes the source, with its table, if no node has done it yet, and waits until this node has it. It returns the path that
// events are sent to.
func define(ctx context.Context, node *cluster.Node) (path string, err error) {
	cat := node.Catalog()
	for {
		source, err := cat.Source(sourceID)
		if _, ok := node.Engine().SourceWithSecret(sourceID, source.Secret); err == nil && ok {
			return fmt.Sprintf("/stream/1/%s/%s", source.ID, source.Secret), nil
		}
		if err != nil {
			err = create(ctx, cat) // another node may be faster
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), err)
		}
	}
}

func create(ctx context.Context, cat *catalog.Catalog) error {
	task, err := cat.CreateSource(catalog.By{Type: "system"}, catalog.SourceSpec{
		ID: sourceID, Name: sourceID, Type: forebay.HTTP,
		// Small loads, so that a short run shows all levels at work.
		Settings: forebay.Settings{Upload: trigger.Conditions{Interval: time.Second}, Import: trigger.Conditions{Count: 1}},
		Sinks:    []catalog.SinkSpec{{Name: "events", TableID: tableID, Columns: columns()}},
	})
	if err == nil {
		_, err = task.Wait(ctx)
	}
	return err
}

// ready asks a node whether it is ready.
func ready(ctx context.Context, client *http.Client, address string) (readiness, error) {
	var r readiness
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readiness-check", nil)
	if err != nil {
		return r, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

// readiness is the response of a node.
type readiness struct {
	Instance          string
	Epoch             uint64
	Ready             bool
	Missing           string
	Adopting, Adopted []string
}
