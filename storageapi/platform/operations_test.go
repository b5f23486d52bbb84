package platform

import "testing"

// Every route of a described API has its operation, and every operation its route.
func TestOperationsAreThoseOfRoutes(t *testing.T) {
	s, _ := openForTest(t)
	found := make(map[api]map[string]bool)
	for which := range operations {
		found[which] = make(map[string]bool)
	}
	for _, rt := range s.routes {
		described := found[rt.api]
		if described == nil {
			continue
		}
		name := rt.method + " " + rt.path
		described[name] = true
		if o, known := operations[rt.api][name]; !known || o.status == 0 {
			t.Errorf("%s is not among the operations", name)
		}
	}
	for which, list := range operations {
		for name := range list {
			if !found[which][name] {
				t.Errorf("there is no route %s", name)
			}
		}
	}
}
