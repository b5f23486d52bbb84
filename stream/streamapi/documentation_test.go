package streamapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// TestEveryPropertyIsDescribed demands a sentence of every property, parameter and operation of the description.
func TestEveryPropertyIsDescribed(t *testing.T) {
	s := newService(t, serviceOptions{})
	schemas := s.api.docs.registry.Map()
	properties := 0
	check := func(where, text string) {
		t.Helper()
		if len(text) < 10 || text[0] < 'A' || text[0] > 'Z' || !strings.HasSuffix(text, ".") {
			t.Errorf("%s is described by %q, want a sentence", where, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		for _, property := range slices.Sorted(maps.Keys(schemas[name].Properties)) {
			properties++
			check(name+"."+property, schemas[name].Properties[property].Description)
		}
	}
	if properties < 150 {
		t.Errorf("only %d properties were found", properties)
	}
	for path, item := range s.api.docs.spec.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				check(op.Method+" "+path+" "+p.Name, p.Description)
			}
			if op.Summary == "" || op.OperationID == "" || len(op.Tags) == 0 {
				t.Errorf("%s %s has no summary, id or tag", op.Method, path)
			}
		}
	}
}

func TestAPIDescription(t *testing.T) {
	s := newService(t, serviceOptions{})
	for _, path := range []string{"openapi.json", "openapi.yaml", "openapi3.json", "openapi3.yaml", ""} {
		a := s.do("", "GET", "/v1/documentation/"+path, "")
		if a.status != 200 || len(a.text) < 1000 {
			t.Errorf("%q: got status %d, %d bytes, want 200, at least 1000", path, a.status, len(a.text))
		}
	}
	if a := s.get("/v1/documentation/openapi3.json"); a.at("openapi") != "3.1.0" {
		t.Errorf("openapi is %v", a.at("openapi"))
	}
	old := s.get("/v1/documentation/openapi.json")
	if old.at("openapi") != "3.0.3" {
		t.Errorf("openapi is %v", old.at("openapi"))
	}
	// Words of schemas that 3.0 does not have. Readers refuse the whole description for one of them.
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				_, list := value.([]any)
				if at[strings.LastIndexByte(at, '/')+1:] != "properties" && slices.Contains([]string{
					"contentMediaType", "contentEncoding", "const", "examples", "$defs", "patternProperties", "prefixItems",
				}, key) || key == "type" && list {
					t.Errorf("%s has %q: %v, which is no part of OpenAPI 3.0", at, key, value)
				}
				walk(at+"/"+key, value)
			}
		case []any:
			for i, value := range v {
				walk(fmt.Sprint(at, "/", i), value)
			}
		}
	}
	walk("", old.body)
	page := s.do("", "GET", "/v1/documentation", "").text
	for _, part := range []string{"src=", "//", "@import", "url("} { // it has all that it needs in itself
		for line := range strings.Lines(page) {
			if strings.Contains(line, part) && !strings.HasPrefix(strings.TrimSpace(line), "//") && !strings.Contains(line, "`   // $") {
				t.Errorf("the page loads something: %s", line)
			}
		}
	}
}
