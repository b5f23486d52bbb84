package catalog

import (
	"encoding/json"
	"fmt"
	"time"
)

// SourceVersions returns the versions of a source that are kept, ascending.
func (c *Catalog) SourceVersions(id string) ([]Version, error) {
	s, err := c.Source(id)
	if err != nil {
		return nil, err
	}
	return c.versions(versionPrefix(id, ""), s.Version.Number)
}

// SinkVersions returns the versions of a sink that are kept, ascending.
func (c *Catalog) SinkVersions(sourceID, id string) ([]Version, error) {
	_, s, err := c.Sink(sourceID, id)
	if err != nil {
		return nil, err
	}
	return c.versions(versionPrefix(sourceID, id), s.Version.Number)
}

// versions reads the versions up to the last one: the store may also have one that is being written.
func (c *Catalog) versions(prefix string, last int) ([]Version, error) {
	var list []Version
	err := c.store.Scan(prefix, func(key string, record []byte) error {
		var r struct{ Version Version }
		if err := json.Unmarshal(record, &r); err != nil {
			return fmt.Errorf("record %s: %w", key, err)
		}
		if r.Version.Number <= last {
			list = append(list, r.Version)
		}
		return nil
	})
	return list, err
}

// SourceVersion returns a version of a source with its content.
func (c *Catalog) SourceVersion(id string, number int) (Version, SourceContent, error) {
	s, err := c.Source(id)
	if err != nil {
		return Version{}, SourceContent{}, err
	}
	if number > s.Version.Number { // the store may have one that is being written
		return Version{}, SourceContent{}, noSourceVersion(id, number)
	}
	v, content, ok, err := versionRecord[SourceContent](c.store, versionKey(id, "", number))
	if err == nil && !ok {
		err = noSourceVersion(id, number)
	}
	return v, content, err
}

// SinkVersion returns a version of a sink with its content.
func (c *Catalog) SinkVersion(sourceID, id string, number int) (Version, SinkContent, error) {
	_, s, err := c.Sink(sourceID, id)
	if err != nil {
		return Version{}, SinkContent{}, err
	}
	if number > s.Version.Number {
		return Version{}, SinkContent{}, noSinkVersion(sourceID, id, number)
	}
	v, content, ok, err := versionRecord[SinkContent](c.store, versionKey(sourceID, id, number))
	if err == nil && !ok {
		err = noSinkVersion(sourceID, id, number)
	}
	return v, content, err
}

func noSourceVersion(id string, number int) *Error {
	return refuse(SourceVersionNotFound, "Version \"%010d\" of source %q not found.", number, id)
}

func noSinkVersion(sourceID, id string, number int) *Error {
	return refuse(SinkVersionNotFound, "Version \"%010d\" of sink %q of source %q not found.", number, id, sourceID)
}

func versionRecord[C any](store Store, key string) (Version, C, bool, error) {
	var r struct {
		Version Version
		Content C
	}
	record, err := store.Get(key)
	if err != nil || record == nil {
		return r.Version, r.Content, false, err
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return r.Version, r.Content, false, fmt.Errorf("record %s: %w", key, err)
	}
	return r.Version, r.Content, true, nil
}

// RollbackSource makes the content of an old version the newest one. Whether the source is disabled, and its secret,
// stay as they are.
func (c *Catalog) RollbackSource(by By, id string, number int) (Task, error) {
	return c.submit("rollback.sourceVersion", id, "", liveSource(id, func(at time.Time, next *tree) (*change, error) {
		_, content, ok, err := versionRecord[SourceContent](c.store, versionKey(id, "", number))
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, noSourceVersion(id, number)
		}
		if content.Type != next.source.Type {
			next.source.setSecret(newSecret(), at, 0)
		}
		next.source.SourceContent = content
		next.source.Version = newVersion(next.source.Version, content, rolledBack(number), at, by)
		ch := &change{next: next, result: fmt.Sprintf("Source %q has been rolled back to version %d.", id, number)}
		ch.keep(next.source)
		return ch, nil
	}))
}

// RollbackSink makes the content of an old version the newest one. Whether the sink is disabled stays as it is.
func (c *Catalog) RollbackSink(by By, sourceID, id string, number int) (Task, error) {
	return c.submit("rollback.sinkVersion", sourceID, id, liveSink(sourceID, id, func(at time.Time, next *tree, s Sink) (*change, error) {
		_, content, ok, err := versionRecord[SinkContent](c.store, versionKey(sourceID, id, number))
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, noSinkVersion(sourceID, id, number)
		}
		s.SinkContent = content
		s.Version = newVersion(s.Version, content, rolledBack(number), at, by)
		next.sinks[id] = s
		ch := &change{next: next, result: fmt.Sprintf("Sink %q has been rolled back to version %d.", id, number)}
		ch.keepSink(sourceID, s)
		return ch, nil
	}))
}

func rolledBack(number int) string { return fmt.Sprintf("Rollback to version \"%d\".", number) }
