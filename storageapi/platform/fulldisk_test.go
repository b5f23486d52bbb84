package platform

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// smallDisk mounts a file system of some MiB.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	at := t.TempDir()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", size), "tmpfs", at).CombinedOutput()
	if err != nil {
		t.Skipf("needs the right to mount a small file system (root on Linux): %v: %s", err, bytes.TrimSpace(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v: %s", err, out)
		}
	})
	return at
}

// The disk below the metadata becomes full, really, and has room again. Calls are refused with 503 and the time to try
// again, the readiness says so, all readable data is there after a restart, and without a restart everything continues.
func TestFullDisk(t *testing.T) {
	const token = "master-token-of-the-test"
	disk := smallDisk(t, 24)
	dir, ballast := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
	options := Options{Token: token, AnyComponent: true}
	s, err := Open(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path, form string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(form))
		r.Header.Set("X-StorageApi-Token", token)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	const configs = "/v2/storage/components/app.test/configs"
	create := func(id string) *httptest.ResponseRecorder {
		return call("POST", configs, url.Values{"configurationId": {id}, "name": {id}, "description": {strings.Repeat("x", 20_000)}}.Encode())
	}
	if w := create("first"); w.Code != http.StatusCreated {
		t.Fatalf("got %d %s, want %v", w.Code, w.Body, http.StatusCreated)
	}
	for round := range 3 {
		if w := call("GET", "/readiness-check", ""); w.Code != http.StatusOK {
			t.Fatalf("round %d, ready: %d %s", round, w.Code, w.Body)
		}
		if w := call("GET", "/health-check", ""); w.Code != http.StatusOK {
			t.Fatalf("round %d, health: %d %s", round, w.Code, w.Body)
		}
		// Everything is taken, to the last byte.
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		for size := 1 << 20; size > 0; size /= 2 {
			for err = nil; err == nil; {
				_, err = f.Write(make([]byte, size))
			}
		}
		_ = f.Close()
		answers := map[string]int{}
		for i := range 300 {
			id := fmt.Sprintf("c%d-%d", round, i)
			w := create(id)
			if answers[id] = w.Code; w.Code == http.StatusCreated {
				continue
			}
			if after, _ := strconv.Atoi(w.Header().Get("Retry-After")); w.Code != http.StatusServiceUnavailable || after < 1 {
				t.Fatalf("a call on a full disk: %d %v %s", w.Code, w.Header(), w.Body)
			}
			if w := call("GET", configs+"/"+id, ""); w.Code == http.StatusOK {
				t.Fatalf("%s was refused, and can be read while the disk is full", id)
			}
		}
		if answers[fmt.Sprintf("c%d-299", round)] == http.StatusCreated {
			t.Fatal("the disk does not become full")
		}
		if w := call("GET", "/readiness-check", ""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("ready on a full disk: %d %s", w.Code, w.Body)
		}
		if err := os.Remove(ballast); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; {
			if create(fmt.Sprintf("c%d-after", round)).Code == http.StatusCreated {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("with room the server takes no change")
			}
			if err := s.store.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		shown := map[string]int{}
		for id, code := range answers {
			if shown[id] = call("GET", configs+"/"+id, "").Code; code == http.StatusCreated && shown[id] != http.StatusOK {
				t.Errorf("%s was acknowledged, and is answered with %d", id, shown[id])
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(dir, options); err != nil {
			t.Fatal(err)
		}
		for id, code := range shown {
			if now := call("GET", configs+"/"+id, "").Code; now != code {
				t.Errorf("%s: got %d before the restart, %d after it, want %v", id, code, now, code)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
