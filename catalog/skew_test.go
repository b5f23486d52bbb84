package catalog_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
)

// The texts are frozen because nodes of two releases ask each other during an upgrade.
const (
	statisticsRequest  = `{"format":1,"from":"x","op":"statistics","sources":["web"],"timeout_ns":2000000000}`
	retryRequest       = `{"format":1,"from":"x","op":"retry","source":"web","sinks":["a"],"timeout_ns":2000000000}`
	statisticsResponse = `{"format":1,"node":"b","instances":[{"instance":"b","sinks":[{"source":"web","sink":"a",` +
		`"target":{"rows":41,"rawBytes":82,"storedBytes":60,"firstAt":"2026-11-23T10:00:00Z","lastAt":"2026-11-23T11:00:00Z"},"rejected":{"missingValue":2},` +
		`"files":[{"id":"f1","state":"importing","openedAt":"2026-11-23T10:30:00Z","level":{"rows":3,"rawBytes":6,"storedBytes":5},"attempt":2,"retryReason":"away"}]}]}]}`
	// A message that a later release may send. It has other types, and no member but format, node and from as it is now.
	newerRequest  = `{"format":2,"from":"x","op":["statistics"],"sources":{"web":true},"timeout_ns":"2s"}`
	newerResponse = `{"format":2,"node":"b","instances":{"b":[41]}}`
	// What a later release may add without a new format.
	addedRequest  = `{"format":1,"from":"x","op":"quarantine","source":"web","more":{"a":1}}`
	addedResponse = `{"format":1,"node":"b","instances":[{"instance":"b","more":[1],"sinks":[{"source":"web","sink":"a","target":{"rows":41,"other":1}}]}]}`
)

// A node of any later release reads the messages of this release, and a request or response that it cannot read is refused. The other
// node is missing, with the reason, and nothing is done.
func TestPeersOfOtherReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{})
		a := cluster.open("a")
		b := cluster.open("b")
		done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
		same(t, a, b)
		ingest(t, b.eng, "web", true)
		for request, want := range map[string]string{
			statisticsRequest: `"target":{"rows":1,`, retryRequest: `"outcome":"done"`, newerRequest: "older release", addedRequest: "does not know the request",
			`{"format":1`: "cannot read", `{}`: "cannot read", "": "cannot read",
		} {
			text := b.Respond(t.Context(), []byte(request))
			var got struct {
				Format    int
				Node      string
				Refused   string
				Instances []any
			}
			if err := json.Unmarshal(text, &got); err != nil || got.Format != 1 || got.Node != "b" || !strings.Contains(string(text), want) {
				t.Errorf("to %s the response is %s, %v", request, text, err)
			}
			if (got.Refused == "") != (len(got.Instances) == 1) {
				t.Errorf("to %s the response is refused and given: %s", request, text)
			}
		}
		for _, tc := range []struct {
			response, missing string
			rows              int64
		}{
			{statisticsResponse, "", 41},
			{addedResponse, "", 41},
			{newerResponse, "newer release", 0},
			{`{"format":1,"node":"b","instances":7}`, "unreadable", 0},
			{`{"format":2`, "does not respond", 0},
			{`{"format":1,"node":"b","refused":"it cannot"}`, "it cannot", 0},
		} {
			b.respond = func(request, response []byte) []byte {
				if response == nil { // its own request
					return nil
				}
				return []byte(tc.response)
			}
			st, err := a.Handle("web", "a").Statistics(t.Context())
			if err != nil || st.Target.Rows != tc.rows || (len(st.Missing) == 0) != (tc.missing == "") {
				t.Errorf("with the response %s: %+v, %v", tc.response, st, err)
			}
			if len(st.Missing) == 1 && !strings.Contains(st.Missing[0].Reason, tc.missing) {
				t.Errorf("with the response %s: %v", tc.response, st.Missing)
			}
			if tc.response == statisticsResponse && (st.Rejected["missingValue"] != 2 || len(st.Files) != 1 || st.Files[0].Attempt != 2 || st.Files[0].Level.Rows != 3) {
				t.Errorf("the response is read as %+v", st)
			}
			var missing *catalog.MissingError
			if tc.missing != "" && !errors.As(a.ClearStatistics(t.Context(), web), &missing) {
				t.Errorf("with the response %s the statistics were cleared", tc.response)
			}
		}
	})
}
