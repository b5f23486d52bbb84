package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/mapping"
)

const quarantinePath = sinkPath + "/quarantine"

// ask sends a request of the Stream API with a body to a node. The response must have a status.
func ask[T any](t testing.TB, n *cluster.Node, want int, method, path, body string) (response T, err error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("X-StorageApi-Token", "token")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, r)
	if w.Code != want {
		return response, fmt.Errorf("%s %s: status %d, want %d: %s", method, path, w.Code, want, w.Body)
	}
	if w.Body.Len() > 0 {
		err = json.Unmarshal(w.Body.Bytes(), &response)
	}
	return response, err
}

type quarantined struct {
	Records []struct{ RecordID, Column string }
	Page    struct {
		TotalCount int
		NextID     string
	}
	Missing []struct{ Node, Instance, Reason string }
}

// rejectedIDs lists a quarantine through a node, one record a page, and returns the ids of the records by what their bodies say. It fails
// while an instance is missing.
func rejectedIDs(t testing.TB, n *cluster.Node) (map[string]string, error) {
	t.Helper()
	ids := map[string]string{}
	for after, pages := "", 0; ; pages++ {
		page, err := ask[quarantined](t, n, http.StatusOK, http.MethodGet, quarantinePath+"?limit=1&afterId="+url.QueryEscape(after), "")
		if err != nil {
			return nil, err
		}
		if len(page.Missing) > 0 || len(page.Records) > 1 || pages > 100 {
			return nil, fmt.Errorf("page %d is %+v", pages, page)
		}
		for _, r := range page.Records {
			content, err := ask[struct{ Body string }](t, n, http.StatusOK, http.MethodGet, quarantinePath+"/"+r.RecordID, "")
			if err != nil {
				return nil, err
			}
			if known, ok := ids[content.Body]; ok {
				return nil, fmt.Errorf("the records %s and %s have the body %s", known, r.RecordID, content.Body)
			}
			ids[content.Body] = r.RecordID
		}
		if after = page.Page.NextID; after == "" {
			if page.Page.TotalCount != len(ids) {
				return nil, fmt.Errorf("the list has %d records, and counts %d", len(ids), page.Page.TotalCount)
			}
			return ids, nil
		}
	}
}

