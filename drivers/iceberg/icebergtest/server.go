// Package icebergtest has a REST catalog for tests.
package icebergtest

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

// Server is a REST catalog that serves another catalog. It serves the requests of the driver.
type Server struct {
	http.ServeMux
	catalog catalog.Catalog

	mu    sync.Mutex
	fault Fault
}

// Fault responds to a commit. commit makes the commit of the request.
type Fault func(w http.ResponseWriter, commit func() error)

// NewServer returns a server for a catalog, which the caller closes after the server.
func NewServer(c catalog.Catalog) *Server {
	s := &Server{catalog: c}
	s.HandleFunc("GET /v1/config", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"defaults": map[string]string{}, "overrides": map[string]string{}})
	})
	s.HandleFunc("POST /v1/namespaces", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Namespace []string }
		err := json.NewDecoder(r.Body).Decode(&in)
		if err == nil {
			err = s.catalog.CreateNamespace(r.Context(), in.Namespace, nil)
		}
		if !refuse(w, err) {
			answer(w, in)
		}
	})
	s.HandleFunc("GET /v1/namespaces/{ns}", func(w http.ResponseWriter, r *http.Request) {
		props, err := s.catalog.LoadNamespaceProperties(r.Context(), []string{r.PathValue("ns")})
		if !refuse(w, err) {
			answer(w, map[string]any{"namespace": []string{r.PathValue("ns")}, "properties": props})
		}
	})
	s.HandleFunc("POST /v1/namespaces/{ns}/tables", s.create)
	s.HandleFunc("GET /v1/namespaces/{ns}/tables/{table}", func(w http.ResponseWriter, r *http.Request) {
		tbl, err := s.catalog.LoadTable(r.Context(), identifier(r))
		if !refuse(w, err) {
			answerTable(w, tbl.Metadata(), tbl.MetadataLocation())
		}
	})
	s.HandleFunc("POST /v1/namespaces/{ns}/tables/{table}", s.commit)
	s.HandleFunc("DELETE /v1/namespaces/{ns}/tables/{table}", func(w http.ResponseWriter, r *http.Request) {
		if !refuse(w, s.catalog.DropTable(r.Context(), identifier(r))) {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return s
}

// Break lets a fault respond to the next commit.
func (s *Server) Break(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func identifier(r *http.Request) table.Identifier {
	return table.Identifier{r.PathValue("ns"), r.PathValue("table")}
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name   string
		Schema *iceberglib.Schema
		Spec   *iceberglib.PartitionSpec `json:"partition-spec"`
		Props  iceberglib.Properties     `json:"properties"`
	}
	if refuse(w, json.NewDecoder(r.Body).Decode(&in)) {
		return
	}
	opts := []catalog.CreateTableOpt{catalog.WithProperties(in.Props)}
	if in.Spec != nil {
		opts = append(opts, catalog.WithPartitionSpec(in.Spec))
	}
	tbl, err := s.catalog.CreateTable(r.Context(), table.Identifier{r.PathValue("ns"), in.Name}, in.Schema, opts...)
	if !refuse(w, err) {
		answerTable(w, tbl.Metadata(), tbl.MetadataLocation())
	}
}

func (s *Server) commit(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Requirements table.Requirements
		Updates      table.Updates
	}
	if refuse(w, json.NewDecoder(r.Body).Decode(&in)) {
		return
	}
	var meta table.Metadata
	var location string
	commit := func() (err error) {
		meta, location, err = s.catalog.CommitTable(r.Context(), identifier(r), in.Requirements, in.Updates)
		return err
	}
	s.mu.Lock()
	fault := s.fault
	s.fault = nil
	s.mu.Unlock()
	if fault != nil {
		fault(w, commit)
		return
	}
	if err := commit(); err != nil {
		http.Error(w, `{"error":{"message":"conflict","type":"CommitFailedException","code":409}}`, http.StatusConflict)
		return
	}
	answerTable(w, meta, location)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

func answerTable(w http.ResponseWriter, meta table.Metadata, location string) {
	answer(w, map[string]any{"metadata-location": location, "metadata": meta, "config": map[string]string{}})
}

// refuse responds with err, unless it is nil.
func refuse(w http.ResponseWriter, err error) bool {
	status := http.StatusInternalServerError
	switch {
	case err == nil:
		return false
	case errors.Is(err, catalog.ErrNoSuchTable), errors.Is(err, catalog.ErrNoSuchNamespace):
		status = http.StatusNotFound
	case errors.Is(err, catalog.ErrTableAlreadyExists), errors.Is(err, catalog.ErrNamespaceAlreadyExists):
		status = http.StatusConflict
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": err.Error(), "type": "Error", "code": status}})
	return true
}
