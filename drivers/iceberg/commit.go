package iceberg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/forebay/forebay/driver"
)

// committer lets one call at a time commit to a table, for all files that wait.
type committer struct {
	turn    chan struct{} // has an element while a call commits
	added   atomic.Int64  // data files that this process has committed since the files were listed for a merge
	mu      sync.Mutex
	waiting []*pending

	compacting sync.Mutex // held by the call of Compact, to which the fields below belong
	expireAt   time.Time  // no snapshot needs to be expired before
	listAt     time.Time  // when the files are listed for a merge, even if few were added
	live       int64      // data files when they were listed
	sweepAt    time.Time  // the next search for orphans
}

// pending is a file whose data files are written.
type pending struct {
	ctx   context.Context
	file  *driver.File
	table uuid.UUID // for which they were written
	data  []iceberglib.DataFile

	// Guarded by committer.mu. They do not change after left is set or done is closed.
	tried bool // a commit was begun with the data files, so they must stay
	left  bool // the call has returned, so the file must no longer be committed

	done chan struct{}
	err  error // valid when done is closed
}

func (t *Target) committerOf(id table.Identifier) *committer {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := id[len(id)-1]
	c := t.committers[name]
	if c == nil {
		c = &committer{turn: make(chan struct{}, 1)}
		t.committers[name] = c
	}
	return c
}

// commit commits a file, perhaps together with others, or waits until another call has done so.
//
// When a call returns because its context has ended, no commit of its file can begin later. By then the next attempt may have been recorded
// by the engine, and the table may have dropped the id. A commit that already runs fails if the next attempt is faster.
func (c *committer) commit(t *Target, id table.Identifier, p *pending) error {
	c.mu.Lock()
	c.waiting = append(c.waiting, p)
	c.mu.Unlock()
	select {
	case <-p.done:
		return p.err
	case <-p.ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		p.left = true
		return p.ctx.Err()
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	c.mu.Lock()
	group := c.waiting // with p, unless an earlier call has finished it
	c.waiting = nil
	c.mu.Unlock()
	err := errors.New("the library panicked")
	defer func() {
		for _, other := range group {
			other.finish(err)
		}
	}()
	err = c.commitAll(p.ctx, t, id, group)
	if err != nil && p.ctx.Err() != nil {
		// The others still have their own contexts, and one of them takes the turn.
		group = slices.DeleteFunc(group, func(other *pending) bool { return other == p || other.finished() })
		c.mu.Lock()
		c.waiting = append(group, c.waiting...)
		c.mu.Unlock()
		group = nil
	}
	p.finish(err)
	return p.err
}

func (p *pending) finished() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// finish ends the wait for a file, unless it has ended.
func (p *pending) finish(err error) {
	if !p.finished() {
		p.err = err
		close(p.done)
	}
}

// maxRefusals bounds the commits that the catalog refuses although the table did not change.
const maxRefusals = 10

// commitAll commits files in one snapshot. It finishes the files whose outcome is known. Its error is the outcome of the other files.
func (c *committer) commitAll(ctx context.Context, t *Target, id table.Identifier, group []*pending) error {
	var failed error // the error of the last commit
	var base string  // the metadata that it was based on
	refusals := 0
	for round := 0; ; round++ {
		tbl, err := t.load(ctx, id)
		if err == nil && tbl == nil {
			err = fmt.Errorf("%w: it was dropped", catalog.ErrNoSuchTable)
		}
		if err != nil {
			return errors.Join(failed, err)
		}
		live, err := c.toCommit(ctx, t, tbl, group)
		if err != nil || len(live) == 0 {
			return err
		}
		if failed != nil && tbl.MetadataLocation() == base {
			if refusals++; !isConflict(failed) || refusals > maxRefusals {
				return failed
			}
		}
		if round > 0 {
			if err := pause(ctx, round); err != nil {
				return err
			}
		}
		base = tbl.MetadataLocation()
		if failed = t.commitOnce(ctx, tbl, live); failed == nil {
			for _, p := range live {
				c.added.Add(int64(len(p.data)))
			}
			return nil
		}
	}
}

// toCommit returns the files that the table does not have and whose calls still wait, and finishes the others. A file that an earlier
// round has finished stays out, because its call may have removed the data files. A second attempt of one file is left out too, because it shares the
// outcome of the first one.
func (c *committer) toCommit(ctx context.Context, t *Target, tbl *table.Table, group []*pending) (live []*pending, err error) {
	seen := make(map[string]bool)
	synced := false
	for _, p := range group {
		if p.finished() {
			continue
		}
		found, err := imported(ctx, tbl, p.file)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err // the end of ctx says nothing about this file
		case err != nil:
			p.finish(err)
			continue
		case found:
			if !synced {
				if err := t.syncCatalog(ctx); err != nil {
					return nil, err
				}
			}
			synced = true
			p.finish(nil)
			continue
		case p.table != tbl.Metadata().TableUUID():
			p.finish(errors.New("the table was replaced during the import"))
			continue
		case seen[p.file.ID]:
			continue
		}
		c.mu.Lock()
		ended := p.left || p.ctx.Err() != nil
		if !ended {
			p.tried = true
		}
		c.mu.Unlock()
		if ended {
			p.finish(p.ctx.Err()) // it must not share the outcome of the others
			continue
		}
		seen[p.file.ID] = true
		live = append(live, p)
	}
	return live, nil
}

