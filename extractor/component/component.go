// Package component runs the extractor as a component of the queue, so that a job pulls records into tables:
//
//	server, err := platform.Open("data", platform.Options{Components: []platform.Component{{
//		Component: storageapi.Component{ID: "generic-extractor", Type: "extractor"},
//		Runner:    component.New(component.Options{}),
//	}}})
//
// The configuration of the extractor is the node parameters of the effective configuration, which is the root, with one row laid
// over it if there are rows. Each configuration and row keeps its own state. A run that fails leaves the
// state as it was, so that the next one pulls the same records again. Tables are replaced or added to as the
// configuration says, once all records of a run are there.
//
// A refresh token that an OAuth 2 server gives in place of another is in the state of the configuration or row, in clear. It is on disk before
// it is used, and stays when the run fails or the server crashes. All else in the state then is as it was. Rows do not share a state, so where
// the server takes each token once, two rows need a refresh token each. A job that brings its own content has no state and loses the token.
package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/storageapi/platform"
)

// Options of the component. The zero value works.
type Options struct {
	// Transport, PublicOnly and MaxResponseBytes are passed to [extractor.Options].
	Transport        http.RoundTripper
	PublicOnly       bool
	MaxResponseBytes int64
}

// Validate reports every breach at once.
func (o Options) Validate() error { return o.extractor().Validate() }

func (o Options) extractor() extractor.Options {
	return extractor.Options{Transport: o.Transport, PublicOnly: o.PublicOnly, MaxResponseBytes: o.MaxResponseBytes}
}

// New returns the program of the component. It is safe for concurrent use. It panics if opts.Validate reports an error.
func New(opts Options) platform.Runner {
	if err := opts.Validate(); err != nil {
		panic(err)
	}
	return runner{opts}
}

type runner struct{ opts Options }

// Run implements [platform.Runner].
func (r runner) Run(ctx context.Context, run *platform.Run) error {
	err := r.run(ctx, run)
	if err != nil && extractor.ExitStatus(err) == 1 {
		return platform.UserError(err)
	}
	return err
}

func (r runner) run(ctx context.Context, run *platform.Run) error {
	cfg, err := extractor.Parse(run.Configuration)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		run.Logger.Warn(w.Message, "path", w.Path)
	}
	var state extractor.State
	if err := json.Unmarshal(run.State, &state); err != nil {
		return platform.UserError(fmt.Errorf("state: %w", err))
	}
	dir, err := os.MkdirTemp("", "extractor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	opts := r.opts.extractor()
	opts.Logger = run.Logger
	saved := state.Tokens
	opts.Checkpoint = func(_ context.Context, s extractor.State) error {
		if maps.Equal(s.Tokens, saved) { // positions move at the end of the run, when its tables are in place
			return nil
		}
		kept := state
		kept.Tokens = s.Tokens
		text, err := json.Marshal(kept)
		if err == nil {
			err = run.SaveState(text)
		}
		if err == nil {
			saved = s.Tokens
		}
		return err
	}
	next, err := extractor.RunTables(ctx, cfg, state, dir, opts)
	if err != nil {
		return err
	}
	if err := hand(run, dir); err != nil {
		return err
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return run.SetState(text)
}

// manifest is the part of a table's manifest that says where it goes.
type manifest struct {
	Destination string   `json:"destination"`
	Incremental bool     `json:"incremental"`
	PrimaryKey  []string `json:"primary_key"`
}

// hand gives the tables of a folder to the run. A file has no rows but its header when nothing was found for it.
func hand(run *platform.Run, dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, manifestSuffix) {
			return err
		}
		return handTable(run, path)
	})
}

const manifestSuffix = ".manifest"

func handTable(run *platform.Run, path string) (err error) {
	var m manifest
	text, err := os.ReadFile(path + manifestSuffix)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err // without a column there is no table
	}
	out, err := run.CreateOutputTable(filepath.Base(path), platform.OutputTable{
		Destination: m.Destination, Incremental: m.Incremental, PrimaryKey: m.PrimaryKey,
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return errors.Join(err, out.Close())
}
