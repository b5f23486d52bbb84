package platform

import (
	"errors"
	"net/http"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

// A call that waits for its job when the server closes gets an error. The job resumes at the next opening.
func TestCloseWhileACallWaitsForItsJob(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Token: "secret-of-the-test"})
	if err != nil {
		t.Fatal(err)
	}
	const id = 77
	err = s.store.update("", func(tx *txn) error {
		tx.put(jobKey(id), jobRecord{ID: id, Status: storageapi.JobWaiting})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := s.jobs.wait(t.Context(), id)
		answer <- err
	}()
	s.jobs.stop()
	var refused *apiError
	if err := <-answer; !errors.As(err, &refused) || refused.status != http.StatusServiceUnavailable || refused.code != "storage.unavailable" {
		t.Errorf("the call ends with %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