// commitOnce appends the data files and the ids in one commit to the version of the table that was read.
func (t *Target) commitOnce(ctx context.Context, tbl *table.Table, files []*pending) error {
	tx := onceOnly(t.catalog, tbl).NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return err
	}
	now := time.Now()
	records := make(map[string]record)
	var data []iceberglib.DataFile
	var ids []string
	for _, p := range files {
		engine, _ := splitID(p.file.ID)
		r, known := records[engine]
		if !known {
			var err error
			if r, err = recordOf(tbl.Properties(), p.file.ID); err != nil {
				return err
			}
		}
		r.at = now
		r.add(p.file.ID, p.file.Rows)
		records[engine] = r
		data, ids = append(data, p.data...), append(ids, p.file.ID)
	}
	props := make(iceberglib.Properties)
	for engine, r := range records {
		props[recordPrefix+engine] = r.String()
	}
	if err := tx.SetProperties(props); err != nil {
		return err
	}
	if t.opts.KeepIDs > 0 {
		var stale []string
		for _, key := range staleRecords(tbl.Properties(), now.Add(-t.opts.KeepIDs)) {
			if _, set := props[key]; !set {
				stale = append(stale, key)
			}
		}
		if len(stale) > 0 {
			if err := tx.RemoveProperties(stale); err != nil {
				return err
			}
		}
	}
	err := tx.AddDataFiles(ctx, data, iceberglib.Properties{summaryKey: strings.Join(ids, " ")}, table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping())
	if err == nil {
		_, err = tx.Commit(ctx)
	}
	return err
}

// onceOnly returns the table with a catalog that never lets the library repeat a commit. The library would append the data files to a
// newer version without looking for the ids.
func onceOnly(c catalog.Catalog, tbl *table.Table) *table.Table {
	return table.New(tbl.Identifier(), tbl.Metadata(), tbl.MetadataLocation(), tbl.FS, oneTry{c})
}

type oneTry struct{ table.CatalogIO }

func (o oneTry) CommitTable(ctx context.Context, id table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	meta, location, err := o.CatalogIO.CommitTable(ctx, id, reqs, updates)
	if errors.Is(err, table.ErrCommitFailed) {
		err = &conflictError{err}
	}
	return meta, location, err
}

// conflictError hides [table.ErrCommitFailed] from the library.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }

func isConflict(err error) bool { return errors.As(err, new(*conflictError)) }

// pause waits a random time, longer with each round, so that engines stop conflicting.
func pause(ctx context.Context, round int) error {
	timer := time.NewTimer(rand.N(min(time.Second, 5*time.Millisecond<<min(round, 10))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
