package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// api is a client of the Stream API. Each request goes to any node.
type api struct {
	nodes  nodes
	client *http.Client

	mu  sync.Mutex
	rng *rand.Rand
}

func newAPI(ns nodes, seed uint64) *api {
	return &api{nodes: ns, client: &http.Client{Timeout: 20 * time.Second}, rng: rand.New(rand.NewPCG(seed, 1<<40))}
}

const (
	sourcesPath = "/v1/branches/default/sources"
	sourcePath  = sourcesPath + "/" + sourceID
)

func sinkPath(sink int) string { return sourcePath + "/sinks/" + sinkIDs[sink] }

var errNoNode = errors.New("no node is ready")

// refused is a response that is no success.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.text) }

func statusOf(err error) int {
	if r, ok := errors.AsType[*refused](err); ok {
		return r.status
	}
	return 0
}

// ask makes one request. into may be nil.
func (a *api) ask(ctx context.Context, method, path string, body []byte, into any) error {
	urls := a.nodes.urls()
	if len(urls) == 0 {
		return errNoNode
	}
	a.mu.Lock()
	at := urls[a.rng.IntN(len(urls))]
	a.mu.Unlock()
	return a.askAt(ctx, at, method, path, body, into)
}

func (a *api) askAt(ctx context.Context, at, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, at+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-StorageApi-Token", token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %w", method, path, &refused{resp.StatusCode, string(text)})
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// insist repeats a request while its outcome is unknown or no node can serve it. unsure reports whether an attempt before the last may have been
// executed.
func (a *api) insist(ctx context.Context, method, path string, body []byte, into any) (unsure bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		err := a.ask(ctx, method, path, body, into)
		if status := statusOf(err); err == nil || status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			return unsure, err
		}
		unsure = unsure || !errors.Is(err, errNoNode)
		if ctxio.Sleep(ctx, 500*time.Millisecond) != nil {
			return unsure, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// task is the response about work in progress.
type task struct {
	TaskID, Status, Error string
	IsFinished            bool
	Rejects               *struct{ Replayed, Rejected, Gone, Discarded int }
}

// change starts a task, and returns when it has succeeded. While another change runs, and where a task fails, it tries again.
func (a *api) change(ctx context.Context, method, path string, body any) (done task, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return done, err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		var t task
		_, err := a.insist(ctx, method, path, text, &t)
		for err == nil && !t.IsFinished {
			if err = ctxio.Sleep(ctx, 100*time.Millisecond); err == nil {
				_, err = a.insist(ctx, http.MethodGet, "/v1/tasks/"+t.TaskID, nil, &t)
			}
		}
		if err == nil && t.Status == "success" {
			return t, nil
		}
		if err == nil {
			err = errors.New(t.Error)
		}
		if status := statusOf(err); status >= 400 && status < 500 && status != http.StatusConflict && status != http.StatusNotFound {
			return t, err
		}
		if ctxio.Sleep(ctx, time.Second) != nil {
			return t, fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
}

// record is a record of a quarantine without its content.
type record struct {
	RecordID, Reason, Column string
	At                       time.Time
	Edited                   bool
	Revision                 int
	RefusedRow               *struct{ FileID string }
}

// list returns the records of a quarantine, at most limit. It fails while a part of the cluster does not respond.
func (a *api) list(ctx context.Context, sink, limit int) (list []record, err error) {
	for after := ""; ; {
		var page struct {
			Records []record
			Page    struct{ NextID string }
			Missing []struct{ Node, Instance, Reason string }
		}
		if _, err := a.insist(ctx, http.MethodGet, sinkPath(sink)+"/quarantine?limit=100&afterId="+url.QueryEscape(after), nil, &page); err != nil {
			return nil, err
		}
		if len(page.Missing) > 0 {
			return nil, fmt.Errorf("the list of the quarantine of %s lacks %v", sinkIDs[sink], page.Missing)
		}
		list = append(list, page.Records...)
		if after = page.Page.NextID; after == "" || len(list) >= limit {
			return list[:min(limit, len(list))], nil
		}
	}
}

// content is a record of a quarantine, and the id of its event.
type content struct {
	Record record
	Body   string
}

func (a *api) get(ctx context.Context, sink int, id string) (c content, n uint64, attempt int, err error) {
	if _, err = a.insist(ctx, http.MethodGet, recordPath(sink, id), nil, &c); err != nil {
		return c, 0, 0, err
	}
	var event struct{ ID string }
	if err = json.Unmarshal([]byte(c.Body), &event); err == nil {
		n, attempt, err = parseID(event.ID)
	}
	return c, n, attempt, err
}

func recordPath(sink int, id string) string { return sinkPath(sink) + "/quarantine/" + id }

// statistics are the counters of a sink over all nodes.
type statistics struct {
	Levels     struct{ Local, Staging, Target struct{ RecordsCount int64 } }
	Lost       struct{ Expired, Damaged, Discarded int64 }
	Quarantine struct{ Records, Added, Replayed, Discarded, Expired, Lost int64 }
	Missing    []struct{ Node, Instance, Reason string }
}

func (s statistics) waiting() int64 {
	return s.Levels.Local.RecordsCount + s.Levels.Staging.RecordsCount
}

func (a *api) statistics(ctx context.Context, sink int) (s statistics, err error) {
	return s, a.ask(ctx, http.MethodGet, sinkPath(sink)+"/statistics/total", nil, &s)
}

// define makes the source, and returns the path that events are sent to.
func (a *api) define(ctx context.Context) (path string, err error) {
	type object map[string]any
	var list []object
	for sink := range sinks {
		list = append(list, object{
			"sinkId": sinkIDs[sink], "type": "table", "name": sinkIDs[sink], "onReject": "quarantine",
			"table": object{"type": tableType, "tableId": tableID(sink), "extend": true, "mapping": object{"columns": columns(sink, 0)}},
		})
	}
	if _, err := a.change(ctx, http.MethodPost, sourcesPath, object{"sourceId": sourceID, "type": "http", "name": sourceID, "sinks": list}); err != nil {
		return "", err
	}
	const prefix = "storage.level."
	if _, err := a.change(ctx, http.MethodPatch, sourcePath+"/settings", object{"settings": []object{
		{"key": prefix + "staging.upload.trigger.interval", "value": "5s"},
		{"key": prefix + "target.import.trigger.interval", "value": "30s"},
		{"key": prefix + "target.import.trigger.count", "value": 2000},
	}}); err != nil {
		return "", err
	}
	var source struct{ HTTP struct{ URL string } }
	if _, err := a.insist(ctx, http.MethodGet, sourcePath, nil, &source); err != nil {
		return "", err
	}
	u, err := url.Parse(source.HTTP.URL)
	if err != nil {
		return "", err
	}
	return u.Path, nil
}

// allHave reports whether all nodes are ready and the engine of each maps the events of both sinks to a column. A node serves requests for
// a definition as soon as its catalog has it, which may be long before its engine.
func (a *api) allHave(ctx context.Context, column string) bool {
	urls := a.nodes.urls()
	if len(urls) < len(a.nodes) {
		return false
	}
	for _, at := range urls {
		var have [sinks][]string
		if err := a.askAt(ctx, at, http.MethodGet, enginePath, nil, &have); err != nil {
			return false
		}
		for _, columns := range have {
			if !slices.Contains(columns, column) {
				return false
			}
		}
	}
	return true
}

// extend lets the table of a sink grow to as many days.
func (a *api) extend(ctx context.Context, sink, days int) error {
	type object map[string]any
	_, err := a.change(ctx, http.MethodPatch, sinkPath(sink), object{"table": object{"mapping": object{"columns": columns(sink, days)}}})
	return err
}
