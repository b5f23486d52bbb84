package catalog

import "testing"

// The engine gets AckLocal of each sink.
func TestAckLocalReachesTheEngine(t *testing.T) {
	tr := (*tree)(nil).clone()
	for id, local := range map[string]bool{"a": true, "b": false} {
		tr.sinks[id] = &Sink{ID: id, SinkContent: SinkContent{Name: id, TableID: "in.c-web." + id, AckLocal: local}}
	}
	def, err := tr.definition(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(def.Sinks) != 2 || !def.Sinks[0].AckLocal || def.Sinks[1].AckLocal {
		t.Errorf("the engine gets %+v", def.Sinks)
	}
}
