package platform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/storageapi"
)

// Server is the platform's APIs over one directory. It is an [http.Handler], and safe for concurrent use.
//
// # Tables
//
// Cells are UTF-8, and an import of other bytes fails. In a table with types each value has one canonical text: 1.0 and 1e0 are
// the INTEGER 1, and a TIMESTAMP is in UTC with six digits of a second. A value that its type cannot hold exactly fails the
// import, with row, column and reason. Nothing is rounded or guessed. A TIMESTAMP without a zone is UTC, and a BOOLEAN is
// true or false. An import has one text for null, by default the empty one. It becomes an empty cell, because there is no other null.
//
// An export is a sliced file without a header, compressed if gzip is true. Its format is CSV ("rfc") or one JSON object
// a line ("json"). changedSince and changedUntil may be relative to now, such as "-2 days".
//
// # Files
//
// File bytes are uploaded to an object store with the protocol of Azure's blobs, below /blob of the same server. Azure's
// credentials carry the address of the store, so unmodified clients of the platform upload there. The manifest of a sliced
// file names slices with that address, with the scheme azure if clients reach the server by https, and as it is over http. The module
// storageapi/platform/s3gateway serves clients that know only S3, with [Options.S3].
//
// # Variables and encrypted values
//
// A configuration has variables if its node variables_id names a configuration of [Options.VariablesComponent]. A run
// replaces {{ name }} in all texts with the values of the job or of the row variables_values_id. A variable without a value
// fails the job. Without variables_id and without values {{ }} stays as it is.
//
// POST /encrypt encrypts texts, and members of JSON whose names begin with "#", for a component, a project, a component in a
// project or a configuration. The project may be a different one. Configurations keep the encrypted values. Only the program
// of a run in that scope gets the clear text. Its log and its error show *** instead, unless the value has less than four
// bytes. The cipher is AES-256-GCM. Its key is made at the first opening and stored in the file encryption.key. A backup
// without that file cannot read encrypted values. Values that another installation encrypted fail the job.
type Server struct {
	opts       Options
	log        *slog.Logger
	store      *store
	blobs      *blobs
	parts      *parts
	vault      *vault
	runs       string // folder of what components write while they run
	components map[string]*Component
	// programmatic are the hashes of Options.ProgrammaticTokens.
	programmatic map[string]bool
	handler      http.Handler
	routes       []route

	// defaultBranch is the branch of paths that name none.
	defaultBranch devBranch

	// sliceSize is how many bytes of rows go into one slice of an export, before they are compressed.
	sliceSize int64

	jobs       *storageJobs
	queue      *queue
	background workers

	closeOnce sync.Once
	closeErr  error
}

// Open opens the server of a directory, which is made if it is absent. A lock keeps out other servers, however their paths are spelled. Jobs that
// were not finished when the directory was last used resume.
func Open(dir string, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("platform: %w", err)
	}
	st, err := openStore(filepath.Join(dir, "meta"), o.Logger, nil)
	if errors.As(err, new(*pebblestore.InUseError)) {
		err = fmt.Errorf("the directory is in use by another server, of this process or of a different process: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("platform: open %s: %w", dir, err)
	}
	s := &Server{opts: o, log: o.Logger, store: st, components: make(map[string]*Component), programmatic: make(map[string]bool)}
	for _, t := range o.ProgrammaticTokens {
		s.programmatic[hashToken(string(t))] = true
	}
	for _, c := range o.Components {
		s.components[c.ID] = describe(c)
	}
	if err := s.start(dir); err != nil {
		return nil, fmt.Errorf("platform: open %s: %w", dir, errors.Join(err, st.close()))
	}
	return s, nil
}

func (s *Server) start(dir string) (err error) {
	if s.blobs, err = openBlobs(filepath.Join(dir, "files")); err != nil {
		return err
	}
	if s.parts, err = openParts(filepath.Join(dir, "tables")); err != nil {
		return err
	}
	if s.vault, err = openVault(filepath.Join(dir, "encryption.key")); err != nil {
		return err
	}
	s.runs = filepath.Join(dir, "runs")
	if err := errors.Join(os.RemoveAll(s.runs), os.Mkdir(s.runs, 0o700)); err != nil {
		return err
	}
	if err := s.prepareProject(); err != nil {
		return err
	}
	s.sliceSize = exportSlice
	s.routes = s.allRoutes()
	s.handler = s.newMux()
	s.jobs = newStorageJobs(s)
	s.queue = newQueue(s)
	if err := errors.Join(s.sweepBranches(), s.parts.sweep(s.store), s.expireFiles(), s.sweepBlobs(), s.prune(time.Now())); err != nil {
		return err
	}
	if err := errors.Join(s.jobs.resume(), s.queue.resume()); err != nil {
		s.queue.stop()
		s.jobs.stop()
		return err
	}
	s.background = newWorkers()
	s.background.wg.Go(s.expireRegularly)
	return nil
}

// expireEvery is how often files, jobs and events are looked at whose life may be over. Reading such a file fails from its last moment on.
const expireEvery = time.Hour

func (s *Server) expireRegularly() {
	ticker := time.NewTicker(expireEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.background.ctx.Done():
			return
		case <-ticker.C:
			if err := s.expireFiles(); err != nil {
				s.log.Error("platform: expired files could not be deleted", "error", err)
			}
			if err := s.prune(time.Now()); err != nil {
				s.log.Error("platform: the records of old jobs and events could not be deleted", "error", err)
			}
		}
	}
}

// ServeHTTP handles one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close stops running jobs, which resume when the directory is opened again, and closes the directory. Calls must have
// ended before. It returns the failure of a disk that was not fixed yet. Nothing that was acknowledged is lost, and the next Open
// reads the state on disk.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.background.cancel()
		s.queue.stop()
		s.jobs.stop()
		s.background.wg.Wait()
		s.closeErr = s.store.close()
	})
	return s.closeErr
}

// prepareProject makes the default branch and the master token.
func (s *Server) prepareProject() error {
	branchID, err := s.store.ids.take()
	if err != nil {
		return err
	}
	tokenID, err := s.store.ids.take()
	if err != nil {
		return err
	}
	return s.store.update("project", func(tx *txn) error {
		var master int64
		if !tx.get(masterKey, &master) {
			if s.opts.Token == "" {
				return errors.New("the directory is new: Options.Token is required")
			}
			master = tokenID
		}
		s.putMaster(tx, master)
		for b := range each[devBranch](tx, key("branch", ""), false) {
			if b.IsDefault {
				s.defaultBranch = b
				return nil
			}
		}
		s.defaultBranch = devBranch{
			ID: branchID, Name: "Main", Created: now(), IsDefault: true,
			Creator: storageapi.TokenRef{ID: storageapi.IntID(master), Description: masterDescription},
		}
		tx.put(branchKey(branchID), s.defaultBranch)
		return nil
	})
}

// now is the time of a change, with the precision of the API.
func now() storageapi.Time { return storageapi.Time{Time: time.Now().UTC().Truncate(time.Second)} }

// baseURL is the address under which the caller reaches the server.
func (s *Server) baseURL(r *http.Request) string {
	if s.opts.PublicURL != "" {
		return s.opts.PublicURL
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// workers runs background work that ends with the server.
type workers struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newWorkers() workers {
	ctx, cancel := context.WithCancel(context.Background())
	return workers{ctx: ctx, cancel: cancel}
}
