package extractor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestIncremental asserts the requests, and the delivered records, from run to run.
func TestIncremental(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		incremental string
		answers     [3]string
		requests    [3]string
		records     [3]string // "," between ids
	}{
		"time": {
			`"path": "t", "initial": "2024-01-01"`,
			[3]string{`[{"id": 1, "t": "2024-01-01T00:00:05.9Z"}, {"id": 2, "t": "2024-01-01T00:00:03Z"}, {"id": 0, "t": "2023-12-31"}]`, `[{"id": 1, "t": "2024-01-01T00:00:05.9Z"}, {"id": 3, "t": "2024-01-01T00:00:05.1Z"}, {"id": 2, "t": "2024-01-01T00:00:03Z"}]`, `[]`},
			[3]string{"1704067200", "1704067205", "1704067205"},
			[3]string{"1,2", "3", ""},
		},
		"time with lookback": {
			`"path": "t", "initial": "2024-01-01", "lookback": "10 seconds"`,
			[3]string{`[{"id": 1, "t": 1704067220}, {"id": 2, "t": 1704067209}, {"id": 3, "t": 1704067215}]`, `[{"id": 3, "t": 1704067215, "changed": true}, {"id": 4, "t": 1704067211}, {"id": 5, "t": 1704067209}, {"id": 1, "t": 1704067220}, {"id": 6, "t": 1704067230}]`, `[{"id": 1, "t": 1704067220}, {"id": 3, "t": 1704067215}]`},
			[3]string{"1704067200", "1704067210", "1704067220"},
			[3]string{"1,2,3", "3,4,6", ""},
		},
		"newest first": {
			`"path": "t", "initial": 1, "type": "number"`,
			[3]string{`[{"id": 1, "t": 10}, {"id": 2, "t": 10}, {"id": 3, "t": 9}]`, `[{"id": 5, "t": 20}, {"id": 4, "t": 15}, {"id": 2, "t": 10}]|[{"id": 6, "t": 10}, {"id": 1, "t": 10}]`, `[{"id": 5, "t": 20}]`},
			[3]string{"1", "10", "20"},
			[3]string{"1,2,3", "5,4,6", ""},
		},
		"newest first with lookback": {
			`"path": "t", "initial": 1, "type": "number", "lookback": 5`,
			[3]string{`[{"id": 1, "t": 10}, {"id": 2, "t": 7}, {"id": 3, "t": 4}]`, `[{"id": 4, "t": 30}, {"id": 1, "t": 10}]|[{"id": 5, "t": 8}, {"id": 2, "t": 7}]`, `[{"id": 4, "t": 30}]`},
			[3]string{"1", "5", "25"},
			[3]string{"1,2,3", "4,5", ""},
		},
		"number": {
			`"path": "v.n", "initial": 5, "type": "number"`,
			[3]string{`[{"id": 1, "v": {"n": 123456789012345678901}}]`, `[{"id": 1, "v": {"n": 123456789012345678901}}, {"id": 2, "v": {"n": "123456789012345678902"}}]`, `[]`},
			[3]string{"5", "123456789012345678901", "123456789012345678902"},
			[3]string{"1", "2", ""},
		},
		"equal records on one page": {
			`"path": "t", "initial": 1, "type": "number"`,
			[3]string{`[{"id": 1, "t": 5}, {"id": 1, "t": 5}, {"id": 2, "t": 5}, {"id": 1, "t": 5}]`, `[{"id": 1, "t": 5}, {"id": 1, "t": 5}, {"id": 2, "t": 5}, {"id": 1, "t": 5}, {"id": 1, "t": 5}]`, `[{"id": 1, "t": 5}, {"id": 1, "t": 5}]`},
			[3]string{"1", "5", "5"},
			[3]string{"1,1,2,1", "1", ""},
		},
		"records without a value are kept": {
			`"path": "t", "initial": 1, "type": "number", "missing": "keep"`,
			[3]string{`[{"id": 1, "t": 5}, {"id": 2, "t": null}, {"id": 3}]`, `[{"id": 1, "t": 5}, {"id": 2, "t": null}]`, `[]`},
			[3]string{"1", "5", "5"},
			[3]string{"1,2,3", "2", ""},
		},
		"records without a value are skipped": {
			`"path": "t", "initial": 1, "type": "number", "missing": "skip"`,
			[3]string{`[{"id": 1, "t": 5}, {"id": 2, "t": null}, {"id": 3, "t": ""}, {"id": 4, "t": 4}]`, `[]`, `[]`},
			[3]string{"1", "5", "5"},
			[3]string{"1,4", "", ""},
		},
		"text": {
			`"path": "id", "initial": "a", "type": "text"`,
			[3]string{`[{"id": "b"}, {"id": "c"}]`, `[{"id": "c"}, {"id": "d"}, {"id": "b"}]`, `[{"id": "d"}]`},
			[3]string{"a", "c", "d"},
			[3]string{"b,c", "d", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var state extractor.State
			for i := range test.answers {
				var answers, requests []string
				for page, records := range strings.Split(test.answers[i], "|") {
					answers = append(answers, fmt.Sprintf(`{"d": %s, "next": %d}`, records, page+1))
					requests = append(requests, "GET /u?since="+test.requests[i]+strings.Repeat("&n="+fmt.Sprint(page), min(page, 1)))
				}
				answers[len(answers)-1] = strings.Replace(answers[len(answers)-1], `"next"`, `"last"`, 1)
				a := newAPI(t, answers...)
				cfg := config(`"pagination": {"method": "response.param", "responseParam": "next", "queryParam": "n", "includeParams": true}`, `"jobs": [{"endpoint": "u", "id": "j", "params": {"since": {"incremental": "start"}}, "incremental": {`+test.incremental+`}}]`)
				// The state is written and read back after each page, as in a resumed run.
				killed, limit := 0, len(answers)-1
				r := run{}
				for try := 0; ; try++ {
					step := extract(t, a, cfg, func(s *extractor.State, o *extractor.Options) {
						*s = state
						if r.err != nil {
							*s = r.state
						}
						o.Checkpoint = func(_ context.Context, s extractor.State) error {
							if cp := s.Checkpoint; cp.Pages == int64(try+1) && killed < limit {
								killed++
								return errKilled
							}
							return nil
						}
					})
					r = run{append(r.records, step.records...), step.log, step.state, step.err}
					if !errors.Is(r.err, errKilled) {
						break
					}
					text, err := json.Marshal(r.state)
					checkError(t, err, "")
					r.state = extractor.State{}
					checkError(t, json.Unmarshal(text, &r.state), "")
				}
				checkError(t, r.err, "")
				same(t, "requests", a.asked(), requests)
				var ids []string
				for _, rec := range r.records {
					var item struct{ ID any }
					checkError(t, json.Unmarshal([]byte(strings.TrimPrefix(rec, "u: ")), &item), "")
					ids = append(ids, fmt.Sprint(item.ID))
				}
				if got := strings.Join(ids, ","); got != test.records[i] {
					t.Errorf("run %d delivers %s, want %s", i, got, test.records[i])
				}
				text, err := json.Marshal(r.state)
				checkError(t, err, "")
				state = extractor.State{}
				checkError(t, json.Unmarshal(text, &state), "")
			}
		})
	}
}

