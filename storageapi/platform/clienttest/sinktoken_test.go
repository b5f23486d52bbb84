package clienttest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/drivers"
)

// Each sink has its own token, with no more rights than it needs, and gets a new token when that is gone.
func TestSinkTokens(t *testing.T) {
	w := newWorld(t)
	dir := drivers.NewTokenDir(t.TempDir())
	target := newTarget(t, w, drivers.TargetOptions{Tokens: dir})
	var note []byte
	if err := target.Import(t.Context(), memoryFile("file-1", "\"1\",\"2\"\n", &note)); err != nil {
		t.Fatal(err)
	}
	kept, err := dir.Get(t.Context(), "web/events")
	if err != nil {
		t.Fatal(err)
	}
	made, err := w.TokenDetail(t.Context(), kept.ID)
	if err != nil {
		t.Fatal(err)
	}
	if made.Description != "[_internal] Stream Sink web/events" || !made.CanReadAllFileUploads || made.CanManageBuckets ||
		len(made.BucketPermissions) != 1 || made.BucketPermissions["in.c-web"] != "write" {
		t.Errorf("token %+v", made)
	}
	if text := fmt.Sprintf("%v %+v %#v", kept, kept, kept); strings.Contains(text, string(kept.Token)) {
		t.Error("a printed token shows its secret")
	}

	// A user deletes the token by hand.
	if err := w.DeleteToken(t.Context(), kept.ID); err != nil {
		t.Fatal(err)
	}
	var second []byte
	if err := target.Import(t.Context(), memoryFile("file-2", "\"3\",\"4\"\n", &second)); err != nil {
		t.Fatal(err)
	}
	next, err := dir.Get(t.Context(), "web/events")
	if err != nil || next.ID == kept.ID {
		t.Errorf("token %v, %v", next.ID, err)
	}
	if err := target.Renew(t.Context(), "web/events", "in.c-web.events"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.TokenDetail(t.Context(), next.ID); !storageapi.IsNotFound(err) {
		t.Errorf("the token before is still there: %v", err)
	}
	if err := target.Drop(t.Context(), "web/events"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := target.Drop(t.Context(), "web/events"); err != nil {
			t.Errorf("Drop again: %v", err)
		}
	}
	all, err := storageapi.Collect(w.Tokens(t.Context()))
	if err != nil || len(all) != 1 {
		t.Errorf("%d tokens are left, %v", len(all), err)
	}
	if got := w.rows(t, "in.c-web.events"); len(got) != 2 {
		t.Errorf("rows %q, want two", got)
	}
}

// madeElsewhere is a TokenSource that is no store.
type madeElsewhere drivers.SinkToken

func (m madeElsewhere) Get(context.Context, string) (drivers.SinkToken, error) {
	return drivers.SinkToken(m), nil
}

// Tokens that are made elsewhere are used while they fit, and never renewed from here.
func TestTokensMadeElsewhere(t *testing.T) {
	w := newWorld(t)
	if _, err := w.CreateBucket(t.Context(), storageapi.BucketCreate{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	made, err := w.CreateToken(t.Context(), storageapi.TokenCreate{BucketPermissions: map[string]string{"in.c-web": "write"}, CanReadAllFileUploads: true})
	if err != nil {
		t.Fatal(err)
	}
	used := make(chan string, 100)
	watch := func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/import-async") {
			used <- r.Header.Get(storageapi.TokenHeader)
		}
		return false
	}
	w.before.Store(&watch)
	for i, c := range []struct {
		token drivers.SinkToken
		want  storageapi.Secret
	}{
		{drivers.SinkToken{ID: made.ID, Token: made.Token, Bucket: "in.c-web"}, made.Token},
		{drivers.SinkToken{ID: made.ID, Token: made.Token, Bucket: "in.c-other"}, token},
		{drivers.SinkToken{ID: "1", Token: "1-1-deleted-long-ago", Bucket: "in.c-web"}, token},
	} {
		var note []byte
		target := newTarget(t, w, drivers.TargetOptions{Tokens: madeElsewhere(c.token)})
		if err := target.Import(t.Context(), memoryFile(fmt.Sprintf("file-%d", i), "\"1\",\"2\"\n", &note)); err != nil {
			t.Fatal(err)
		}
		if got := <-used; got != string(c.want) {
			t.Errorf("%d: another token was used", i)
		}
		staging := newStaging(t, w, madeElsewhere(c.token))
		obj := driver.Object{ID: fmt.Sprintf("s-%d", i), FileID: fmt.Sprintf("f-%d", i), SinkID: "web/events", Rows: 1}
		if err := staging.Put(t.Context(), obj, bytesOf("\"1\",\"2\"\n")); err != nil {
			t.Error(err)
		}
		if rc, err := staging.Open(t.Context(), obj); err != nil {
			t.Error(err)
		} else {
			rc.Close()
		}
		if err := staging.Delete(t.Context(), obj); err != nil {
			t.Error(err)
		}
		if err := target.Renew(t.Context(), "web/events", "in.c-web.events"); err == nil {
			t.Error("a token could be renewed without a store")
		}
	}
	if all, err := storageapi.Collect(w.Tokens(t.Context())); err != nil || len(all) != 2 {
		t.Errorf("got %d tokens, %v, want 2", len(all), err)
	}
}
