package catalog

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"
)

// MaxVersions is how many versions of each source and sink are kept. Older ones are deleted.
const MaxVersions = 1000

// Version describes one version of a source or sink.
type Version struct {
	// Number counts from 1 and continues across deletion and undeletion.
	Number int `json:"number"`
	// Hash has 16 hex digits. Versions with the same content have the same.
	Hash string `json:"hash"`
	// Description describes the change.
	Description string `json:"description"`
	// At and By say when and by whom it was made.
	At time.Time `json:"at"`
	By By        `json:"by"`
}

// versionPrefix begins the keys of all versions of a source or sink.
func versionPrefix(ref Ref) string { return "version/" + ref.kind() + "/" + ref.entity() + "/" }

func versionKey(ref Ref, number int) string {
	return fmt.Sprintf("%s%010d", versionPrefix(ref), number)
}

// addVersion gives the present content of a sink, or of the source if sink is empty, the next number, even if the
// content is the same. It deletes the oldest version beyond MaxVersions.
func (ch *change) addVersion(sink, description string) {
	ref := Ref{ch.ref.Source, sink}
	var content any = ch.next.source.SourceContent
	last := &ch.next.source.Version
	if sink != "" {
		content, last = ch.next.sinks[sink].SinkContent, &ch.next.sinks[sink].Version
	}
	h := fnv.New64a()
	h.Write(encode(content))
	*last = Version{Number: last.Number + 1, Hash: fmt.Sprintf("%016x", h.Sum64()), Description: description, At: ch.at, By: ch.by}
	ch.records[versionKey(ref, last.Number)] = encode(struct {
		Version Version `json:"version"`
		Content any     `json:"content"`
	}{*last, content})
	if old := last.Number - MaxVersions; old > 0 {
		ch.records[versionKey(ref, old)] = nil
	}
}

// Versions returns the versions of a source or sink that are kept, ascending.
func (c *Catalog) Versions(ref Ref) ([]Version, error) {
	last, err := c.lastVersion(ref)
	if err != nil {
		return nil, err
	}
	var list []Version
	err = scan(c.store, versionPrefix(ref), func(_ string, r *struct{ Version Version }) {
		if r.Version.Number <= last { // the store may also have one that is being written
			list = append(list, r.Version)
		}
	})
	return list, err
}

// Version returns a version of a source or sink with its content, a [SourceContent] or [SinkContent] as JSON.
func (c *Catalog) Version(ref Ref, number int) (Version, json.RawMessage, error) {
	last, err := c.lastVersion(ref)
	switch {
	case err != nil:
		return Version{}, nil, err
	case number > last: // the store may have one that is being written
		return Version{}, nil, noVersion(ref, number)
	}
	return c.versionRecord(ref, number)
}

func (c *Catalog) lastVersion(ref Ref) (int, error) {
	t, s, err := c.find(ref)
	switch {
	case err != nil:
		return 0, err
	case s != nil:
		return s.Version.Number, nil
	}
	return t.source.Version.Number, nil
}

func (c *Catalog) versionRecord(ref Ref, number int) (Version, json.RawMessage, error) {
	key := versionKey(ref, number)
	var r struct {
		Version Version
		Content json.RawMessage
	}
	switch record, err := c.store.Get(key); {
	case err != nil:
		return Version{}, nil, err
	case record == nil:
		return Version{}, nil, noVersion(ref, number)
	default:
		if err := json.Unmarshal(record, &r); err != nil {
			return Version{}, nil, fmt.Errorf("record %s: %w", key, err)
		}
	}
	return r.Version, r.Content, nil
}

func noVersion(ref Ref, number int) error {
	code := SourceVersionNotFound
	if ref.Sink != "" {
		code = SinkVersionNotFound
	}
	return refuse(code, "Version \"%010d\" of %s not found. List the versions to see their numbers.", number, ref.full())
}
