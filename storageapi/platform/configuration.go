package platform

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// A configuration is stored as a history, with an immutable record for each version, and a head with the latest one. Versions refer
// to content, because most changes leave most of it as it was. The content of the configuration is stored under the version
// that introduced it, a row under its own version number. State is stored apart and belongs to no version.

// configHead is the record of a configuration.
type configHead struct {
	ID      string              `json:"id"`
	Created storageapi.Time     `json:"created"`
	Creator storageapi.TokenRef `json:"creator"`
	Latest  configVersion       `json:"latest"`
}

// configVersion is the record of one version.
type configVersion struct {
	change
	Deleted     bool     `json:"deleted,omitempty"`
	Disabled    bool     `json:"disabled,omitempty"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	SortOrder   []string `json:"sortOrder,omitempty"`
	// Rows are in the order of their ids.
	Rows []rowRef `json:"rows,omitempty"`
	// Content is the version that introduced the content of this one.
	Content int `json:"content"`
}

// change describes one version of a configuration or row.
type change struct {
	Version    int                 `json:"version"`
	Identifier string              `json:"identifier"`
	At         storageapi.Time     `json:"at"`
	By         storageapi.TokenRef `json:"by"`
	Text       string              `json:"text"`
}

type rowRef struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
}

// rowHead counts the versions of a row. It outlives the row, so that version numbers are never reused.
type rowHead struct {
	Version int                 `json:"version"`
	Created storageapi.Time     `json:"created"`
	Creator storageapi.TokenRef `json:"creator"`
}

// rowVersion is the record of one version of a row.
type rowVersion struct {
	change
	Disabled    bool            `json:"disabled,omitempty"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Content     json.RawMessage `json:"content"`
}

// branchedKinds are the kinds of keys whose first element is a branch.
var branchedKinds = []string{
	"config", "config-version", "config-content", "config-state", "row", "row-version", "row-state", "bucket", "table", "part", "export", "file-tag", "event-table",
}

// configID names a configuration in a branch.
type configID struct{ branch, component, config string }

func (id configID) lock() string { return id.key("config") }

func (id configID) key(kind string, more ...string) string {
	return key(kind, append([]string{id.branch, id.component, id.config}, more...)...)
}

func (id configID) version(v int) string  { return id.key("config-version", number(int64(v))) }
func (id configID) content(v int) string  { return id.key("config-content", number(int64(v))) }
func (id configID) row(row string) string { return id.key("row", row) }
func (id configID) rowVersion(row string, v int) string {
	return id.key("row-version", row, number(int64(v)))
}
func (id configID) state() string              { return id.key("config-state") }
func (id configID) rowState(row string) string { return id.key("row-state", row) }
func (id configID) metadataOwner() string {
	return "config" + sep + id.branch + sep + id.component + sep + id.config
}

// configuration is one configuration inside of a transaction.
type configuration struct {
	configID
	tx   *txn
	head configHead
	by   storageapi.TokenRef
}

func notFound(id configID) *apiError {
	return refuse(http.StatusNotFound, "storage.configuration.notFound", "Configuration %q of component %q not found", id.config, id.component)
}

// openConfiguration reads a configuration. One in the trash is not found unless deleted is wanted.
func openConfiguration(tx *txn, id configID, by storageapi.TokenRef, deleted bool) (*configuration, error) {
	c := &configuration{configID: id, tx: tx, by: by}
	if !tx.get(id.key("config"), &c.head) || c.head.Latest.Deleted != deleted {
		return nil, notFound(id)
	}
	return c, nil
}

// newChange describes a change that is made now.
func newChange(version int, by storageapi.TokenRef, text, fallback string) change {
	text = cmp.Or(text, fallback)
	at := now()
	return change{Version: version, Identifier: newULID(at.Time), At: at, By: by, Text: text}
}

// commit makes next the latest version, with the next number. A nil content keeps next.Content.
func (c *configuration) commit(next configVersion, content json.RawMessage, text, fallback string) {
	next.change = newChange(c.head.Latest.Version+1, c.by, text, fallback)
	if content != nil {
		next.Content = next.Version
		c.tx.put(c.content(next.Content), content)
	}
	c.tx.put(c.version(next.Version), next)
	if c.head.Created.IsZero() {
		c.head.ID, c.head.Created, c.head.Creator = c.config, next.At, c.by
	}
	c.head.Latest = next
	c.tx.put(c.key("config"), c.head)
}

// putRow makes a new version of a row and returns a reference to it. Version numbers continue from an earlier row
// with the same id.
func (c *configuration) putRow(id string, row rowVersion, text, fallback string) rowRef {
	var head rowHead
	c.tx.get(c.row(id), &head)
	head.Version++
	row.change = newChange(head.Version, c.by, text, fallback)
	if head.Created.IsZero() {
		head.Created, head.Creator = row.At, c.by
	}
	c.tx.put(c.row(id), head)
	c.tx.put(c.rowVersion(id, head.Version), row)
	return rowRef{id, head.Version}
}

