package extractor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestPositionsOfStreams has three incremental jobs, one with windows, and two iterations. Each has its own position, even if a run ends between two
// of them, or at any of its checkpoints. The next run asks for each from there.
func TestPositionsOfStreams(t *testing.T) {
	t.Parallel()
	const jobs = `"jobs": [
		{"endpoint": "{1}/a", "params": {"since": {"incremental": "start"}}, "incremental": {"path": "n", "type": "number", "initial": 1}},
		{"endpoint": "{1}/b", "params": {"since": {"incremental": "start"}}, "incremental": {"path": "n", "type": "number", "initial": 2, "lookback": 3, "name": "second"}},
		{"endpoint": "{1}/c", "params": {"since": {"incremental": "start"}}, "incremental": {"path": "t", "type": "text", "initial": "k"}},
		{"endpoint": "{1}/w", "params": {"from": {"window": "from"}, "to": {"window": "to"}}, "windows": {"from": "1970-01-02", "to": "1970-01-03 12:00", "step": "1 day"}}]`
	for name, test := range map[string]struct {
		config        string
		streams       []string // before the endpoints
		cursors       map[string]string
		windows       map[string]int64
		first, second []string
	}{
		"jobs": {
			config("", strings.ReplaceAll(jobs, "{1}", "x")),
			[]string{"x"},
			map[string]string{"x/a": "10", "second": "20", "x/c": "p"},
			map[string]int64{"x/w": 216000},
			[]string{"/x/a?since=1", "/x/b?since=2", "/x/c?since=k", "/x/w?from=86400&to=172800", "/x/w?from=172800&to=216000"},
			[]string{"/x/a?since=10", "/x/b?since=17", "/x/c?since=p"},
		},
		"iterations": {
			strings.Replace(config("", strings.ReplaceAll(jobs, "{1}", "x")), `"config": {`, `"iterations": [{"shop": "x"}, {"shop": "y", `+strings.ReplaceAll(jobs, "{1}", "y")+`}], "config": {`, 1),
			[]string{"x", "y"},
			map[string]string{"0/x/a": "10", "0/second": "20", "0/x/c": "p", "1/y/a": "11", "1/second": "21", "1/y/c": "q"},
			map[string]int64{"0/x/w": 216000, "1/y/w": 216000},
			[]string{
				"/x/a?since=1", "/x/b?since=2", "/x/c?since=k", "/x/w?from=86400&to=172800", "/x/w?from=172800&to=216000",
				"/y/a?since=1", "/y/b?since=2", "/y/c?since=k", "/y/w?from=86400&to=172800", "/y/w?from=172800&to=216000",
			},
			[]string{"/x/a?since=10", "/x/b?since=17", "/x/c?since=p", "/y/a?since=11", "/y/b?since=18", "/y/c?since=q"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := make(map[string]string)
			for _, asked := range slices.Concat(test.first, test.second) {
				i := slices.Index(test.streams, asked[1:2])
				switch stream := asked[3]; stream {
				case 'a', 'b':
					answers[asked] = fmt.Sprintf(`[{"n": %d}]`, map[byte]int{'a': 10, 'b': 20}[stream]+i)
				case 'c':
					answers[asked] = fmt.Sprintf(`[{"t": %q}]`, []string{"p", "q"}[i])
				default:
					answers[asked] = `[{"w": 1}]`
				}
			}
			kills := 0
			for killAt := 1; ; killAt++ {
				a := newRoutedAPI(t, answers)
				var saved extractor.State
				calls := 0
				save := func(_ context.Context, s extractor.State) error {
					if calls++; calls == killAt {
						return errKilled
					}
					text, err := json.Marshal(s)
					if err == nil {
						saved = extractor.State{}
						err = json.Unmarshal(text, &saved)
					}
					return err
				}
				pull := func() run {
					return extract(t, a, test.config, func(s *extractor.State, o *extractor.Options) { *s, o.Checkpoint = saved, save })
				}
				r := pull()
				killed := errors.Is(r.err, errKilled)
				if killed {
					kills++
					r = pull()
				}
				checkError(t, r.err, "")
				// One page is asked for again, the page whose position was not saved.
				got := a.asked()
				if again := slices.Compact(slices.Clone(got)); !slices.Equal(again, prefixed("GET ", test.first)) || len(got) > len(again)+1 {
					t.Errorf("killed at checkpoint %d: requests %q, want %q", killAt, got, test.first)
				}
				cursors := make(map[string]string)
				for name, c := range r.state.Cursors {
					cursors[name] = c.Value
				}
				if !maps.Equal(cursors, test.cursors) || !maps.Equal(r.state.Windows, test.windows) {
					t.Errorf("killed at checkpoint %d: cursors %v, windows %v, want %v and %v", killAt, cursors, r.state.Windows, test.cursors, test.windows)
				}
				before := len(got)
				saved, calls = r.state, killAt // this run is not killed
				r = pull()
				checkError(t, r.err, "")
				same(t, fmt.Sprintf("requests of the next run, killed at checkpoint %d before", killAt), a.asked()[before:], prefixed("GET ", test.second))
				if len(r.records) > 0 {
					t.Errorf("delivered again: %s", r.records)
				}
				if !killed {
					break
				}
			}
			if kills < len(test.first) {
				t.Errorf("only %d kills", kills)
			}
		})
	}
}

func prefixed(prefix string, list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = prefix + s
	}
	return out
}

// TestPositionsNeedNames refuses jobs that would share a position, and lets different ones have the endpoint in common.
func TestPositionsNeedNames(t *testing.T) {
	t.Parallel()
	_, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u", "dataField": "x", "incremental": {"path": "n", "initial": 1}}, {"endpoint": "u", "dataField": "y", "incremental": {"path": "n", "initial": 1}}]`)))
	checkError(t, err, `another job keeps its position under the name "u" too`)
	_, err = extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u", "dataField": "x", "incremental": {"path": "n", "initial": 1}}, {"endpoint": "u", "id": "j", "dataField": "y", "incremental": {"path": "n", "initial": 1}}]`)))
	checkError(t, err, "")
}

// TestEndsOfWindows asserts both forms of the end, for APIs whose ends are inclusive and for others, with a last window that is cut off.
func TestEndsOfWindows(t *testing.T) {
	t.Parallel()
	story{
		name:     "ends",
		config:   `"jobs": [{"endpoint": "u", "method": "POST", "windows": {"from": "1970-01-02", "to": "1970-01-03 00:00:10", "step": "1 day"}, "params": {"range": {"from": {"window": "from"}, "to": {"window": "to"}, "last": {"window": "last"}}}}]`,
		answers:  []string{`[]`, `[]`},
		requests: []string{`POST /u application/json {"range":{"from":86400,"to":172800,"last":172799}}`, `POST /u application/json {"range":{"from":172800,"to":172810,"last":172809}}`},
	}.run(t)
}
