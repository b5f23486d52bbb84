package platform

import (
	"encoding/json"
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
	e.ID, e.UUID = storageapi.ID(strconv.FormatInt(id, 10)), newULID(e.Created.Time)
	for _, object := range []*json.RawMessage{&e.Params, &e.Results} {
		if *object == nil {
			*object = emptyObject()
		}
	}
	return s.store.update("", func(tx *txn) error {
		if e.RunID != "" {
			if err := tx.put(key("event-run", e.RunID, number(id)), id); err != nil {
				return err
			}
		}
		return tx.put(eventKey(id), e)
	})
}

func (c *call) seesEvent(e storageapi.Event) bool {
	return c.token.CanManageBuckets || int64(e.Token.ID) == c.token.ID
}

func (c *call) listEvents() (reply, error) {
	limit, offset, err := c.paging(1000)
	if err != nil {
		return failed(err)
	}
	run, component := c.query("runId"), c.query("component")
	list := []storageapi.Event{}
	err = c.s.store.view(func(tx *txn) error {
		n := 0
		add := func(e storageapi.Event) bool {
			if !c.seesEvent(e) || component != "" && e.Component != component {
				return true
			}
			if n++; n > offset {
				list = append(list, e)
			}
			return len(list) < limit
		}
		if run == "" {
			for _, rec := range tx.scan(key("event", ""), true) {
				var e storageapi.Event
				if err := rec.decode(&e); err != nil || !add(e) {
					return err
				}
			}
			return nil
		}
		if !validID(run) {
			return nil
		}
		for _, rec := range tx.scan(key("event-run", run, ""), true) {
			var id int64
			var e storageapi.Event
			if err := rec.decode(&id); err != nil {
				return err
			}
			if _, err := tx.get(eventKey(id), &e); err != nil || !add(e) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
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
