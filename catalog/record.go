package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// The keys of the store. Ids contain no '/', so that prefixes end where ids do. Keys of versions are in version.go.
const (
	sourcePrefix   = "source/"
	sinkPrefix     = "sink/"
	taskPrefix     = "task/"
	retiredPrefix  = "retired/"
	erasurePrefix  = "erasure/"
	creationPrefix = "creation/"
)

func sourceKey(id string) string       { return sourcePrefix + id }
func sinkKey(source, id string) string { return sinkPrefix + source + "/" + id }
func taskKey(id string) string         { return taskPrefix + id }
func retiredKey(id string) string      { return retiredPrefix + id }
func creationKey(id string) string     { return creationPrefix + id }
func erasuresOf(source string) string  { return erasurePrefix + source + "/" }

// erasureKey differs for each erasure. A pending write of an earlier one of the source must not meet it.
func erasureKey(t Task) string { return erasuresOf(t.SourceID) + path.Base(t.ID) }

// now is the time that records carry, in milliseconds, as users see it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// encode returns the stored form of a record.
func encode(v any) []byte {
	b, err := jsontext.Marshal(v)
	if err != nil {
		panic("catalog: a record cannot be encoded: " + err.Error()) // all types of records can be
	}
	return b
}

// load reads the store. Nothing else uses the catalog yet.
func (c *Catalog) load() (erasures []*erasure, creations []*creation, err error) {
	trees := c.defs.trees
	err = errors.Join(
		scan(c.store, sourcePrefix, func(_ string, s *Source) {
			trees[s.ID] = &tree{source: *s, sinks: map[string]*Sink{}}
		}),
		scan(c.store, sinkPrefix, func(key string, s *Sink) {
			source, _, _ := strings.Cut(key[len(sinkPrefix):], "/")
			if t := trees[source]; t != nil {
				t.sinks[s.ID] = s
			}
		}),
		scan(c.store, retiredPrefix, func(_ string, r *retired) { c.retired.add(*r) }),
		scan(c.store, erasurePrefix, func(_ string, e *erasure) { erasures = append(erasures, e) }),
		scan(c.store, creationPrefix, func(_ string, cr *creation) { creations = append(creations, cr) }),
	)
	if err = errors.Join(err, c.loadArchives(erasures)); err != nil {
		err = fmt.Errorf("catalog: %w", err)
	}
	return erasures, creations, err
}

// loadArchives reads which raw records of erased sources are left. A resumed task deletes its own.
func (c *Catalog) loadArchives(erasures []*erasure) error {
	return c.store.Scan(archivePrefix, func(key string, _ []byte) error {
		archive := key[len(archivePrefix):]
		if !slices.ContainsFunc(erasures, func(e *erasure) bool { return e.Archive == archive }) {
			c.repairs.archives[archive] = true
			c.repairs.add(func() {}) // wakes the sweep
		}
		return nil
	})
}

// readTree reads a source with its sinks, or nil when there is none.
func readTree(store Store, source string) (*tree, error) {
	record, err := store.Get(sourceKey(source))
	if err != nil || record == nil {
		return nil, err
	}
	t := &tree{sinks: map[string]*Sink{}}
	if err := json.Unmarshal(record, &t.source); err != nil {
		return nil, fmt.Errorf("record %s: %w", sourceKey(source), err)
	}
	return t, scan(store, sinkKey(source, ""), func(_ string, s *Sink) { t.sinks[s.ID] = s })
}

// scan calls visit for every record with a prefix, by key.
func scan[R any](store Store, prefix string, visit func(key string, record *R)) error {
	return store.Scan(prefix, func(key string, b []byte) error {
		record := new(R)
		if err := json.Unmarshal(b, record); err != nil {
			return fmt.Errorf("record %s: %w", key, err)
		}
		visit(key, record)
		return nil
	})
}
