// Command platform runs a whole platform on one machine and in one process: the Storage API with component
// configurations and a queue, a component that the queue runs, the Stream API with the sources of events, and an
// engine that moves the events to tables of that same Storage API.
//
//	cd examples
//	go run ./platform -dir data -addr 127.0.0.1:8080
//
// It prints "ready addr=HOST:PORT", and commands to try it. On SIGTERM or an interrupt it moves waiting rows to the
// tables and ends with status 0. Everything it has acknowledged is in the directory, even after a kill.
package main

import (
	"cmp"
	"context"
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/drivers"
	"github.com/forebay/forebay/storageapi/platform"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/platformauth"
	"github.com/forebay/forebay/stream/streamapi"
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

const component = "example.greeter"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("platform", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "data", "directory of everything")
	addr := flags.String("addr", "127.0.0.1:8080", "address to listen on")
	token := flags.String("token", "", "master token (default: made at the first start, kept in DIR/token)")
	project := flags.Int("project-id", 1, "id of the project")
	anyComponent := flags.Bool("any-component", false, "accept configurations of components that are not listed in the index")
	public := flags.String("public-url", "", "address that clients use, when a proxy stands in front")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	shown := "$TOKEN" // the token in the commands below, but a given one is not printed
	if *token == "" {
		path := filepath.Join(*dir, "token")
		if *token, err = keep.Secret(path); err != nil {
			return err
		}
		shown = "$(cat " + path + ")"
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	local := "http://" + listener.Addr().String()
	base := cmp.Or(strings.TrimRight(*public, "/"), local)

	// The platform.
	server, err := platform.Open(filepath.Join(*dir, "platform"), platform.Options{
		Token: storageapi.Secret(*token), ProjectID: int64(*project), PublicURL: *public, Logger: log, AnyComponent: *anyComponent,
		Components: []platform.Component{{
			Component: storageapi.Component{ID: component, Type: "application", Name: "Greeter", Description: "Writes a greeting for each name"},
			Runner:    platform.RunnerFunc(greet),
		}},
		Services: []platform.PortalService{{ID: "stream", Name: "Stream", URL: base, OpenAPISpecURL: base + "/v1/documentation/openapi.json"}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := storageapi.New(storageapi.Options{URL: local, Token: storageapi.Secret(*token), Logger: log})
	if err != nil {
		return err
	}

	// The engine, whose staging and tables are on the platform, and the management of its sources and sinks.
	sinks := &sinkTokens{client: client}
	staging, err := drivers.NewStaging(client, drivers.StagingOptions{Tokens: sinks, Logger: log})
	if err != nil {
		return err
	}
	target, err := drivers.NewTarget(client, drivers.TargetOptions{Staging: staging, Tokens: sinks, Logger: log})
	if err != nil {
		return err
	}
	h := &handler{platform: server}
	front := web.Start(listener, stream.Server("", h)) // the engine calls the platform from its first moment on
	defer func() {                                     // calls end before the platform is closed
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = front.Stop(end)
	}()
	engine, err := forebay.Open(filepath.Join(*dir, "buffer"), forebay.Options{Staging: staging, Target: target, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	cat, err := catalog.Open(filepath.Join(*dir, "catalog"), engine, catalog.Options{
		Tokens: sinks, Logger: log,
		DropTable: func(ctx context.Context, id string) error { return ignoreNotFound(client.DeleteTable(ctx, id, false)) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cat.Close()) }()
	sinks.catalog.Store(cat)
	auth, err := platformauth.New(client, platformauth.Options{})
	if err != nil {
		return err
	}
	ingest := stream.Options{ProjectID: *project, Logger: log}
	api, err := streamapi.New(cat, streamapi.Options{Auth: auth, Ingest: ingest, URL: base, IngestURL: base})
	if err != nil {
		return err
	}
	h.streams.Store(&streams{api: api, ingest: stream.Ingest(engine, ingest)})

	fmt.Fprintf(stdout, "ready addr=%s\n\n", listener.Addr())
	fmt.Fprintf(stdout, howTo, base, shown, component, streamapi.DefaultTableType)
	select {
	case <-ctx.Done():
	case <-front.Done:
		return front.Err()
	}
	// Events are refused from here on, and waiting rows are moved. The platform still serves the engine. Rows that cannot be
	// moved now stay in the directory until the next start.
	h.streams.Store(nil)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := engine.FlushAll(end); err != nil {
		log.Warn("rows left for the next start", "cause", err)
	}
	return nil
}

const howTo = `  curl %[1]s/v2/storage
  curl %[1]s/apis.json
  curl -H "X-StorageApi-Token: %[2]s" -d name=Hello --data-urlencode 'configuration={"parameters":{"names":["Ada"]}}' \
    %[1]s/v2/storage/components/%[3]s/configs
  curl -H "X-StorageApi-Token: %[2]s" %[1]s/v1/branches/default/sources

More commands, with a source whose events end in a table, are in the README of this example. They need:

  URL=%[1]s TOKEN=%[2]s TABLE_TYPE=%[4]s

`

// handler gives management and events to the streams and everything else to the platform. It is no http.ServeMux, which
// would redirect some events.
type handler struct {
	platform http.Handler
	streams  atomic.Pointer[streams] // nil before the start and after the end
}

type streams struct{ api, ingest http.Handler }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	events, manage := strings.HasPrefix(r.URL.Path, "/stream/"), strings.HasPrefix(r.URL.Path, "/v1/")
	s := h.streams.Load()
	switch {
	case !events && !manage:
		h.platform.ServeHTTP(w, r)
	case s == nil:
		w.Header().Set("Retry-After", "5")
		http.Error(w, "starting or stopping", http.StatusServiceUnavailable)
	case events:
		s.ingest.ServeHTTP(w, r)
	default:
		s.api.ServeHTTP(w, r)
	}
}

// sinkTokens makes the tokens of sinks for the catalog, and gives the drivers the tokens that it keeps.
type sinkTokens struct {
	client  *storageapi.Client
	catalog atomic.Pointer[catalog.Catalog] // nil until it is open
}

// CreateToken implements [catalog.Tokens]. The bucket is made first, because a token can only be for one that is there.
func (s *sinkTokens) CreateToken(ctx context.Context, description, bucket string) (catalog.Token, error) {
	if _, err := s.client.Bucket(ctx, bucket); storageapi.IsNotFound(err) {
		stage, name, _ := strings.Cut(bucket, ".")
		_, err = s.client.CreateBucket(ctx, storageapi.BucketCreate{Stage: stage, Name: strings.TrimPrefix(name, "c-")})
		if err != nil && !storageapi.IsAlreadyExists(err) {
			return catalog.Token{}, err
		}
	} else if err != nil {
		return catalog.Token{}, err
	}
	t, err := s.client.CreateToken(ctx, storageapi.TokenCreate{
		Description: description, BucketPermissions: map[string]string{bucket: "write"}, CanReadAllFileUploads: true,
	})
	if err != nil {
		return catalog.Token{}, err
	}
	return catalog.Token{ID: string(t.ID), Value: string(t.Token), Bucket: bucket}, nil
}

// DeleteToken implements [catalog.Tokens].
func (s *sinkTokens) DeleteToken(ctx context.Context, id string) error {
	return ignoreNotFound(s.client.DeleteToken(ctx, storageapi.ID(id)))
}

func ignoreNotFound(err error) error {
	if storageapi.IsNotFound(err) {
		return nil
	}
	return err
}

// Get implements [drivers.TokenSource].
func (s *sinkTokens) Get(_ context.Context, id string) (drivers.SinkToken, error) {
	source, sink, _ := strings.Cut(id, "/")
	if cat := s.catalog.Load(); cat != nil {
		if t, ok := cat.Handle(source, sink).Token(); ok {
			return drivers.SinkToken{ID: storageapi.ID(t.ID), Token: storageapi.Secret(t.Value), Bucket: t.Bucket}, nil
		}
	}
	return drivers.SinkToken{}, fs.ErrNotExist
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
	greeting = cmp.Or(greeting, "Hello")
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
