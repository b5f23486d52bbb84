// Command platform runs a whole platform on one machine and in one process: the Storage API with component configurations
// and a queue, a component that the queue runs, and a source whose events end in a table of that same Storage API.
//
//	go run ./examples/platform -dir data -addr 127.0.0.1:8080
//
// It prints "ready addr=HOST:PORT", and commands to try it. On SIGTERM or an interrupt it moves what waits to the
// tables and ends with status 0. Everything it has acknowledged is in the directory, also when it is killed.
package main

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/drivers"
	"github.com/forebay/forebay/storageapi/platform"
	"github.com/forebay/forebay/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "platform:", err)
		os.Exit(1)
	}
}

const (
	sourceID  = "web"
	tableID   = "in.c-web.events"
	component = "example.greeter"
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("platform", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "data", "directory of everything")
	addr := flags.String("addr", "127.0.0.1:8080", "address to listen on")
	token := flags.String("token", "", "master token (default: made at the first start, kept in DIR/token)")
	project := flags.Int64("project-id", 1, "id of the project")
	public := flags.String("public-url", "", "address that clients use, when a proxy stands in front")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	if *token == "" {
		if *token, err = secret(filepath.Join(*dir, "token")); err != nil {
			return err
		}
	}
	sourceSecret, err := secret(filepath.Join(*dir, "secret"))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))

	// The platform.
	server, err := platform.Open(filepath.Join(*dir, "platform"), platform.Options{
		Token: storageapi.Secret(*token), ProjectID: *project, PublicURL: *public, Logger: log, AnyComponent: true,
		Components: []platform.Component{{
			Component: storageapi.Component{ID: component, Type: "application", Name: "Greeter", Description: "Writes a greeting for each name"},
			Runner:    platform.RunnerFunc(greet),
		}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	local := "http://" + listener.Addr().String()
	h := &handler{platform: server}
	front := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	client, err := storageapi.New(storageapi.Options{URL: local, Token: storageapi.Secret(*token), Logger: log})
	if err != nil {
		return err
	}

	// The engine, whose staging and tables are on the platform.
	tokens := drivers.NewTokenDir(filepath.Join(*dir, "tokens"))
	staging, err := drivers.NewStaging(client, drivers.StagingOptions{Tokens: tokens, Logger: log})
	if err != nil {
		return err
	}
	target, err := drivers.NewTarget(client, drivers.TargetOptions{Staging: staging, Tokens: tokens, Logger: log})
	if err != nil {
		return err
	}
	engine, err := forebay.Open(filepath.Join(*dir, "buffer"), forebay.Options{Staging: staging, Target: target, Logger: log})
	if err != nil {
		return err
	}
	h.ingest = stream.Ingest(engine, stream.Options{ProjectID: int(*project), Logger: log})
	served := make(chan error, 1)
	go func() { served <- front.Serve(listener) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		// What cannot be moved now stays in the directory and goes on at the next start.
		err = errors.Join(err, engine.Flush(ctx, sourceID), engine.Close(), front.Shutdown(ctx))
	}()
	if err := engine.Define(ctx, source(sourceSecret)); err != nil {
		return err
	}
	base := local
	if *public != "" {
		base = strings.TrimRight(*public, "/")
	}
	fmt.Fprintf(stdout, "ready addr=%s\n\n", listener.Addr())
	fmt.Fprintf(stdout, howTo, base, filepath.Join(*dir, "token"), component, *project, sourceID, sourceSecret, tableID)
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		return err
	}
}

const howTo = `  curl %[1]s/v2/storage
  curl %[1]s/apis.json
  curl -H "X-StorageApi-Token: $(cat %[2]s)" -d name=Hello --data-urlencode 'configuration={"parameters":{"names":["Ada"]}}' \
    %[1]s/v2/storage/components/%[3]s/configs
  curl -H 'Content-Type: application/json' -d '{"user":{"id":42}}' %[1]s/stream/%[4]d/%[5]s/%[6]s
  curl -H "X-StorageApi-Token: $(cat %[2]s)" %[1]s/v2/storage/tables/%[7]s/data-preview

`

// handler gives events to ingest and everything else to the platform. It is no http.ServeMux, which would redirect
// some events.
type handler struct{ platform, ingest http.Handler }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/stream/") {
		h.ingest.ServeHTTP(w, r)
		return
	}
	h.platform.ServeHTTP(w, r)
}

// source stores each event as it is, with the user that it names.
func source(secret string) forebay.Source {
	return forebay.Source{ID: sourceID, Secret: secret, Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{
		ID: tableID, Columns: mapping.Columns{
			mapping.UUID("id"), mapping.Datetime("received_at"), mapping.Path("user", "user.id", mapping.Default(""), mapping.RawString()), mapping.Body("body"),
		},
	}}}}
}

// greet is a component. It writes one row for each of parameters.names to the table "greetings.csv", and counts its
// runs in the state.
func greet(_ context.Context, run *platform.Run) error {
	var config struct {
		Parameters struct {
			Names    []string `json:"names"`
			Greeting string   `json:"greeting"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(run.Configuration, &config); err != nil {
		return platform.UserError(fmt.Errorf("parameters: %w", err))
	}
	var state struct {
		Runs int `json:"runs"`
	}
	if err := json.Unmarshal(run.State, &state); err != nil {
		return platform.UserError(fmt.Errorf("state: %w", err))
	}
	greeting := config.Parameters.Greeting
	if greeting == "" {
		greeting = "Hello"
	}
	rows := [][]string{{"name", "greeting"}}
	for _, name := range config.Parameters.Names {
		rows = append(rows, []string{name, greeting + ", " + name})
	}
	out, err := run.CreateOutput("greetings.csv")
	if err != nil {
		return err
	}
	if err := csv.NewWriter(out).WriteAll(rows); err != nil {
		return err
	}
	run.Logger.Info("Greeted", "names", len(config.Parameters.Names))
	state.Runs++
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return run.SetState(data)
}

// secret reads a secret from a file, or makes one at the first start.
func secret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data = []byte(strings.ToLower(rand.Text() + rand.Text()))[:48]
		err = os.WriteFile(path, data, 0o600)
	}
	return strings.TrimSpace(string(data)), err
}
