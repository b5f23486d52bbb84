package catalog_test

import (
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

// AckLocal is kept with the versions of a sink, a patch changes it, and a patch without it leaves it as it is.
func TestAckLocalIsPartOfASink(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	do := done(t, cat)
	do(cat.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{ID: "a", Name: "a", TableID: "in.c-web.a", Columns: columns(), AckLocal: true},
	}}))
	want := func(local bool, version int) {
		t.Helper()
		if _, s, err := cat.Sink("web", "a"); err != nil || s.AckLocal != local || s.Version.Number != version {
			t.Errorf("AckLocal is %v in version %d, want %v in version %d: %v", s.AckLocal, s.Version.Number, local, version, err)
		}
	}
	want(true, 1)
	do(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Description: new("more")}))
	want(true, 2)
	do(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{AckLocal: new(false)}))
	want(false, 3)
	do(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{AckLocal: new(false)}))
	want(false, 3)
}
