package extractor_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestJobsAreNamedByEndpoint provokes every message about a job. Each has its endpoint, without the password in it.
func TestJobsAreNamedByEndpoint(t *testing.T) {
	t.Parallel()
	const page, windows = `"pagination": {"method": "pagenum"}`, `"jobs": [{"endpoint": "http://joe:pw99@h/u", "windows": {"from": "2024-01-01", "to": "2024-01-02"}}]`
	job := func(more string) string { return `"jobs": [{"endpoint": "http://joe:pw99@h/u"` + more + `}]` }
	for _, test := range []struct {
		name, api, config string
		answers           []string
		message, endpoint string
	}{
		{"the last page", page, job(""), []string{`[]`}, "job finished: there is no next page", "u"},
		{"an equal page", page, job(""), []string{`[1]`, `[1]`}, "finished when last response matched the previous!", "u"},
		{"a condition", `"pagination": {"method": "pagenum", "forceStop": {"pages": 1}}`, job(""), []string{`[1]`}, "job stopped", "u"},
		{"a rule", page + `, "http": {"answerRules": [{"path": "e", "action": "end"}]}`, job(""), []string{`{"e": 1}`}, "job finished: a response matched", "u"},
		{"a warning about a page", "", job(`, "dataField": "x"`), []string{`{}`}, "no data at", "u"},
		{"a child that is not run", "", job(`, "children": [{"endpoint": "http://joe:pw99@h/c"}]`), []string{`[1]`}, "a child job without placeholders", "c"},
		{"a window", "", windows, []string{`[]`}, "msg=window", "u"},
		{"a list in a list", "", job(`, "dataType": "t"`), []string{`[{"a": [[1]]}]`}, "a list in a list is kept as text", "u"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := extractor.Parse([]byte(config(test.api, test.config)))
			checkError(t, err, "")
			transport := newAPI(t, test.answers...).transport()
			defer transport.CloseIdleConnections()
			var log bytes.Buffer
			_, err = extractor.RunTables(t.Context(), cfg, extractor.State{}, t.TempDir(), extractor.Options{
				Transport: transport, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			checkError(t, err, "")
			found := false
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, test.message) {
					found = true
					if want := "endpoint=http://***@h/" + test.endpoint; !strings.Contains(line, want) || !strings.Contains(line, "job=") {
						t.Errorf("%s has no job or no %s", line, want)
					}
				}
			}
			if !found || strings.Contains(log.String(), "pw99") {
				t.Errorf("no %q, or a password, in\n%s", test.message, log.String())
			}
		})
	}
}

// TestDataErrorsNameTheEndpoint has data that does not fit the tables, or the job.
func TestDataErrorsNameTheEndpoint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ answer, job, err string }{
		"of tables":   {`[{"a": 1}, {"a": {"b": 1}}]`, "", `page 1, endpoint "u", table "u": `},
		"of an item":  {`[{"a": 1}]`, `, "incremental": {"path": "t", "initial": 1, "type": "number"}`, `page 1, endpoint "u": item 0 has no value`},
		"of a parent": {`[{"a": 1}]`, `, "children": [{"endpoint": "c/{x}", "placeholders": {"x": "y"}}]`, `page 1, endpoint "u": placeholder "x"`},
	} {
		a := newAPI(t, test.answer)
		cfg, err := extractor.ParseAt([]byte(config("", `"jobs": [{"endpoint": "u"`+test.job+`}]`)), a.server.URL)
		checkError(t, err, "")
		_, err = extractor.RunTables(t.Context(), cfg, extractor.State{}, t.TempDir(), extractor.Options{})
		if checkError(t, err, test.err); t.Failed() {
			t.Fatal(name)
		}
	}
}
