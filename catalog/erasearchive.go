package catalog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/forebay/forebay"
)

// An erasure deletes the raw records of the source, too. A new source with the id may be made before that has succeeded. It has another
// generation, and with it another archive, which no erasure of an earlier source touches.
//
// A catalog that has its store for itself keeps a record for each archive that is to be erased, from the end of the source to the end of its
// raw records. So an archive that is away for longer than the task waits does not keep them.

// archivePrefix begins the keys of archives that are to be erased.
const archivePrefix = "archive/"

func leftKey(archive string) string { return archivePrefix + archive }

// isLeft reports whether the store has a record of an archive that is to be erased, or cannot tell.
func (c *Catalog) isLeft(archive string) bool {
	record, err := c.store.Get(leftKey(archive))
	return record != nil || err != nil
}

// newGeneration tells a source from all earlier ones of its id.
func newGeneration() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// archive names the archive of the source, used or not.
func (s Source) archive() string {
	return forebay.Source{ID: s.ID, Generation: s.Generation}.ArchiveID()
}

// generation returns what tells a source from others with its id, including a deleted source. It is empty without a source.
func (c *Catalog) generation(source string) string {
	if t := c.defs.get(source); t != nil {
		return t.source.Generation
	}
	return ""
}

// archived reports whether a source keeps its raw records, or has had this engine keep them.
func (c *Catalog) archived(t *tree) bool {
	return t.source.Settings.archive() || slices.ContainsFunc(c.eng.Stats().Sinks, func(s forebay.SinkStats) bool {
		return s.Source == t.source.ID && s.Sink == forebay.ArchiveSink
	})
}

// cannotErase reports whether an error of [forebay.Engine.EraseArchive] stays as long as the engine is open.
func cannotErase(err error) bool {
	return errors.Is(err, forebay.ErrNoArchive) || errors.Is(err, errors.ErrUnsupported)
}

// eraseArchiveOf deletes the raw records of an erased source. It may be repeated.
func (c *Catalog) eraseArchiveOf(ctx context.Context, e *erasure, hold string) error {
	if e.Archive == "" {
		return nil // an earlier release has begun it
	}
	err := c.co.owns(hold)
	if err == nil {
		err = c.eng.EraseArchive(ctx, e.Archive)
	}
	switch {
	case err == nil, !e.Archived && cannotErase(err):
		return nil
	case errors.Is(err, forebay.ErrNoArchive):
		return fmt.Errorf("the raw records of the source stay until the service has its archive again: %w", err)
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("the raw records of the source stay: %w", err)
	}
	return fmt.Errorf("the raw records of the source are left, which is tried again: %w", err)
}

// eraseArchives deletes the raw records of erased sources that the task has left, and reports whether none are left that can be deleted now.
func (c *Catalog) eraseArchives(ctx context.Context) bool {
	r := c.repairs
	r.mu.Lock()
	left := slices.Sorted(maps.Keys(r.archives))
	r.mu.Unlock()
	done := true
	for _, archive := range left {
		err := c.eraseArchive(ctx, archive)
		if err == nil {
			err = c.store.Commit(map[string][]byte{leftKey(archive): nil})
		}
		if err != nil {
			c.log.Warn("raw records of an erased source left", "archive", archive, "cause", err, "next", "it is retried automatically")
		}
		if err != nil && !cannotErase(err) { // else the next opening tries again
			done = false
			continue
		}
		r.mu.Lock()
		delete(r.archives, archive)
		r.mu.Unlock()
	}
	return done
}

// eraseArchive makes one attempt, which continues where the previous attempt ended.
func (c *Catalog) eraseArchive(ctx context.Context, archive string) error {
	ctx, cancel := context.WithTimeout(ctx, sweepEvery)
	defer cancel()
	return c.eng.EraseArchive(ctx, archive)
}

// canEraseArchive reports whether the engine has an archive that can delete raw records.
func (c *Catalog) canEraseArchive() bool {
	_, ok := c.eng.Options().Archive.(forebay.ArchiveEraser)
	return ok
}
