package bucket_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/drivers/bucket/internal/buckettest"
	"github.com/forebay/forebay/internal/killtest"
)

// A process is killed while it stores slices of several parts. What it said it has stored is there, what it has not said is there whole or
// not at all, the next attempt stores it once, and the uploads that are left open can be removed.
func TestKillsDuringUploads(t *testing.T) {
	if url, ok := killtest.Child(); ok {
		putUntilKilled(t, url)
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	w := newWorld(t)
	s := open(t, buckettest.S3URL(w.server, w.name), bucket.Options{PartSize: partSize})
	kills, seed := killtest.Count(t), rand.Uint64()
	t.Logf("%d kills, seed %d", kills, seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var said, before, uploads int
	for i := range kills {
		p := killtest.Start(t, t.Name(), buckettest.S3URL(w.server, w.name)+fmt.Sprintf("#%d", i))
		done := make(map[string]bool)
		p.Lines(1+rng.IntN(2), time.Duration(rng.Int64N(int64(80*time.Millisecond))), func(line string) { done[line] = true })
		delete(done, "begin")
		said += len(done)
		stored := make(map[string]bool)
		for _, key := range w.keys(t) {
			stored[key] = true
			expectObject(t, s, key[:len(key)-len(".slice")], large)
		}
		before += len(stored) - len(done)
		for id := range done {
			if !stored[id+".slice"] {
				t.Fatalf("kill %d: Put of %s had returned nil, and the object is not there", i, id)
			}
		}
		for id := range done { // nobody has recorded that
			check(t, s.Put(t.Context(), object(id), large))
			expectObject(t, s, id, large)
			break
		}
		next := object(fmt.Sprintf("kill-%d-%d", i, len(done)))
		check(t, s.Put(t.Context(), next, large))
		expectObject(t, s, next.ID, large)
		for n := range len(done) + 1 {
			check(t, s.Delete(t.Context(), object(fmt.Sprintf("kill-%d-%d", i, n))))
		}
		if left := w.keys(t); len(left) != 0 {
			t.Fatalf("kill %d: objects %q are left", i, left)
		}
		removed, err := s.RemoveUploads(t.Context(), -time.Hour)
		check(t, err)
		uploads += removed
		w.expectUploads(t, 0)
	}
	t.Logf("%d slices were stored before a kill, %d more were stored and not yet reported, %d uploads were left open", said, before, uploads)
}

func putUntilKilled(t *testing.T, place string) {
	url, i, _ := strings.Cut(place, "#")
	s, err := bucket.Open(t.Context(), url, bucket.Options{PartSize: partSize})
	check(t, err)
	fmt.Println("begin")
	for n := 0; ; n++ {
		id := fmt.Sprintf("kill-%s-%d", i, n)
		check(t, s.Put(context.Background(), object(id), large))
		fmt.Println(id)
	}
}
