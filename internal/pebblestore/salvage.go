package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// lostNote lists, in the folder that keeps a damaged store, what could not be read of it.
const lostNote = "forebay-lost.txt"

// salvager replaces a damaged store by a new one that has the newest version of each key that can still be read.
//
// A version that cannot be read leaves the one before. A record may be older than it was, and one that was removed may be back. Only
// the owner knows whether that is right, so everything that cannot be read is logged and noted.
type salvager struct {
	conf   Config
	name   string // name of the store in the log
	newest map[string]found
	ranges []wipedRange
	lost   []string
}

// found is the newest version of a key.
type found struct {
	seq uint64
	set bool // not removed
}

// wipedRange is a range of keys that was removed. The end, to, is outside.
type wipedRange struct {
	from, to []byte
	seq      uint64
}

// run salvages a store that this process has locked. With an error the damaged store is where it was, or [FinishSwap] completes
// the swap.
func (s *salvager) run(cause *DamageError) error {
	c, aside := s.conf, Aside(time.Now())
	c.Log.Error("store damaged", "store", s.name, "dir", c.Dir, "aside", aside, "cause", cause, "next", "its readable records are salvaged; check the disk")
	s.newest = map[string]found{}
	if err := Scan(c.FS, c.Dir, s.take, func(file, what string) { s.lost = append(s.lost, file+": "+what) }); err != nil {
		return err
	}
	if len(s.lost) == 0 && !cause.Index {
		s.lost = append(s.lost, fmt.Sprintf("%v; everything else could be read", cause))
	}
	folder := c.FS.PathJoin(c.Dir, NewFolder)
	if err := s.write(folder); err != nil {
		return errors.Join(err, c.FS.RemoveAll(folder))
	}
	if len(s.lost) > 0 {
		kept := c.FS.PathJoin(c.Dir, aside)
		if err := errors.Join(c.FS.MkdirAll(kept, 0o700), WriteNote(c.FS, kept, lostNote, strings.Join(s.lost, "\n")+"\n")); err != nil {
			return err
		}
	}
	for _, lost := range s.lost { // before the swap, which a later opening may complete
		c.Log.Error("records lost or outdated", "store", s.name, "dir", c.Dir, "aside", aside, "reason", lost, "next", "compare the stored definitions with yours, and correct them")
	}
	if err := Swap(c.FS, c.Dir, aside); err != nil {
		return err
	}
	c.Log.Warn("store salvaged", "store", s.name, "dir", c.Dir, "aside", aside, slog.Int("records", len(s.newest)), slog.Int("places", len(s.lost)), "next", "its readable records are salvaged; if places is not 0, read "+lostNote+" in the folder that aside names")
	return nil
}

// take notes one version of a key.
func (s *salvager) take(e Entry) error {
	switch e.Kind {
	case pebble.InternalKeyKindRangeDelete:
		s.ranges = append(s.ranges, wipedRange{bytes.Clone(e.Key), bytes.Clone(e.Value), e.Seq})
		return nil
	case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized, pebble.InternalKeyKindSingleDelete:
	case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
	default:
		return nil
	}
	if old, ok := s.newest[string(e.Key)]; !ok || e.Seq > old.seq {
		s.newest[string(e.Key)] = found{e.Seq, isSet(e)}
	}
	return nil
}

func isSet(e Entry) bool {
	return e.Kind == pebble.InternalKeyKindSet || e.Kind == pebble.InternalKeyKindSetWithDelete
}

// wants reports whether an entry is the newest version of a key that was not removed.
func (s *salvager) wants(e Entry) bool {
	v, ok := s.newest[string(e.Key)]
	if !isSet(e) || !ok || !v.set || v.seq != e.Seq {
		return false
	}
	for _, r := range s.ranges {
		if r.seq > v.seq && bytes.Compare(r.from, e.Key) <= 0 && bytes.Compare(e.Key, r.to) < 0 {
			return false
		}
	}
	return true
}

// salvageBatch is how many bytes of records are written at once.
const salvageBatch = 1 << 20

// write writes the new store. It reads the records from the damaged one once more.
func (s *salvager) write(folder string) (err error) {
	if err := s.conf.FS.RemoveAll(folder); err != nil {
		return err
	}
	c := s.conf
	c.Dir, c.Exists = folder, false
	o, err := Open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	batch := o.DB.NewBatch()
	err = Scan(s.conf.FS, s.conf.Dir, func(e Entry) error {
		if !s.wants(e) {
			return nil
		}
		if err := batch.Set(e.Key, e.Value, nil); err != nil || batch.Len() < salvageBatch {
			return err
		}
		err := o.DB.Apply(batch, pebble.NoSync)
		batch = o.DB.NewBatch()
		return err
	}, func(string, string) {})
	if err == nil {
		err = o.DB.Apply(batch, pebble.Sync)
	}
	if err == nil {
		err = o.DB.Flush() // also so that later logs say how much of them was synced
	}
	return err
}

// readAll reads a store to its end, so that damage is found when it is opened.
func readAll(db *pebble.DB) error {
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if _, err := it.ValueAndErr(); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}
