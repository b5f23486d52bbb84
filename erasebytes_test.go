package forebay_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/mapping"
)

// filesWith returns the files below a folder that have some bytes.
func filesWith(t *testing.T, root, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it was deleted meanwhile
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(text)) {
			found = append(found, path)
		}
		return nil
	})
	must(t, err)
	return found
}

// After an erasure no file of the data directory has the bytes of the person, neither the bytes of rejected records and waiting rows, nor the bytes
// that were deleted before.
func TestEraseLeavesNoBytes(t *testing.T) {
	data, mem := t.TempDir(), buffertest.NewMemory()
	e, err := forebay.Open(data, forebay.Options{Target: mem, Staging: mem})
	must(t, err)
	defer e.Close()
	mustDefine(t, e, events(keeping))
	const person = "canary-7f3a"
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 200 { // each body is of different bytes, so that nothing is compressed
		user := person
		if i%2 == 0 {
			user = "other"
		}
		id := fmt.Sprintf(`"id":%d,`, i)
		if i%4 < 2 {
			id = ""
		}
		body := fmt.Sprintf(`{%s"user":{"name":"%s"},"x":"%x"}`, id, user, rng.Uint64())
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	if len(filesWith(t, data, person)) == 0 {
		t.Fatal("no file has the person before the erasure: the test finds nothing")
	}
	if r := mustErase(t, e, forebay.Match{Text: person}); r.Left() != 0 || r.Erased() == 0 {
		t.Fatalf("got %+v, want r.Left() == 0 and r.Erased() != 0", r)
	}
	deadline := time.Now().Add(20 * time.Second) // files are deleted in the background
	for left := filesWith(t, data, person); len(left) > 0; left = filesWith(t, data, person) {
		if time.Now().After(deadline) {
			t.Fatalf("%q have the person", left)
		}
		<-time.After(10 * time.Millisecond)
	}
	wantBalance(t, e)
	if n := len(rejectedOf(t, e, forebay.RejectedFilter{})); n != 50 {
		t.Errorf("%d records are in the quarantine, want the 50 of others", n)
	}
}
