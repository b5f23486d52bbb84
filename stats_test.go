package forebay_test

import (
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// TestStoreBytes checks that the files of the local level are counted, which are larger than the rows in them.
func TestStoreBytes(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	must(t, err)
	defer eng.Close()
	err = eng.Define(t.Context(), forebay.Source{ID: "web", Secret: "s", Sinks: []forebay.Sink{{
		ID: "all", Table: forebay.Table{ID: "in.c-web.all", Columns: mapping.Columns{mapping.Body("body")}},
	}}})
	must(t, err)
	mustIngest(t, eng, "web", mapping.JSON([]byte(`{"a":1}`)))
	if st := eng.Stats(); st.LocalBytes == 0 || st.StoreBytes <= st.LocalBytes {
		t.Errorf("got %d bytes of files and %d of rows in them, want some rows, and larger files", st.StoreBytes, st.LocalBytes)
	}
}
