package platform

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/forebay/forebay/storageapi"
)

const (
	eventCode = "storage.events.validation"
	maxEvent  = 200 << 10
)

func (s *Server) eventRoutes() []route {
	return []route{
		{method: "POST", path: "/events", summary: "Create an event", branch: optionalBranch, body: "component! message! type configurationId runId params results duration *", status: http.StatusCreated, result: eventIDShape{}, run: (*request).createEvent},
		{method: "GET", path: "/events", summary: "List events, the newest first", branch: optionalBranch, query: pageQuery + " runId component", result: []storageapi.Event{}, read: (*request).listEvents},
		{method: "GET", path: "/tables/{table}/events", summary: "List the events of a table, the newest first", branch: optionalBranch, query: pageQuery, result: []storageapi.Event{}, read: (*request).listTableEvents},
		{method: "GET", path: "/events/{id}", summary: "Event detail", branch: optionalBranch, result: storageapi.Event{}, read: (*request).getEvent},
		{method: "POST", path: "/tickets", summary: "Take a new number", status: http.StatusCreated, result: idShape{}, run: (*request).createTicket},
	}
}

// createTicket returns a number that no other call gets.
func (c *request) createTicket() (any, error) {
	id, err := c.s.store.ids.takeText()
	return map[string]string{"id": id}, err
}

func (c *request) createEvent() (any, error) {
	in := c.input(eventCode)
	e := storageapi.Event{
		Created: now(), Component: in.required("component"), Message: in.required("message"), Type: in.textOr("type", "info"),
		ConfigurationID: in.textOr("configurationId", ""), RunID: in.textOr("runId", ""),
		Params: in.content("params", ""), Results: in.content("results", ""), Token: c.creator(),
	}
	if seconds := in.text("duration"); seconds != nil && *seconds != "" {
		var err error
		if e.Duration, err = strconv.ParseFloat(*seconds, 64); err != nil || !(e.Duration >= 0 && e.Duration <= math.MaxInt32) { // NaN is neither
			in.fail("duration", "want a number of seconds")
			e.Duration = 0
		}
	}
	switch e.Type {
	case "info", "success", "warn", "error":
	default:
		in.fail("type", "want info, success, warn or error")
	}
	if e.RunID == "" && c.runID() != nil {
		e.RunID = *c.runID()
	}
	if e.RunID != "" && !validID(e.RunID) {
		in.fail("runId", "want at most 255 characters without \"/\" and control characters")
	}
	if len(e.Message)+len(e.Params)+len(e.Results) > maxEvent {
		in.fail("message", "the event has more than %d bytes", maxEvent)
	}
	if err := c.fault(); err != nil {
		return nil, err
	}
	err := c.s.addEvent(&e)
	return map[string]string{"id": string(e.ID), "uuid": e.UUID}, err
}

// addEvent stores an event under new ids.
func (s *Server) addEvent(e *storageapi.Event) error {
	id, err := s.store.ids.take()
	if err != nil {
		return err
	}
	stored := storedEvent{Event: *e}
	err = s.store.update("", func(tx *txn) error { putEvent(tx, id, &stored); return nil })
	*e = stored.Event
	return err
}

// storedEvent is the record of an event. Branch is set for an event about a table.
type storedEvent struct {
	storageapi.Event
	Branch string `json:"branch,omitempty"`
}

// keys returns the key of the record, then the keys of its index entries.
func (e storedEvent) keys() []string {
	id, _ := strconv.ParseInt(string(e.ID), 10, 64) // it was made of a number
	list := []string{eventKey(id)}
	if e.RunID != "" {
		list = append(list, runEventKey(e.RunID, id))
	}
	if e.Branch != "" {
		list = append(list, tableEventKey(e.Branch, e.ObjectID, id))
	}
	return list
}

