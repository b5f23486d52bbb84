package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/refusal"
)

// checkAdmin refuses addresses that other machines reach, because a checkpoint can fill the disk.
func checkAdmin(addr string) error {
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return WrongValue("admin", "is %q: %v", addr, err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return WrongValue("admin", "is %q, must be a loopback address such as 127.0.0.1:8082", addr)
	}
	return nil
}

// serveAdmin takes orders.
func serveAdmin(m *management, parts Parts) (*web.Server, error) {
	listener, err := Listen("admin", m.cfg.Admin)
	if err != nil {
		return nil, err
	}
	srv := stream.Server(m.cfg.Admin, web.Named(adminHandler(m, parts)))
	srv.WriteTimeout = 0 // a checkpoint takes as long as its disk
	m.logger.Info("admin port open", "address", listener.Addr().String())
	return web.Start(stream.LimitConnections(listener, 8), srv), nil
}

// checkpoint is the response to an order.
type checkpoint struct {
	// Directory holds the copy of rows and definitions, Staging the staged objects of the running engine, which the copy
	// needs.
	Directory string `json:"directory"`
	Staging   string `json:"staging"`
	Inspect   string `json:"inspect"`
}

// catalogFolder holds the definitions, in the data directory and in its copies.
const catalogFolder = "catalog"

// adminHandler makes checkpoints of rows and definitions. It refuses requests of other origins and
// of unknown hosts, so a page in a browser of this machine cannot ask for one.
func adminHandler(m *management, parts Parts) http.Handler {
	staging := cmp.Or(parts.StagingText, filepath.Join(m.cfg.Dir, "staging"))
	inspect := cmp.Or(parts.Inspect, "go -C examples run ./inspect")
	mux := http.NewServeMux()
	mux.HandleFunc("POST /checkpoint", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			refusal.New(http.StatusBadRequest, "badRequest",
				"A checkpoint has no parameters. No checkpoint was made. Repeat the request without parameters.").Write(w)
			return
		}
		folder := filepath.Join(m.cfg.Dir, "checkpoints", time.Now().UTC().Format("20060102-150405.000000"))
		// The rows are copied first, so that the later copy of the definitions, with their tokens, covers all of them.
		err := m.eng.Checkpoint(r.Context(), folder)
		if err == nil && m.cat != nil {
			err = m.cat.Checkpoint(filepath.Join(folder, catalogFolder))
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder)) // half a checkpoint is useless
			m.logger.Error("checkpoint not made", "cause", err, "next", "free space on the volume, and retry the request")
			refusal.New(http.StatusInternalServerError, "checkpointFailed",
				fmt.Sprintf("No checkpoint was made: %v. Free space on the volume, and retry the request.", err)).Write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(checkpoint{
			Directory: folder, Staging: staging,
			Inspect: fmt.Sprintf("%s -staging %q %q", inspect, staging, folder),
		})
	})
	refusal.Rest(mux, "POST /checkpoint")
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refusal.New(http.StatusForbidden, "forbidden",
			"The request comes from a page of a different origin. Send it with a program, such as curl.").Write(w)
	}))
	guarded := origins.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !console.KnownHost(r.Host) {
			unknownHost(w, "an IP address or localhost")
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// unknownHost refuses a request that may come from a page whose name points to this machine.
func unknownHost(w http.ResponseWriter, names string) {
	refusal.New(http.StatusMisdirectedRequest, "unknownHost",
		"This server does not know the host name of the request. Use "+names+".").Write(w)
}
