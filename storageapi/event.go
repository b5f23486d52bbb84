package storageapi

import (
	"context"
	"encoding/json"
	"iter"
)

// EventCreate is a note in the history of a project.
type EventCreate struct {
	// Component names the author, Message is the text. Both are required.
	Component string `json:"component"`
	Message   string `json:"message"`
	// Type is "info", the default, "success", "warn" or "error".
	Type string `json:"type,omitempty"`
	// ConfigurationID and RunID name the subject of the event.
	ConfigurationID string `json:"configurationId,omitempty"`
	RunID           string `json:"runId,omitempty"`
	// Duration is in seconds.
	Duration float64 `json:"duration,omitempty"`
	// Params and Results are JSON objects. The whole event has at most 200 KB.
	Params  json.RawMessage `json:"params,omitempty"`
	Results json.RawMessage `json:"results,omitempty"`
}

// Event is a note in the history of a project.
type Event struct {
	// ID and UUID are unique.
	ID   ID     `json:"id"`
	UUID string `json:"uuid"`
	// Created is the time.
	Created Time `json:"created"`
	// Component, Message, Type, ConfigurationID, RunID, Params and Results are as in [EventCreate].
	Component       string          `json:"component"`
	Message         string          `json:"message"`
	Type            string          `json:"type"`
	ConfigurationID string          `json:"configurationId"`
	RunID           string          `json:"runId"`
	Params          json.RawMessage `json:"params"`
	Results         json.RawMessage `json:"results"`
	// Duration is in seconds.
	Duration float64 `json:"duration"`
	// Token made the event.
	Token TokenRef `json:"token"`
	// Event, ObjectType and ObjectID are set when the platform itself made the event. They are its name, such as
	// "storage.tableImportDone", and its subject, such as "table" and the id of the table.
	Event      string `json:"event,omitempty"`
	ObjectType string `json:"objectType,omitempty"`
	ObjectID   string `json:"objectId,omitempty"`
}

// CreateEvent adds an event and returns its id.
func (c *Client) CreateEvent(ctx context.Context, in EventCreate) (ID, error) {
	return c.newID(ctx, post(c.scoped("events"), in))
}

// EventQuery selects events. Empty fields select all.
type EventQuery struct {
	// RunID and Component are compared as a whole.
	RunID, Component string
}

// Events lists events, the newest first. The log of a queue job has the job's run id.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	return pages[Event](ctx, c, request{path: c.scoped("events"), query: params("runId", q.RunID, "component", q.Component)})
}

// TableEvents lists what happened to a table, the newest first.
func (c *Client) TableEvents(ctx context.Context, table string) iter.Seq2[Event, error] {
	return pages[Event](ctx, c, request{path: c.scoped("tables", table, "events")})
}