// putEvent stores an event under an id, with its index entries.
func putEvent(tx *txn, id int64, e *storedEvent) {
	e.ID, e.UUID = storageapi.ID(strconv.FormatInt(id, 10)), newULID(e.Created.Time)
	for _, object := range []*json.RawMessage{&e.Params, &e.Results} {
		if *object == nil {
			*object = emptyObject()
		}
	}
	keys := e.keys()
	for _, reference := range keys[1:] {
		tx.put(reference, id)
	}
	tx.put(keys[0], e)
}

func runEventKey(run string, id int64) string { return key("event-run", run, number(id)) }

func tableEventKey(branch, table string, id int64) string {
	return key("event-table", branch, table, number(id))
}

// tableEvents are the names of the events at the end of the operations on a table.
var tableEvents = map[string]string{
	"tableColumnAdd":        "storage.tableColumnAdded",
	"tableColumnDelete":     "storage.tableColumnDeleted",
	"tableCreate":           "storage.tableCreated",
	"tableDefinitionCreate": "storage.tableCreated",
	"tableDrop":             "storage.tableDeleted",
	"tableExport":           "storage.tableExported",
	"tableImport":           "storage.tableImportDone",
	"tablePrimaryKeyAdd":    "storage.tablePrimaryKeyAdded",
	"tablePrimaryKeyDelete": "storage.tablePrimaryKeyDeleted",
	"tableRowsDelete":       "storage.tableRowsDeleted",
	"tableUpdate":           "storage.tableUpdated",
}

// putTableEvent stores the event that a job on a table has ended, in the same transaction as the end. id is the new event's.
func putTableEvent(tx *txn, id int64, r jobRecord) {
	e := storedEvent{Branch: r.Branch, Event: storageapi.Event{
		Created: r.Ended, Component: "storage", Event: tableEvents[r.Operation], ObjectType: "table", ObjectID: *r.Table, Token: r.Creator,
		Type: "success", Message: fmt.Sprintf("Job %d: %s of table %s", r.ID, r.Operation, *r.Table), Results: r.Results,
		Duration: r.Ended.Sub(r.Created.Time).Seconds(),
	}}
	if r.RunID != nil && validID(*r.RunID) {
		e.RunID = *r.RunID
	}
	if r.Failure != nil {
		e.Event.Event, e.Type, e.Message = "storage."+r.Operation+"Error", "error", e.Message+" failed: "+r.Failure.Message
	}
	if kindOf(e.Results) != '{' || len(e.Results) > maxEvent {
		e.Results = nil
	}
	putEvent(tx, id, &e)
}

func (c *request) seesEvent(e storageapi.Event) bool {
	return c.token.CanManageBuckets || int64(e.Token.ID) == c.token.ID
}

func (c *request) listEvents(tx *txn) (any, error) {
	p, run, component := c.page(1000), c.query("runId"), c.query("component")
	events := each[storageapi.Event](tx, key("event", ""), true)
	switch {
	case run != "" && !validID(run):
		return []storageapi.Event{}, nil
	case run != "":
		events = indexed[storageapi.Event](tx, key("event-run", run, ""), true, eventKey)
	}
	return collect(p, events, func(e storageapi.Event) bool {
		return c.seesEvent(e) && (component == "" || e.Component == component)
	}, asItIs), nil
}

// listTableEvents lists the events of a table for every token that may read it.
func (c *request) listTableEvents(tx *txn) (any, error) {
	p := c.page(1000)
	t, err := c.pathTable(tx, false)
	if err != nil {
		return nil, err
	}
	events := indexed[storageapi.Event](tx, key("event-table", c.branch, t.ID, ""), true, eventKey)
	return collect(p, events, anyRecord, asItIs), nil
}

func asItIs[V any](v V) V { return v }

func (c *request) getEvent(tx *txn) (any, error) {
	const code = "storage.events.notFound"
	e, err := pathRecord[storageapi.Event](c, tx, "Event", code, eventKey)
	if err == nil && !c.seesEvent(e) {
		err = refuse(http.StatusNotFound, code, "Event %s not found", e.ID)
	}
	return e, err
}
