package storageapi

import (
	"encoding/json"
)

// Configuration is an instance of a component in a project.
type Configuration struct {
	// ID is unique for the component and the branch. It is text even if it looks like a number.
	ID string `json:"id"`
	// Name and Description are for people.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Created and CreatorToken describe the first version.
	Created      Time     `json:"created"`
	CreatorToken TokenRef `json:"creatorToken"`
	// Version grows by one with each change of the configuration or of one of its rows.
	Version int `json:"version"`
	// ChangeDescription describes the last change of the configuration or of one of its rows.
	ChangeDescription string `json:"changeDescription"`
	// IsDeleted says that the configuration is in the trash, IsDisabled that it is not run.
	IsDeleted  bool `json:"isDeleted"`
	IsDisabled bool `json:"isDisabled"`
	// Configuration is the content, a JSON object whose nodes are "storage", "parameters", "processors", "authorization"
	// and whatever else the component knows.
	Configuration json.RawMessage `json:"configuration"`
	// RowsSortOrder are the ids of the rows in the order of their execution. Empty means the order of the ids.
	RowsSortOrder []string `json:"rowsSortOrder"`
	// Rows are in the order of their execution. Responses to a change do not have them: Rows is nil there.
	Rows []ConfigurationRow `json:"rows,omitzero"`
	// State is a JSON object that the component has stored for its next run. It belongs to no version.
	State json.RawMessage `json:"state"`
	// CurrentVersion describes the last change.
	CurrentVersion *ConfigurationChange `json:"currentVersion,omitempty"`
}

// ConfigurationChange describes one change of a configuration.
type ConfigurationChange struct {
	// Created and CreatorToken say when and by whom.
	Created      Time     `json:"created"`
	CreatorToken TokenRef `json:"creatorToken"`
	// ChangeDescription says what.
	ChangeDescription string `json:"changeDescription"`
	// VersionIdentifier is unique for each change.
	VersionIdentifier string `json:"versionIdentifier,omitempty"`
}

// ConfigurationRow is one iteration of a configuration. Its content is laid over the configuration's.
type ConfigurationRow struct {
	// ID is unique in the configuration.
	ID string `json:"id"`
	// Name and Description are for people.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Configuration is the content, with nodes as in a configuration.
	Configuration json.RawMessage `json:"configuration"`
	// IsDisabled says that the row is skipped.
	IsDisabled bool `json:"isDisabled"`
	// Version counts the changes of this row alone.
	Version int `json:"version"`
	// Created and CreatorToken describe the first version.
	Created      Time     `json:"created"`
	CreatorToken TokenRef `json:"creatorToken"`
	// ChangeDescription describes the last change of the row.
	ChangeDescription string `json:"changeDescription"`
	// State is a JSON object that the component has stored for the next run of this row. It belongs to no version.
	State json.RawMessage `json:"state"`
	// VersionIdentifier is unique for each change.
	VersionIdentifier string `json:"versionIdentifier,omitempty"`
}

// ConfigurationVersion is an entry in the history of a configuration.
type ConfigurationVersion struct {
	// Version is the argument of [Client.RollbackConfiguration] and [Client.CopyConfiguration].
	Version int `json:"version"`
	// Created and CreatorToken say when and by whom, ChangeDescription says what.
	Created           Time     `json:"created"`
	CreatorToken      TokenRef `json:"creatorToken"`
	ChangeDescription string   `json:"changeDescription"`
	// IsDeleted says that the change put the configuration into the trash.
	IsDeleted bool `json:"isDeleted"`
	// Name and Description as of this version.
	Name        string `json:"name,omitempty"`
	Description string `json:"description"`
	// VersionIdentifier is unique for each change.
	VersionIdentifier string `json:"versionIdentifier,omitempty"`
	// Configuration is given in the detail of a version, and in a list that includes it.
	Configuration json.RawMessage `json:"configuration,omitempty"`
	// The rest is given in the detail of a version alone.
	RowsSortOrder []string           `json:"rowsSortOrder,omitempty"`
	Rows          []ConfigurationRow `json:"rows,omitempty"`
	IsDisabled    bool               `json:"isDisabled,omitempty"`
}

