package streamapi

import (
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
