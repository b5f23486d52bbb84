package streamapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

const erasures = b + "/erase"

// The records of a person are erased over the API, by admins alone, and the response has the places and tables.
func TestErase(t *testing.T) {
	s := newMaintained(t)
	s.define(datatype.Int64, false)
	for _, body := range []string{`{"price":"ada"}`, `{"price":"bob"}`, `{"price":"ada"}`} {
		if _, err := s.eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	s.want(403, "forbidden", readerToken, "POST", erasures, `{"text":"ada"}`)
	s.want(400, "is empty", testToken, "POST", erasures, `{}`)
	s.want(400, "belong together", testToken, "POST", erasures, `{"path":"price"}`)
	s.want(400, "wait is", testToken, "POST", erasures, `{"text":"ada","wait":"soon"}`)
	s.want(404, "sourceNotFound", testToken, "POST", erasures, `{"text":"ada","sourceIds":["none"]}`)
	s.want(200, `"found":2,"erased":0,"left":2`, testToken, "POST", erasures, `{"path":"price","value":"ada","dryRun":true}`)
	s.want(200, `"found":2,"erased":2,"left":0`, testToken, "POST", erasures, `{"path":"price","value":"ada","sourceIds":["shop"],"wait":"1m","reason":"request 4711"}`)
	s.want(200, `"searched":1,"found":0`, testToken, "POST", erasures, `{"text":"ADA"}`)
	s.want(200, `"tableId":"in.c-shop.int64"`, testToken, "POST", erasures, `{"text":"ADA"}`)
}

// An erasure may take longer than the time-out of the server, which ends other requests.
func TestEraseIsSlow(t *testing.T) {
	const timeout = 200 * time.Millisecond
	mem := buffertest.NewMemory()
	mem.Before = func(ctx context.Context, call buffertest.Call) error {
		if call.Op == buffertest.OpVoid {
			<-time.After(2 * timeout)
		}
		return nil
	}
	s := newMaintainedIn(t, t.TempDir(), mem)
	s.define(datatype.String, false)
	if _, err := s.eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"price":"ada"}`))); err != nil {
		t.Fatal(err)
	}
	h, err := NewMaintenance(s.on, Options{Auth: testAuth{}, IngestURL: "http://127.0.0.1:1", Ingest: stream.Options{ProjectID: 7, BranchID: 3}})
	must(t, err)
	srv := httptest.NewUnstartedServer(h)
	srv.Config.WriteTimeout = timeout
	srv.Start()
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+erasures, strings.NewReader(`{"text":"ada"}`))
	must(t, err)
	req.Header.Set(tokenHeader, testToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v, want no error and resp.StatusCode == %v", resp, err, http.StatusOK)
	}
	resp.Body.Close()
}
