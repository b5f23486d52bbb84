package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// shop has the source "web" with the sinks "orders" and "visits", which keep the records that they cannot map, and "all", which takes everything.
func shop(t *testing.T) (*forebay.Engine, *buffertest.Memory) {
	t.Helper()
	memory := buffertest.NewMemory()
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: memory, Target: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	defineShop(t, eng, "price")
	return eng, memory
}

// defineShop reads the prices from a field.
func defineShop(t *testing.T, eng *forebay.Engine, price string) {
	t.Helper()
	keep := func(id string, columns mapping.Columns) forebay.Sink {
		return forebay.Sink{ID: id, OnReject: forebay.Quarantine, Table: forebay.Table{ID: "web." + id, Columns: columns}}
	}
	err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{
		keep("orders", mapping.Columns{mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("price", price, mapping.DataType(datatype.Int64))}),
		keep("visits", mapping.Columns{mapping.Path("page", "page", mapping.DataType(datatype.String), mapping.Required())}),
		{ID: "all", Table: forebay.Table{ID: "web.all", Columns: mapping.Columns{mapping.UUID("id")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func ingest(t *testing.T, eng *forebay.Engine, recs ...*mapping.Record) {
	t.Helper()
	if _, err := eng.IngestBatch(t.Context(), "web", recs); err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, h http.Handler, name string, query ...string) *httptest.ResponseRecorder {
	t.Helper()
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	return ask(t, h, "GET", "/x/"+name+"?"+q.Encode(), "Authorization", "Bearer "+operator)
}

type groupsAnswer struct {
	Groups []struct {
		Sink, Reason, Column, Mapping, Target, Example string
		Current                                        bool
		Count                                          int
		First, Last                                    int64
	}
	Records, Others  int
	Matching, From   int
	MoreChoices      bool
	Complete         bool
	Until            string
	Reasons, Columns []string
}

type listAnswer struct {
	Records []struct {
		Sink, ID, Column, Message string
		Revision                  int
	}
	Next string
}

type body struct {
	Text   string
	Size   any
	Rest   int
	Binary bool
}

type recordAnswer struct {
	Sink, ID, Reason, Message, Request, Host, Client, Problem string
	EditedBy                                                  string
	Revision, Failed                                          int
	Headers                                                   [][2]string
	Removed                                                   []string
	Body                                                      body
	Came                                                      *body
	Passes                                                    bool
	Cells                                                     []struct {
		Column, Type, Value, Error string
		Null                       bool
	}
}

func newShop(t *testing.T, opts console.Options) (*console.Console, *forebay.Engine, *buffertest.Memory) {
	t.Helper()
	eng, memory := shop(t)
	opts.Tokens = threeTokens
	c, err := console.New(eng, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, eng, memory
}

// Every endpoint needs Records, and Changes where something changes.
func TestQuarantineRights(t *testing.T) {
	c, eng, _ := newShop(t, console.Options{})
	ingest(t, eng, mapping.JSON([]byte(`{"price":1}`)))
	for name, method := range map[string]string{
		"quarantine.groups": "GET", "quarantine.list": "GET", "quarantine.record": "GET", "quarantine.test": "POST",
		"quarantine.edit": "POST!", "quarantine.replay": "POST!", "quarantine.discard": "POST!", "quarantine.replayall": "POST!", "quarantine.discardall": "POST!",
	} {
		method, changes := strings.CutSuffix(method, "!")
		as := func(token string, headers ...string) int {
			if token != "" {
				headers = append(headers, "Authorization", "Bearer "+token)
			}
			return ask(t, c, method, "/x/"+name, headers...).Code
		}
		viewer := 0
		if changes {
			viewer = 403
		}
		for _, tc := range []struct {
			who          string
			status, want int
		}{
			{"nobody", as(""), 401},
			{"numbers", as(reader), 403},
			{"records", as(readsRecords), viewer},
			{"another site", as(operator, "Sec-Fetch-Site", "cross-site"), 403},
		} {
			if tc.want == 0 && (tc.status == 401 || tc.status == 403) || tc.want != 0 && tc.status != tc.want {
				t.Errorf("%s for %s: status %d, want %d", name, tc.who, tc.status, tc.want)
			}
		}
		other := map[string]string{"GET": "POST", "POST": "GET"}[method]
		if w := ask(t, c, other, "/x/"+name, "Authorization", "Bearer "+operator); w.Code != 405 {
			t.Errorf("%s %s: status %d, want 405", other, name, w.Code)
		}
		if method != "POST" {
			continue
		}
		if status := as(operator, "Origin", "https://evil.example"); status != 403 {
			t.Errorf("%s from another origin: status %d, want 403", name, status)
		}
		// A browser sends the cookie with a forged form too, but not the proof.
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/x/session", strings.NewReader(url.Values{"token": {operator}}.Encode()))
		r.Host = "127.0.0.1:8080"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		c.ServeHTTP(w, r)
		cookie := w.Result().Cookies()[0]
		if w := ask(t, c, "POST", "/x/"+name, "Cookie", cookie.Name+"="+cookie.Value); w.Code != 403 {
			t.Errorf("%s without proof: status %d, want 403", name, w.Code)
		}
	}
	// Who sees no records does not see the page.
	for token, want := range map[string]bool{reader: false, readsRecords: true} {
		body := ask(t, c, "GET", "/x/snapshot?page=quarantine", "Authorization", "Bearer "+token).Body.String()
		if strings.Contains(body, `"name":"quarantine"`) != want || strings.Contains(body, `"head"`) != want {
			t.Errorf("the page, %v: %s", want, body)
		}
	}
	if n := recordsIn(eng); n != 2 {
		t.Errorf("%d records are left, want 2", n)
	}
}

func recordsIn(eng *forebay.Engine) (n int64) {
	for _, s := range eng.Stats().Sinks {
		n += s.Quarantine.Records
	}
	return n
}

// Records with one cause are one group. Filters and groups select the right records.
func TestQuarantineGroups(t *testing.T) {
	c, eng, _ := newShop(t, console.Options{})
	var recs []*mapping.Record
	for i := range 7 {
		recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"id":%d,"price":"12,5%d","page":"p"}`, i, i)))
	}
	ingest(t, eng, append(recs, mapping.JSON([]byte(`{"price":3,"page":"p"}`)), mapping.JSON([]byte(`{"id":1}`)), mapping.JSON([]byte(`no JSON`)))...)
	all := answer[groupsAnswer](t, fetch(t, c, "quarantine.groups"), 200)
	var got []string
	for _, g := range all.Groups {
		got = append(got, fmt.Sprint(g.Count, " ", g.Sink, " ", g.Reason, " ", g.Column))
		if !g.Current || len(g.Mapping) != 8 || g.Target != "0" || g.First > g.Last || g.First == 0 {
			t.Errorf("got %+v, want the current mapping with its first and last record", g)
		}
	}
	if all.Records != 11 || all.Others != 0 || !all.Complete || len(all.Groups) < 4 || got[0] != "7 web/orders malformed price" || !strings.Contains(all.Groups[0].Example, "12,56") {
		t.Fatalf("got %+v, want 11 records in at least 4 groups, the first of 7 malformed prices", all)
	}
	count := func(query ...string) int {
		return answer[groupsAnswer](t, fetch(t, c, "quarantine.groups", query...), 200).Records
	}
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, tc := range []struct {
		query []string
		want  int
	}{
		{[]string{"sink", "web/orders"}, 9},
		{[]string{"sink", "web/nobody"}, 0},
		{[]string{"column", "price"}, 7},
		{[]string{"reason", "malformed", "column", "price", "sink", "web/visits"}, 0},
		{[]string{"text", "12,53"}, 1},
		{[]string{"text", "PRICE"}, 7},
		{[]string{"since", "1h"}, 11},
		{[]string{"since", later}, 0},
		{[]string{"until", later}, 11},
		{[]string{"until", "1h"}, 0},
	} {
		if n := count(tc.query...); n != tc.want {
			t.Errorf("%q selects %d, want %d", tc.query, n, tc.want)
		}
	}
	// A group whose column is empty is not the group of any column.
	for _, g := range all.Groups {
		q := []string{"group", "1", "sink", g.Sink, "reason", g.Reason, "column", g.Column, "mapping", g.Mapping, "target", g.Target}
		if n := count(q...); n != g.Count {
			t.Errorf("%+v selects %d, want %v", g, n, g.Count)
		}
		if l := answer[listAnswer](t, fetch(t, c, "quarantine.list", q...), 200); len(l.Records) != g.Count {
			t.Errorf("%+v: got list %+v, want as many records", g, l)
		}
	}
	for _, bad := range [][]string{{"since", "yesterday"}, {"until", "-1h"}, {"since", `<b>`}} {
		if w := fetch(t, c, "quarantine.groups", bad...); w.Code != 400 {
			t.Errorf("%q: status %d: %s, want 400", bad, w.Code, w.Body)
		}
	}
	// With other columns, records that were rejected before may pass now.
	defineShop(t, eng, "cents")
	for _, g := range answer[groupsAnswer](t, fetch(t, c, "quarantine.groups", "sink", "web/orders"), 200).Groups {
		if g.Current {
			t.Errorf("after another definition: %+v", g)
		}
	}
}

// Pages of the list have each record once, over the sinks too.
func TestQuarantineList(t *testing.T) {
	c, eng, _ := newShop(t, console.Options{})
	for i := range 25 {
		ingest(t, eng, mapping.JSON(fmt.Appendf(nil, `{"price":%d}`, i))) // both sinks reject it
	}
	seen, pages, after := map[string]bool{}, 0, ""
	for {
		l := answer[listAnswer](t, fetch(t, c, "quarantine.list", "limit", "7", "after", after), 200)
		for _, r := range l.Records {
			if seen[r.ID] {
				t.Fatalf("%s is listed twice", r.ID)
			}
			seen[r.ID] = true
		}
		if pages++; len(l.Records) > 7 || pages > 20 {
			t.Fatalf("page %d: %+v", pages, l)
		}
		if after = l.Next; after == "" {
			break
		}
	}
	if len(seen) != 50 || pages != 8 {
		t.Errorf("got %d records on %d pages, want 50 on 8", len(seen), pages)
	}
	for content, want := range map[string]int{`"PRICE":7}`: 2, "\"price\":1": 22, "none": 0} {
		l := answer[listAnswer](t, fetch(t, c, "quarantine.list", "limit", "200", "content", content), 200)
		g := answer[groupsAnswer](t, fetch(t, c, "quarantine.groups", "content", content), 200)
		if len(l.Records) != want || l.Next != "" || g.Records != want {
			t.Errorf("%d records and %d in groups contain %q, want %d", len(l.Records), g.Records, content, want)
		}
	}
	if w := fetch(t, c, "quarantine.list", "after", "web/orders:nonsense"); w.Code != 400 {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if l := answer[listAnswer](t, fetch(t, c, "quarantine.list", "limit", "100000"), 200); len(l.Records) != 50 || l.Next != "" {
		t.Errorf("got %d records, next %q, want 50, no next", len(l.Records), l.Next)
	}
}

// first returns the first record of a filter.
func first(t *testing.T, c *console.Console, query ...string) recordAnswer {
	t.Helper()
	l := answer[listAnswer](t, fetch(t, c, "quarantine.list", query...), 200)
	if len(l.Records) == 0 {
		t.Fatalf("%q: got no record, want some", query)
	}
	return answer[recordAnswer](t, fetch(t, c, "quarantine.record", "sink", l.Records[0].Sink, "id", l.Records[0].ID), 200)
}
