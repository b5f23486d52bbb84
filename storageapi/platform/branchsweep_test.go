package platform

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// The next opening removes the leftovers of a call that was running when its branch was deleted, and nothing else.
func TestCallOutlivesItsBranch(t *testing.T) {
	opts := Options{Token: "secret-of-the-test", AnyComponent: true}
	dir := t.TempDir()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	defer web.Close()
	c, err := storageapi.New(storageapi.Options{URL: web.URL, Token: opts.Token, HTTP: web.Client()})
	must(err)
	ctx := t.Context()
	kept, err := c.CreateDevBranch(ctx, "kept", "")
	must(err)
	gone, err := c.CreateDevBranch(ctx, "gone", "")
	must(err)
	for _, in := range []*storageapi.Client{c, c.Branch(kept.ID.String())} {
		_, err := in.CreateConfiguration(ctx, "any", storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"})
		must(err)
		_, err = in.CreateBucket(ctx, storageapi.BucketCreate{Name: "x"})
		must(err)
		_, err = in.SetBucketMetadata(ctx, "in.c-x", "me", storageapi.KeyValue{Key: "k", Value: "v"})
		must(err)
	}

	lock := configID{gone.ID.String(), "any", "late"}.lock()
	release := s.store.locks.Hold(lock)
	late := make(chan error, 1)
	go func() {
		_, err := c.Branch(gone.ID.String()).CreateConfiguration(ctx, "any", storageapi.ConfigurationCreate{ConfigurationID: "late", Name: "late"})
		late <- err
	}()
	waits := func() bool { return s.store.locks.Users(lock) == 2 }
	for tick := time.NewTicker(time.Millisecond); !waits(); <-tick.C {
		must(ctx.Err())
	}
	must(c.DeleteDevBranch(ctx, gone.ID))
	release()
	<-late // whatever it returns

	must(s.Close())
	s, err = Open(dir, opts)
	must(err)
	must(s.store.view(func(tx *txn) error {
		counts := make(map[string]int)
		for _, records := range branchedRecords() {
			for k := range tx.scan(records, false) {
				branch, _, _ := strings.Cut(k, sep)
				counts[branch]++
			}
		}
		if n := counts[gone.ID.String()]; n != 0 {
			t.Errorf("%d records of a branch that is gone, want 0", n)
		}
		if counts[s.defaultBranch.key()] == 0 || counts[s.defaultBranch.key()] != counts[kept.ID.String()] {
			t.Errorf("records by branch %v, want as many in both that are there", counts)
		}
		return nil
	}))
}
