package platform

import (
	"encoding/json"
	"fmt"
	"iter"
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
		{method: "POST", path: "/events", summary: "Create an event", branch: optionalBranch, run: (*call).createEvent},
		{method: "GET", path: "/events", summary: "List events, the newest first", branch: optionalBranch, run: (*call).listEvents},
		{method: "GET", path: "/tables/{table}/events", summary: "List the events of a table, the newest first", branch: optionalBranch, run: (*call).listTableEvents},
		{method: "GET", path: "/events/{id}", summary: "Event detail", branch: optionalBranch, run: (*call).getEvent},
		{method: "POST", path: "/tickets", summary: "Take a new number", run: (*call).createTicket},
	}
}

// createTicket gives a number that is never given again.
func (c *call) createTicket() (reply, error) {
	id, err := c.s.ids()
	if err != nil {
		return failed(err)
	}
	return created(map[string]string{"id": id})
}

func (c *call) createEvent() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
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
	if err := in.err(eventCode); err != nil {
		return failed(err)
	}
	if err := c.s.addEvent(&e); err != nil {
		return failed(err)
	}
	return created(map[string]string{"id": string(e.ID), "uuid": e.UUID})
}

// addEvent stores an event and gives it its ids.
func (s *Server) addEvent(e *storageapi.Event) error {
	id, err := s.store.ids.take()
	if err != nil {
		return err
	}
	stored := storedEvent{Event: *e}
	err = s.store.update("", func(tx *txn) error { return putEvent(tx, id, &stored) })
	*e = stored.Event
	return err
}

// storedEvent is the record of an event. Branch is that of the table that it is about.
type storedEvent struct {
	storageapi.Event
	Branch string `json:"branch,omitempty"`
}

// keys are those of the record and of all that refers to it.
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

// putEvent stores an event under an id, and what refers to it.
func putEvent(tx *txn, id int64, e *storedEvent) error {
	e.ID, e.UUID = storageapi.ID(strconv.FormatInt(id, 10)), newULID(e.Created.Time)
	for _, object := range []*json.RawMessage{&e.Params, &e.Results} {
		if *object == nil {
			*object = emptyObject()
		}
	}
	keys := e.keys()
	for _, reference := range keys[1:] {
		if err := tx.put(reference, id); err != nil {
			return err
		}
	}
	return tx.put(keys[0], e)
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

// putTableEvent stores the event at the end of a job that worked on a table, in the change that ends the job. id is that of
// the event.
func putTableEvent(tx *txn, id int64, r jobRecord) error {
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
	return putEvent(tx, id, &e)
}

func (c *call) seesEvent(e storageapi.Event) bool {
	return c.token.CanManageBuckets || int64(e.Token.ID) == c.token.ID
}

func (c *call) listEvents() (reply, error) {
	run, component := c.query("runId"), c.query("component")
	if run != "" && !validID(run) {
		return ok([]storageapi.Event{})
	}
	wanted := func(e storageapi.Event) bool { return c.seesEvent(e) && (component == "" || e.Component == component) }
	return c.answerEvents(func(tx *txn) iter.Seq2[storageapi.Event, error] {
		if run == "" {
			return allEvents(tx)
		}
		return indexedEvents(tx, key("event-run", run, ""))
	}, wanted)
}

// listTableEvents answers what happened to a table to all who may read it.
func (c *call) listTableEvents() (reply, error) {
	var id string
	err := c.s.store.view(func(tx *txn) error {
		t, err := c.findTable(tx, c.r.PathValue("table"))
		id = t.ID
		return err
	})
	if err != nil {
		return failed(err)
	}
	return c.answerEvents(func(tx *txn) iter.Seq2[storageapi.Event, error] {
		return indexedEvents(tx, key("event-table", c.branch, id, ""))
	}, func(storageapi.Event) bool { return true })
}

// answerEvents answers a page of those events that are wanted.
func (c *call) answerEvents(events func(tx *txn) iter.Seq2[storageapi.Event, error], wanted func(storageapi.Event) bool) (reply, error) {
	limit, offset, err := c.paging(1000)
	if err != nil {
		return failed(err)
	}
	list := []storageapi.Event{}
	err = c.s.store.view(func(tx *txn) error {
		n := 0
		for e, err := range events(tx) {
			if err != nil {
				return err
			}
			if !wanted(e) {
				continue
			}
			if n++; n <= offset {
				continue
			}
			if list = append(list, e); len(list) == limit {
				break
			}
		}
		return nil
	})
	return answered(list, err)
}

// allEvents yields every event, the newest first.
func allEvents(tx *txn) iter.Seq2[storageapi.Event, error] {
	return func(yield func(storageapi.Event, error) bool) {
		for _, rec := range tx.scan(key("event", ""), true) {
			var e storageapi.Event
			err := rec.decode(&e)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// indexedEvents yields the events of an index, the newest first.
func indexedEvents(tx *txn, prefix string) iter.Seq2[storageapi.Event, error] {
	return func(yield func(storageapi.Event, error) bool) {
		for _, rec := range tx.scan(prefix, true) {
			var id int64
			var e storageapi.Event
			err := rec.decode(&id)
			if err == nil {
				_, err = tx.get(eventKey(id), &e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (c *call) getEvent() (reply, error) {
	var e storageapi.Event
	const code = "storage.events.notFound"
	id, err := c.knownID("id", "Event", code)
	if err != nil {
		return failed(err)
	}
	err = c.s.store.view(func(tx *txn) error {
		found, err := tx.get(eventKey(id), &e)
		if err == nil && (!found || !c.seesEvent(e)) {
			err = refuse(http.StatusNotFound, code, "Event %d not found", id)
		}
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(e)
}
