package kept

import (
	"math"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/forebay/forebay/mapping"
)

// A kept record is exact even if JSON cannot represent it, for example texts that are not UTF-8, and times outside the years 0 to 9999. An edit
// keeps them too.
func TestKeptRecordIsExact(t *testing.T) {
	for name, received := range map[string]time.Time{
		"now": time.Now().UTC(), "none": {}, "far": time.Date(12345, 6, 7, 8, 9, 10, 11, time.UTC), "before": time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC),
		"end": time.Unix(math.MaxInt32<<8, 999_999_999).UTC(),
	} {
		rec := &mapping.Record{
			Received: received, Host: "h\xff", Body: []byte("body\xfe"),
			Header: http.Header{"Plain": {"é", "b"}, "Latin": {"caf\xe9", "ok"}, "Na\xffme": {"v"}},
		}
		rec.Request.Path, rec.Request.Query, rec.Request.Method = "/p\xff", "q=\xfe", "POST"
		data, err := keep(rec, NewRedactor(nil, []string{"*"}))
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		edited, err := WithBody(data, []byte("other"))
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := Parse(edited)
		if err != nil {
			t.Fatal(err)
		}
		for what, r := range map[string]*mapping.Record{"kept": got, "edited": again} {
			if !reflect.DeepEqual(r.Header, rec.Header) || r.Host != rec.Host || r.Request != rec.Request || !r.Received.Equal(received) {
				t.Errorf("received %s, %s: %+v, want %+v", name, what, r, rec)
			}
		}
		if string(got.Body) != string(rec.Body) || string(again.Body) != "other" {
			t.Errorf("bodies %q and %q", got.Body, again.Body)
		}
	}
}