// RowVersion is an entry in the history of a row.
type RowVersion struct {
	// Version is the argument of [Client.RollbackRow] and [Client.CopyRow].
	Version int `json:"version"`
	// Created and CreatorToken say when and by whom, ChangeDescription says what.
	Created           Time     `json:"created"`
	CreatorToken      TokenRef `json:"creatorToken"`
	ChangeDescription string   `json:"changeDescription"`
	// Name, Description and IsDisabled as of this version.
	Name        string `json:"name"`
	Description string `json:"description"`
	IsDisabled  bool   `json:"isDisabled"`
	// VersionIdentifier is unique for each change.
	VersionIdentifier string `json:"versionIdentifier,omitempty"`
	// Configuration is given in the detail of a version, and in a list that includes it.
	Configuration json.RawMessage `json:"configuration,omitempty"`
}

// ConfigurationCreate describes a new configuration.
type ConfigurationCreate struct {
	// ConfigurationID is the id, "" to have one made. A chosen id lets the call be repeated safely.
	ConfigurationID string `json:"configurationId,omitempty"`
	// Name is required.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Configuration and State are JSON objects, where nil means an empty one.
	Configuration json.RawMessage `json:"configuration,omitempty"`
	State         json.RawMessage `json:"state,omitempty"`
	// IsDisabled keeps the configuration from being run.
	IsDisabled bool `json:"isDisabled,omitempty"`
	// ChangeDescription describes the change. The server has a default.
	ChangeDescription string `json:"changeDescription,omitempty"`
}

// ConfigurationUpdate says what to change. A nil field stays as it is. Any other field replaces the old value as a whole. A
// part of Configuration cannot be changed alone.
type ConfigurationUpdate struct {
	// Name and Description are for people.
	Name        *string `json:"name,omitempty"`
	Description *string `json:"description,omitempty"`
	// Configuration is the content itself, not wrapped into another "configuration" node.
	Configuration json.RawMessage `json:"configuration,omitempty"`
	// State alone is replaced without a new version. {} makes the next run start afresh.
	State json.RawMessage `json:"state,omitempty"`
	// IsDisabled keeps the configuration from being run.
	IsDisabled *bool `json:"isDisabled,omitempty"`
	// RowsSortOrder must have the ids of all rows. An empty list that is not nil removes the order.
	RowsSortOrder []string `json:"rowsSortOrder,omitzero"`
	// ChangeDescription describes the change. The server has a default.
	ChangeDescription string `json:"changeDescription,omitempty"`
}

// RowCreate describes a new row.
type RowCreate struct {
	// RowID is the id, "" to have one made. A chosen id lets the call be repeated safely.
	RowID string `json:"rowId,omitempty"`
	// Name and Description are for people.
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	// Configuration and State are JSON objects, where nil means an empty one.
	Configuration json.RawMessage `json:"configuration,omitempty"`
	State         json.RawMessage `json:"state,omitempty"`
	// IsDisabled makes runs skip the row.
	IsDisabled bool `json:"isDisabled,omitempty"`
	// ChangeDescription describes the change. The server has a default.
	ChangeDescription string `json:"changeDescription,omitempty"`
}

// RowUpdate says what to change in a row, with the rules of [ConfigurationUpdate].
type RowUpdate struct {
	// Name and Description are for people.
	Name        *string `json:"name,omitempty"`
	Description *string `json:"description,omitempty"`
	// Configuration and State are JSON objects.
	Configuration json.RawMessage `json:"configuration,omitempty"`
	State         json.RawMessage `json:"state,omitempty"`
	// IsDisabled makes runs skip the row.
	IsDisabled *bool `json:"isDisabled,omitempty"`
	// ChangeDescription describes the change. The server has a default.
	ChangeDescription string `json:"changeDescription,omitempty"`
}

// Metadata is a note on a configuration, a bucket, a table or a column.
type Metadata struct {
	// ID is unique in the project.
	ID ID `json:"id"`
	// Key is unique for each Provider.
	Key      string `json:"key"`
	Value    string `json:"value"`
	Provider string `json:"provider"`
	// Timestamp is the time of the last change.
	Timestamp Time `json:"timestamp"`
}

// KeyValue is a note before it has an id.
type KeyValue struct {
	// Key names the note.
	Key string `json:"key"`
	// Value is the text of the note.
	Value string `json:"value"`
}
