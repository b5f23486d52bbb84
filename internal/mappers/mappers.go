// Package mappers keeps compiled mappings, so that a definition that is checked and then applied compiles each of them once.
package mappers

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"weak"

	"github.com/forebay/forebay/mapping"
)

// maxText bounds the mappers that are kept although no source uses them, by bytes of the text of their columns.
// They are mappers of changes that are checked now and made later. A mapper takes a few times its text.
const maxText = 1 << 20

// Cache compiles mappers, and returns a mapper that it already compiled for the same columns of the same sink. Sinks
// share no mapper, because they would share the clock of their UUIDs.
type Cache struct {
	options func(target string) mapping.Options

	mu       sync.Mutex // not held while something is compiled
	known    map[hash]weak.Pointer[mapping.Mapper]
	kept     []entry // oldest first
	text     int     // of kept
	sweepAt  int     // length of known at which dead entries are deleted
	compiled int64
}

type hash [sha256.Size]byte

type entry struct {
	key    hash
	mapper *mapping.Mapper
	text   int
}

// New returns a cache. options returns the options of the mappers for the tables of a target.
func New(options func(target string) mapping.Options) *Cache { return &Cache{options: options} }

// Get returns the mapper of a sink, by its name in the buffer, for a table in the named target.
func (c *Cache) Get(id, target string, columns mapping.Columns) (*mapping.Mapper, error) {
	text := fmt.Appendf(nil, "%q %q %#v", id, target, columns) // every field, because the JSON form leaves some out
	key := hash(sha256.Sum256(text))
	c.mu.Lock()
	m := c.known[key].Value()
	c.mu.Unlock()
	if m != nil {
		return m, nil
	}
	m, err := mapping.Compile(columns, c.options(target))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compiled++
	if err != nil {
		return nil, err
	}
	if other := c.known[key].Value(); other != nil { // compiled by another call meanwhile
		return other, nil
	}
	if c.known == nil {
		c.known = map[hash]weak.Pointer[mapping.Mapper]{}
	}
	c.known[key] = weak.Make(m)
	c.kept = append(c.kept, entry{key, m, len(text)})
	c.text += len(text)
	for len(c.kept) > 1 && c.text > maxText {
		c.text -= c.kept[0].text
		c.kept[0] = entry{}
		c.kept = c.kept[1:] // thousands of entries are not moved for each new one
	}
	if len(c.known) > max(c.sweepAt, 256) {
		for key, p := range c.known {
			if p.Value() == nil {
				delete(c.known, key)
			}
		}
		c.sweepAt = 2 * len(c.known)
	}
	return m, nil
}

// Compiled returns how often mappings were compiled.
func (c *Cache) Compiled() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compiled
}

// Kept returns how many mappers the cache keeps alive.
func (c *Cache) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept)
}
