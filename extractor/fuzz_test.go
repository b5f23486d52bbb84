package extractor_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/fuzztest"
)

type answers []string

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	answer := `[]`
	if len(*a) > 0 {
		answer, *a = (*a)[0], (*a)[1:]
	}
	_, _ = w.WriteString(answer)
	return w.Result(), nil
}

// FuzzAnswers gives any text as the response of a login and of two pages, to every method of pagination. Whatever it is,
// the run ends, and an error is one that the user can look into.
func FuzzAnswers(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{
		`{"t": "x", "d": [{"id": 1, "l": [1]}], "next_page": "?a[b][]=1&=&%zz"}`, `[{"id": "5"}]`, `"x"`, `{"d": 1, "next_page": "http://[", "t": 1e999}`, `{"t": {"a": 1}, "next_page": ["a"]}`,
	} {
		for method := range uint8(6) {
			f.Add(method, s, s, s)
		}
	}
	var configs []*extractor.Config
	for _, pagination := range []string{
		`"method": "response.url", "paramIsQuery": true, "includeParams": true`, `"method": "response.url"`, `"method": "offset", "limit": 1, "limitStop": {"field": "t"}`,
		`"method": "pagenum", "nextPageFlag": {"field": "t", "stopOn": true, "ifNotSet": false}`, `"method": "response.param", "responseParam": "t", "queryParam": "q"`,
		`"method": "cursor", "idKey": "id", "param": "after", "forceStop": {"volume": 100}`,
	} {
		cfg, err := extractor.Parse([]byte(config(`"pagination": {`+pagination+`}, "authentication": {"type": "login", "loginRequest": {"endpoint": "l"},
			"expires": {"response": "t"}, "apiRequest": {"query": {"k": {"response": "t"}, "a": {"function": "md5", "args": [{"response": "t"}]}}}}`,
			`"userData": {"u": 1}, "jobs": [{"endpoint": "u?x=1", "params": {"a": [1]}, "responseFilter": "l[].x", "children": [{"endpoint": "{x}", "placeholders": {"x": {"path": "id", "function": "urlencode", "args": [{"placeholder": "value"}]}}, "recursionFilter": "id>0|l~~%x"}]}]`)))
		if err != nil {
			f.Fatal(err)
		}
		configs = append(configs, cfg)
	}
	f.Fuzz(func(t *testing.T, method uint8, login, first, second string) {
		cfg := configs[int(method)%len(configs)]
		tables, err := extractor.NewTables(cfg, extractor.State{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tables.Close()
		a := answers{login, first, second}
		state, err := extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: &a, Emit: tables.Add})
		if err != nil && extractor.ExitStatus(err) != 1 {
			t.Errorf("exit status %d of %v", extractor.ExitStatus(err), err)
		}
		if err == nil && state.Checkpoint != nil {
			t.Error("a run that succeeded has a checkpoint")
		}
		if err := tables.Save(t.Context(), t.TempDir()); err != nil {
			t.Errorf("tables: %v", err)
		}
	})
}
