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

	"github.com/forebay/forebay/internal/program/hostname"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/stream"
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

// checkpoint is the answer to an order.
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
	inspect := cmp.Or(parts.Inspect, "go run github.com/forebay/forebay/examples/inspect")
	mux := http.NewServeMux()
	mux.HandleFunc("POST /checkpoint", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			http.Error(w, "A checkpoint takes no parameters. No checkpoint was made.", http.StatusBadRequest)
			return
		}
		folder := filepath.Join(m.cfg.Dir, "checkpoints", time.Now().UTC().Format("20060102-150405.000000"))
		w.Header().Set("Content-Type", "application/json")
		// The rows come first, so that the later copy of the definitions, with their tokens, covers all of them.
		err := m.eng.Checkpoint(r.Context(), folder)
		if err == nil && m.cat != nil {
			err = m.cat.Checkpoint(filepath.Join(folder, catalogFolder))
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder)) // half a checkpoint is useless
			m.logger.Error("checkpoint not made", "cause", err, "next", "free space on the volume, and repeat the request")
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
			return
		}
		_ = json.NewEncoder(w).Encode(checkpoint{
			Directory: folder, Staging: staging,
			Inspect: fmt.Sprintf("%s -staging %q %q", inspect, staging, folder),
		})
	})
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostname.Known(r.Host) {
			unknownHost(w, "an IP address or localhost")
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// unknownHost refuses a request that may come from a page whose name points to this machine.
func unknownHost(w http.ResponseWriter, names string) {
	http.Error(w, "This server does not know the host name of the request. Use "+names+".", http.StatusMisdirectedRequest)
}
