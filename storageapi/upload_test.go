package storageapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// endless is a source that notices when it is used after it was closed, or by two at once.
type endless struct {
	mu     sync.Mutex
	closed bool
	late   bool
}

func (e *endless) Read(p []byte) (int, error) {
	if !e.mu.TryLock() {
		return 0, errors.New("used by two at once")
	}
	defer e.mu.Unlock()
	e.late = e.late || e.closed
	return len(p), nil
}

func (e *endless) Close() error {
	if !e.mu.TryLock() {
		return errors.New("closed while it is read")
	}
	defer e.mu.Unlock()
	e.closed = true
	return nil
}

// A store may respond before it has read the body, and the transport then continues to read for a while. The source is no
// longer read when the upload has returned.
func TestSourceIsNotReadAfterUpload(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/files/prepare"):
			io.WriteString(w, `{"id":1,"absUploadParams":{"blobName":"k","container":"c","absCredentials":{"SASConnectionString":"BlobEndpoint=http://`+r.Host+`;SharedAccessSignature=s=1"}}}`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	c, err := New(Options{URL: h.URL, Token: secretToken, HTTP: h.Client(), Retry: RetryOptions{Initial: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	var used []*endless
	for range 30 {
		src := &endless{}
		used = append(used, src)
		_, err := c.Upload(t.Context(), FilePrepare{Name: "n"}, Source{Size: 1 << 40, Open: func() (io.ReadCloser, error) { return src, nil }})
		if err == nil {
			t.Fatal("a refused upload succeeded")
		}
	}
	h.Close() // waits for the connections
	for i, src := range used {
		src.mu.Lock()
		if src.late || !src.closed {
			t.Errorf("upload %d: read after its end: %v, closed: %v", i, src.late, src.closed)
		}
		src.mu.Unlock()
	}
}

// A failed job reports errors as a failed call does. Both name the fault with their code.
func TestCodesOfJobs(t *testing.T) {
	taken := &JobError{Job{Error: &JobFailure{Code: "storage.buckets.tableAlreadyExists"}}}
	if !IsAlreadyExists(taken) || !HasCode(taken, "storage.buckets.tablealreadyexists") || IsNotFound(taken) {
		t.Errorf("%v is not recognised", taken)
	}
	if IsAlreadyExists(&JobError{}) || HasCode(&JobError{}, "x") {
		t.Error("a job without a reason was recognised")
	}
}

// A source that does not keep its promise fails the upload, whatever the server thinks of what came.
func TestUploadOfBadSources(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/files/prepare") {
			io.WriteString(w, `{"id":1,"absUploadParams":{"blobName":"k","container":"c","absCredentials":{"SASConnectionString":"BlobEndpoint=http://`+r.Host+`;SharedAccessSignature=s=1"}}}`)
			return
		}
		io.Copy(io.Discard, r.Body)
	}))
	defer h.Close()
	c, err := New(Options{URL: h.URL, Token: secretToken, HTTP: h.Client(), Retry: RetryOptions{Initial: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken source")
	for name, open := range map[string]func() (io.ReadCloser, error){
		"too short":   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("ab")), nil },
		"too long":    func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("abcd")), nil },
		"cannot open": func() (io.ReadCloser, error) { return nil, broken },
		"breaks off": func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("a"), iotestErr{broken})), nil
		},
	} {
		_, err := c.Upload(t.Context(), FilePrepare{Name: "n"}, Source{Size: 3, Open: open})
		if err == nil || (name == "cannot open" || name == "breaks off") && !errors.Is(err, broken) {
			t.Errorf("%s: got %v, want an error", name, err)
		}
	}
}

type iotestErr struct{ err error }

func (r iotestErr) Read([]byte) (int, error) { return 0, r.err }
