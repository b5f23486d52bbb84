package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/streamapi"
)

// management is the Stream API of a server. Without one, cat is nil.
type management struct {
	cfg    Config
	eng    *forebay.Engine
	drop   func(ctx context.Context, table string) error
	drops  map[string]func(ctx context.Context, table string) error
	logger *slog.Logger
	cat    *catalog.Catalog
	opts   streamapi.Options
	// nodes lists the nodes of the cluster, or is nil without one.
	nodes func(ctx context.Context) ([]catalog.Node, error)
	// consoleURL is the address of the console, empty without one.
	consoleURL string
}

// tokenFile is in the data directory.
const tokenFile = "token"

func apiOptions(cfg Config, apiURL, ingestURL, token string) streamapi.Options {
	return streamapi.Options{
		Auth: streamapi.StaticToken(token, cfg.Stream.ProjectID), Ingest: cfg.Stream,
		URL: cmp.Or(cfg.APIURL, apiURL), IngestURL: cmp.Or(cfg.IngestURL, ingestURL),
	}
}

// token returns the token of the API and of the console.
func (m *management) token() (string, error) {
	if m.cfg.Token != "" {
		return m.cfg.Token, nil
	}
	return keep.Secret(filepath.Join(m.cfg.Dir, tokenFile))
}

// open opens the definitions and returns the handler of the API.
func (m *management) open(apiURL, ingestURL string) (_ http.Handler, err error) {
	token, err := m.token()
	if err != nil {
		return nil, err
	}
	m.cat, err = catalog.Open(filepath.Join(m.cfg.Dir, catalogFolder), m.eng, catalog.Options{
		BranchID: m.cfg.Stream.BranchID, Extend: m.cfg.Extend, DropTable: m.drop, DropTables: m.drops, Logger: m.logger,
	})
	if err != nil {
		return nil, err
	}
	m.opts = apiOptions(m.cfg, apiURL, ingestURL, token)
	api, err := streamapi.New(m.cat, m.opts)
	if err != nil {
		return nil, errors.Join(err, m.cat.Close())
	}
	return api, nil
}

// maintain returns the part of the API that works where the sources are defined elsewhere.
func (m *management) maintain(apiURL, ingestURL string) (http.Handler, *catalog.Maintenance, error) {
	token, err := m.token()
	if err != nil {
		return nil, nil, err
	}
	on := catalog.NewMaintenance(m.eng, catalog.MaintenanceOptions{BranchID: m.cfg.Stream.BranchID, Logger: m.logger})
	api, err := streamapi.NewMaintenance(on, apiOptions(m.cfg, apiURL, ingestURL, token))
	if err != nil {
		on.Close()
		return nil, nil, err
	}
	return api, on, nil
}