// awaitRejected waits until a node lists the records with some bodies and no others, and returns their ids.
func awaitRejected(t testing.TB, n *cluster.Node, bodies ...string) (ids map[string]string) {
	t.Helper()
	if err := clustertest.Eventually(func() (err error) {
		if ids, err = rejectedIDs(t, n); err != nil {
			return err
		}
		if len(ids) != len(bodies) || slices.ContainsFunc(bodies, func(body string) bool { return ids[body] == "" }) {
			return fmt.Errorf("the quarantine has %v, want %q", ids, bodies)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return ids
}

// defineQuarantine defines a source whose sink keeps rejected records.
func (c *nodes) defineQuarantine() {
	c.t.Helper()
	task, err := c.list[0].Catalog().CreateSource(catalog.By{Type: "system"}, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{
		Name: "events", TableID: tableID, OnReject: forebay.Quarantine,
		Columns: mapping.Columns{mapping.Path("id", "id", mapping.DataType("int64"), mapping.Required())},
	}}})
	if err == nil {
		task, err = task.Wait(c.t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		c.t.Fatal(err, task.Failure)
	}
}

// Records that a node has rejected are listed, read, edited, replayed and discarded through another node, as long as the first node lives and when
// a third one has taken over. Each becomes one row.
func TestQuarantineThroughAnyNode(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.defineQuarantine()
	for _, n := range c.list {
		c.awaitSource(n)
	}
	body := func(id string) string { return `{"id":"` + id + `"}` }
	send := func(node int, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if status := c.post(node, id); status != http.StatusOK {
				t.Fatalf("event %s: status %d", id, status)
			}
		}
	}
	// must makes a request. A busy node returns 503, and may still have done the request. Then the next response says so.
	must := func(node int, method, path, body string) {
		t.Helper()
		busy := false
		if err := clustertest.Eventually(func() error {
			_, err := ask[any](t, c.list[node], http.StatusOK, method, path, body)
			if busy && err != nil && (strings.Contains(err.Error(), "status 404") || strings.Contains(err.Error(), "status 409")) {
				return nil
			}
			busy = err != nil
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	// edit replaces the body of a record as it is now.
	edit := func(node int, id, body string) {
		t.Helper()
		path := quarantinePath + "/" + id
		var got struct{ Record struct{ Revision int } }
		if err := clustertest.Eventually(func() (err error) {
			got, err = ask[struct{ Record struct{ Revision int } }](t, c.list[node], http.StatusOK, http.MethodGet, path, "")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		must(node, http.MethodPut, fmt.Sprintf("%s/body?revision=%d", path, got.Record.Revision), body)
	}
	send(0, "a0", "1", "a1", "a2", "a3")
	send(1, "b0", "2")
	send(2, "3")
	all := awaitRejected(t, c.list[2], body("a0"), body("a1"), body("a2"), body("a3"), body("b0"))

	// While the first node lives, through the third one, which has none of the records.
	one := quarantinePath + "/" + all[body("a0")]
	if tested, err := ask[struct{ Passes bool }](t, c.list[2], http.StatusOK, http.MethodPost, one+"/test", ""); err != nil || tested.Passes {
		t.Errorf("a record is tested: %+v, %v", tested, err)
	}
	if again, err := ask[struct{ Replayed, Rejected int }](t, c.list[2], http.StatusOK, http.MethodPost, one+"/replay", ""); err != nil || again.Rejected != 1 || again.Replayed != 0 {
		t.Errorf("a record that still has no number is replayed: %+v, %v", again, err)
	}
	if _, err := ask[any](t, c.list[2], http.StatusConflict, http.MethodPut, one+"/body?revision=0", body("100")); err != nil {
		t.Errorf("an edit of what was read before the replay: %v", err)
	}
	edit(2, all[body("a0")], body("100"))
	must(2, http.MethodPost, one+"/replay", "")
	if _, err := ask[any](t, c.list[2], http.StatusNotFound, http.MethodPost, one+"/replay", ""); err != nil {
		t.Errorf("a second replay: %v", err)
	}
	must(2, http.MethodDelete, quarantinePath+"/"+all[body("a1")], "")
	awaitRejected(t, c.list[1], body("a2"), body("a3"), body("b0"))

	// A selection through the second node. Its own record and one of the first node are rejected again and stay.
	started, err := ask[struct{ TaskID string }](t, c.list[1], http.StatusAccepted, http.MethodPost, quarantinePath+"/replay", `{"recordIds":["`+all[body("a2")]+`","`+all[body("b0")]+`"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if task, err := ended(t, c.list[1].Catalog(), started.TaskID); err != nil || task.Rejects == nil || task.Rejects.Rejected != 2 || task.Rejects.Replayed != 0 {
		t.Errorf("the task of the selection: %+v, %v", task, err)
	}

	// The first node is away. Until another node has taken over, its records are missing and no node says that they are gone.
	c.close(0)
	if _, err := ask[any](t, c.list[2], http.StatusServiceUnavailable, http.MethodGet, quarantinePath+"/"+all[body("a2")], ""); err != nil {
		t.Log("another node was as fast:", err)
		if strings.Contains(err.Error(), "status 404") {
			t.Error("the record of a node that is away is said to be gone")
		}
	}
	left := awaitRejected(t, c.list[1], body("a2"), body("a3"), body("b0"))
	for _, name := range []string{"a2", "a3", "b0"} {
		if left[body(name)] != all[body(name)] {
			t.Errorf("the record %s has become %s", all[body(name)], left[body(name)])
		}
	}
	edit(1, all[body("a2")], body("101"))
	edit(2, all[body("a3")], body("102"))
	edit(1, all[body("b0")], body("103"))
	must(2, http.MethodPost, quarantinePath+"/"+all[body("a2")]+"/replay", "")
	started, err = ask[struct{ TaskID string }](t, c.list[1], http.StatusAccepted, http.MethodPost, quarantinePath+"/replay", `{"all":true}`)
	if err != nil {
		t.Fatal(err)
	}
	if task, err := ended(t, c.list[1].Catalog(), started.TaskID); err != nil || task.Status != catalog.Succeeded || task.Rejects.Replayed != 2 {
		t.Errorf("the task of all: %+v, %v", task, err)
	}
	awaitRejected(t, c.list[2])
	for _, n := range c.list[1:] {
		if err := n.Engine().FlushAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"1", "100", "101", "102", "103", "2", "3"}
	if err := clustertest.Eventually(func() error { // the adopted instance looks in growing intervals whether it is empty
		if got := c.ids(); !slices.Equal(got, want) {
			return fmt.Errorf("the table has %q, want %q", got, want)
		}
		if len(get[statistics](t, c.list[1], sinkPath+"/statistics/total").Missing) > 0 {
			return errors.New("an instance is missing")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// ended returns a task when it has ended, even if it failed.
func ended(t *testing.T, cat *catalog.Catalog, id string) (catalog.Task, error) {
	task, err := cat.Task(id)
	if err != nil {
		return task, err
	}
	if task, err = task.Wait(t.Context()); task.Status == catalog.Failed {
		err = nil
	}
	return task, err
}