// readRow reads the version of a row that a reference names.
func (c *configuration) readRow(ref rowRef) rowVersion {
	return named[rowVersion](c.tx, c.rowVersion(ref.ID, ref.Version), "configuration %s/%s: version %d of row %s is missing", c.component, c.config, ref.Version, ref.ID)
}

func (c *configuration) readContent(v configVersion) json.RawMessage {
	return named[json.RawMessage](c.tx, c.content(v.Content), "configuration %s/%s: content of version %d is missing", c.component, c.config, v.Version)
}

func (c *configuration) readVersion(v int) (configVersion, error) {
	return find[configVersion](c.tx, c.version(v), refuse(http.StatusNotFound, "storage.configuration.version.notFound", "Version %d of configuration %q not found", v, c.config))
}

// readState reads the state under a key. The default is {}.
func readState(tx *txn, key string) json.RawMessage {
	var state json.RawMessage
	if !tx.get(key, &state) {
		return emptyObject()
	}
	return state
}

// find returns the place of a row in the version, or -1.
func (v configVersion) find(row string) int {
	return slices.IndexFunc(v.Rows, func(r rowRef) bool { return r.ID == row })
}

// withRow returns the rows with one added or replaced.
func (v configVersion) withRow(ref rowRef) []rowRef {
	rows := slices.Clone(v.Rows)
	at, found := slices.BinarySearchFunc(rows, ref, func(a, b rowRef) int { return strings.Compare(a.ID, b.ID) })
	if found {
		rows[at] = ref
		return rows
	}
	return slices.Insert(rows, at, ref)
}

func (v configVersion) withoutRow(row string) configVersion {
	v.Rows = slices.DeleteFunc(slices.Clone(v.Rows), func(r rowRef) bool { return r.ID == row })
	v.SortOrder = slices.DeleteFunc(slices.Clone(v.SortOrder), func(id string) bool { return id == row })
	return v
}

// ordered returns the rows in the order of their execution, which is rowsSortOrder, or by id.
func (v configVersion) ordered() []rowRef {
	if len(v.SortOrder) == 0 {
		return v.Rows
	}
	rows := slices.Clone(v.Rows)
	place := func(r rowRef) int {
		if at := slices.Index(v.SortOrder, r.ID); at >= 0 {
			return at
		}
		return len(v.SortOrder)
	}
	slices.SortStableFunc(rows, func(a, b rowRef) int { return place(a) - place(b) })
	return rows
}

// include selects the parts of a configuration in a response.
type include struct{ content, rows, state bool }

var includeAll = include{content: true, rows: true, state: true}

// changeAnswer is the response to a change. It has no member rows, not even an empty one, because clients decode the response into the
// configuration that they sent, and create its rows afterwards.
func (c *configuration) changeAnswer() storageapi.Configuration {
	return c.response(include{content: true, state: true})
}

// response describes the latest version.
func (c *configuration) response(with include) storageapi.Configuration {
	v := c.head.Latest
	out := storageapi.Configuration{
		ID: c.head.ID, Name: v.Name, Description: v.Description, Created: c.head.Created, CreatorToken: c.head.Creator,
		Version: v.Version, ChangeDescription: v.Text, IsDeleted: v.Deleted, IsDisabled: v.Disabled, RowsSortOrder: notNil(v.SortOrder),
		CurrentVersion: &storageapi.ConfigurationChange{
			Created: v.At, CreatorToken: v.By, ChangeDescription: v.Text, VersionIdentifier: v.Identifier,
		},
	}
	if with.content {
		out.Configuration = c.readContent(v)
	}
	if with.state {
		out.State = readState(c.tx, c.state())
	}
	if with.rows {
		out.Rows = c.answerRows(v, with)
	}
	return out
}

func (c *configuration) answerRows(v configVersion, with include) []storageapi.ConfigurationRow {
	rows := []storageapi.ConfigurationRow{}
	for _, ref := range v.ordered() {
		rows = append(rows, c.answerRow(ref, with))
	}
	return rows
}

func (c *configuration) answerRow(ref rowRef, with include) storageapi.ConfigurationRow {
	row := c.readRow(ref)
	var head rowHead
	c.tx.get(c.row(ref.ID), &head)
	out := storageapi.ConfigurationRow{
		ID: ref.ID, Name: row.Name, Description: row.Description, IsDisabled: row.Disabled, Version: row.Version, Created: head.Created,
		CreatorToken: head.Creator, ChangeDescription: row.Text, VersionIdentifier: row.Identifier,
	}
	if with.content {
		out.Configuration = row.Content
	}
	if with.state {
		out.State = readState(c.tx, c.rowState(ref.ID))
	}
	return out
}