func TestPositionsAreChecked(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `[{"id": 1}]`)
	r := extract(t, a, config("", `"jobs": [{"endpoint": "u", "id": "j", "incremental": {"path": "t", "initial": "2024-01-01"}}]`), nil)
	checkError(t, r.err, `job "j", page 1, endpoint "u": item 0 has no value for the cursor at "t"; incremental.missing can keep or skip such items`)
	r = extract(t, newAPI(t, `[{"t": "soon"}]`), config("", `"jobs": [{"endpoint": "u", "id": "j", "incremental": {"path": "t", "initial": "2024-01-01", "missing": "skip"}}]`), nil)
	checkError(t, r.err, `item 0 has no value for the cursor at "t"`)
	r = extract(t, newAPI(t, `[]`), config("", `"jobs": [{"endpoint": "u", "id": "j", "incremental": {"path": "t", "initial": 1, "type": "number"}}]`), func(s *extractor.State, _ *extractor.Options) {
		s.Cursors = map[string]extractor.Cursor{"j": {Value: "x"}}
	})
	checkError(t, r.err, `the cursor "j" of the state cannot be read`)
}

// TestMoreRecordsThanAreRemembered has three records more within lookback than a state remembers. The lowest are delivered again, with a warning.
func TestMoreRecordsThanAreRemembered(t *testing.T) {
	if testing.Short() {
		t.Skip("checksums of 200,000 records")
	}
	t.Parallel()
	var page strings.Builder
	for n := range 100_003 {
		fmt.Fprintf(&page, `,{"n":%d}`, n)
	}
	a := newAPI(t, "["+page.String()[1:]+"]")
	cfg := config("", `"jobs": [{"endpoint": "u", "params": {"since": {"incremental": "start"}}, "incremental": {"path": "n", "type": "number", "initial": 0, "lookback": 1000000}}]`)
	first := extract(t, a, cfg, func(_ *extractor.State, o *extractor.Options) { o.Emit = nil })
	checkError(t, first.err, "")
	checkLog(t, first.log, "more records lie within lookback than are remembered")
	if n := len(first.state.Cursors["u"].Seen); n != 100_000 {
		t.Errorf("%d records are remembered, want 100_000", n)
	}
	a.answers = append(a.answers, a.answers[0])
	second := extract(t, a, cfg, func(s *extractor.State, _ *extractor.Options) { *s = first.state })
	checkError(t, second.err, "")
	same(t, "delivered again", second.records, []string{`u: {"n":0}`, `u: {"n":1}`, `u: {"n":2}`})
	same(t, "requests", a.asked(), []string{"GET /u?since=0", "GET /u?since=0"})
}