// withMetrics serves GET /metrics, and leaves all else to next. On a loopback address it serves only known hosts, because the metrics need no token,
// and a page in a browser of this machine must not read them.
func withMetrics(metrics, next http.Handler, hosts ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			if local(r) && !console.KnownHost(r.Host, hosts...) {
				unknownHost(w, "an IP address, localhost or the host of -api-public-url")
				return
			}
			metrics.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a request has arrived at a loopback address. Only programs of this machine reach such an address, for example a
// browser with the page of an attacker.
func local(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// tryOut prints that the server is ready, and commands to try it.
func (m *management) tryOut(ctx context.Context, out io.Writer, ready string) error {
	var events string
	if m.cat != nil && m.cfg.Source != "" {
		secret, err := exampleSource(ctx, m.cat, m.cfg.Source)
		if err != nil {
			return err
		}
		events = fmt.Sprintf("%s/stream/%d/%s/%s", m.opts.IngestURL, m.opts.Ingest.ProjectID, m.cfg.Source, secret)
	}
	fmt.Fprintf(out, "%s\n\n", ready)
	if m.consoleURL != "" {
		where := "of -token"
		if m.cfg.Token == "" {
			where = "in " + filepath.Join(m.cfg.Dir, tokenFile)
		}
		fmt.Fprintf(out, "Watch it at %s with the token %s\n\n", m.consoleURL, where)
	}
	if m.cat == nil {
		return nil
	}
	token := "$TOKEN" // a token that was given is not printed
	if m.cfg.Token == "" {
		token = fmt.Sprintf("$(cat '%s')", filepath.Join(m.cfg.Dir, tokenFile))
	}
	if events == "" {
		fmt.Fprintf(out, useAPI, m.opts.URL, token)
		return nil
	}
	fmt.Fprintf(out, useSource, events, m.opts.URL, token, m.cfg.Source)
	return nil
}

const useAPI = `Create a source with a table; the response is a task, whose outputs have the address of the source:

  curl -H "X-StorageApi-Token: %[2]s" -H 'Content-Type: application/json' %[1]s/v1/branches/default/sources -d '{
    "type": "http", "name": "Web", "sinks": [{"type": "table", "name": "Events", "table": {
      "type": "table", "tableId": "in.c-web.events", "mapping": {"columns": [
        {"type": "uuid", "name": "id", "dataType": "uuid"}, {"type": "datetime", "name": "at", "dataType": "timestamp"},
        {"type": "path", "name": "user_id", "path": "user.id", "dataType": "int64"}, {"type": "body", "name": "body"}]}}}]}'
  curl -H "X-StorageApi-Token: %[2]s" %[1]s/v1/branches/default/sources/web

Post an event to the url in the second response. A minute later, or when the server is stopped, it is a row of its table:

  curl -i -H 'Content-Type: application/json' -d '{"user":{"id":42}}' URL

What waits for its table, and why: add /sinks/events/statistics/files to the second address. All operations: %[1]s/v1/documentation

`

const useSource = `Post events to %[1]s

  curl -i -H 'Content-Type: application/json' -d '{"user":{"id":42}}' '%[1]s'

An event without user.id gets 422: the table of whole events has it, the table of fields does not.

  curl -i -H 'Content-Type: application/json' -d '{"kind":"click"}' '%[1]s'

What waits for its table, and why:

  curl -H "X-StorageApi-Token: %[3]s" %[2]s/v1/branches/default/sources/%[4]s/sinks/events/statistics/files

`

// exampleSource creates a source that stores every event as it is, and the fields of JSON events in a second table. The
// raw table rejects nothing. The second one requires user.id. A source that exists stays as it is.
func exampleSource(ctx context.Context, cat *catalog.Catalog, id string) (secret string, err error) {
	s, err := cat.Source(id)
	if err == nil {
		return s.Secret, nil
	}
	table := func(name string) string { return "in.c-" + id + "." + name }
	task, err := cat.CreateSource(catalog.By{Type: "system"}, catalog.SourceSpec{ID: id, Name: id, Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{Name: "raw", TableID: table("raw"), Columns: mapping.Columns{
			mapping.UUID("id", mapping.DataType(datatype.UUID)),
			mapping.Datetime("received_at", mapping.DataType(datatype.Timestamp)),
			mapping.IP("ip", mapping.DataType(datatype.String)),
			mapping.Headers("headers", mapping.DataType(datatype.JSON)),
			mapping.Body("body"), // any bytes
		}},
		{Name: "events", TableID: table("events"), Columns: mapping.Columns{
			mapping.UUID("id", mapping.DataType(datatype.UUID)),
			mapping.Datetime("received_at", mapping.DataType(datatype.Timestamp)),
			mapping.Path("user_id", "user.id", mapping.DataType(datatype.String), mapping.Required()),
			mapping.Path("kind", "kind", mapping.DataType(datatype.String), mapping.Default("unknown")),
			mapping.Template("agent", `std.asciiLower(Header("User-Agent", "none"))`, mapping.DataType(datatype.String)),
		}},
	}})
	if err != nil {
		return "", err
	}
	if _, err = task.Wait(ctx); err != nil {
		return "", err
	}
	s, err = cat.Source(id)
	return s.Secret, err
}
