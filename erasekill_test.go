package forebay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

const (
	erasedHours   = 30  // objects of the archive
	erasedPerHour = 120 // records in each, of which every third is of the person
	// killsOfErase is how often an erasure is killed before it may end.
	killsOfErase = 4
)

var erasedMatch = forebay.Match{Path: "user", Value: "ada@example.com"}

// openErased opens an engine whose source keeps raw records, and rejects those without an id.
func openErased(t *testing.T, archive, data string) *forebay.Engine {
	t.Helper()
	e, err := forebay.Open(data, forebay.Options{Archive: dir.Archive(archive, dir.ArchiveOptions{})})
	must(t, err)
	mustDefine(t, e, events(keeping, archived, func(s *forebay.Source) {
		s.Sinks = s.Sinks[:1]
		s.Sinks[0].Table.Columns = mapping.Columns{mapping.Path("id", "id"), mapping.Path("user", "user")}
	}))
	return e
}

// eraseUntilKilled says when it begins and when it is done.
func eraseUntilKilled(t *testing.T, place string) {
	var p struct{ Archive, Data string }
	must(t, json.Unmarshal([]byte(place), &p))
	e := openErased(t, p.Archive, p.Data)
	fmt.Println("begin")
	_, err := e.Erase(context.Background(), erasedMatch)
	fmt.Println("done", err)
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends when this process is killed, or its parent has ended
	t.FailNow()
}

// A process is killed again and again while it erases. At each moment the archive and the quarantine have each record of other people once, and when
// an erasure ends they have none of the person.
func TestKillsDuringErase(t *testing.T) {
	if place, ok := proctest.Child(); ok {
		eraseUntilKilled(t, place)
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	rounds := proctest.Kills(t)
	t.Logf("%d kills", rounds*killsOfErase)
	rng := seedtest.Rand(t)
	within, took := 0, 0*time.Second
	for round := range rounds {
		archive, data := filepath.Join(t.TempDir(), "archive"), filepath.Join(t.TempDir(), "data")
		total := fillErased(t, archive, data)
		if took == 0 { // without a kill, in a copy
			whole := fillErased(t, archive+"2", data+"2")
			e := openErased(t, archive+"2", data+"2")
			begin := time.Now()
			if r := mustErase(t, e, erasedMatch); r.Erased() != int64(whole) {
				t.Fatalf("got %+v, want %d erased", r, whole)
			}
			took = time.Since(begin)
			must(t, e.Close())
		}
		for kill := range killsOfErase {
			p := proctest.Start(t, t.Name(), proctest.JSON(map[string]string{"archive": archive, "data": data}))
			p.Lines(1, time.Duration(rng.Int64N(int64(took))), func(string) {})
			e := openErased(t, archive, data)
			left := wantErased(t, e, archive)
			must(t, e.Close())
			if left > 0 && left < total {
				within++
			}
			t.Logf("round %d, kill %d: %d of %d records are left", round, kill, left, total)
		}
		e := openErased(t, archive, data)
		r := mustErase(t, e, erasedMatch)
		if left := wantErased(t, e, archive); left != 0 || r.Left() != 0 {
			t.Fatalf("round %d: %d records are left: %+v", round, left, r)
		}
		if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
			t.Fatalf("round %d: verify: %+v, %v", round, report, err)
		}
		must(t, e.Close())
	}
	if within == 0 {
		seedtest.Missed(t, "no kill was within an erasure: change the number of records")
	}
}

// fillErased stores the records, and returns how many places have one of the person. Each record is in the archive, and each tenth in the quarantine
// too.
func fillErased(t *testing.T, archive, data string) (total int) {
	t.Helper()
	e := openErased(t, archive, data)
	for hour := range erasedHours {
		var recs []*mapping.Record
		for i := range erasedPerHour {
			n := hour*erasedPerHour + i
			user := "bob@example.com"
			if n%3 == 0 {
				user = "ada@example.com"
				total++
			}
			body := fmt.Sprintf(`{"id":%d,"n":%d,"user":%q}`, n, n, user)
			if n%10 == 0 {
				body = fmt.Sprintf(`{"n":%d,"user":%q}`, n, user)
				if n%3 == 0 {
					total++
				}
			}
			rec := mapping.JSON([]byte(body))
			rec.Received = time.Date(2026, 1, 1, hour, 0, i, 0, time.UTC)
			recs = append(recs, rec)
		}
		if _, err := e.IngestBatch(t.Context(), "web", recs); err != nil {
			t.Fatal(err)
		}
	}
	must(t, errors.Join(e.FlushAll(t.Context()), e.Close()))
	return total
}

// wantErased checks that each record of other people is there, in its places once, and returns how many places have one of the person.
func wantErased(t *testing.T, e *forebay.Engine, archive string) (left int) {
	t.Helper()
	count := func(what, text string, every int) {
		for n := 0; n < erasedHours*erasedPerHour; n += every {
			got := strings.Count(text, fmt.Sprintf(`"n":%d,`, n))
			switch {
			case n%3 != 0 && got != 1:
				t.Fatalf("%s has record %d of another person %d times", what, n, got)
			case n%3 == 0 && got > 1:
				t.Fatalf("%s has record %d %d times", what, n, got)
			case n%3 == 0:
				left += got
			}
		}
	}
	count("the archive", strings.ReplaceAll(objectText(t, dir.Archive(archive, dir.ArchiveOptions{}), "web"), `""`, `"`), 1)
	var held strings.Builder
	for _, r := range rejectedOf(t, e, forebay.RejectedFilter{}) {
		c, err := e.Sink("web", "users").Quarantine().Get(t.Context(), r.ID)
		must(t, err)
		held.Write(c.Record.Body)
	}
	count("the quarantine", held.String(), 10)
	return left
}

// erasedSources is how many sources have calls with the key of the person, two receipts each.
const erasedSources = 400

var (
	erasedKey = forebay.Match{Header: "Idempotency-Key", HeaderValue: "ada"}
	otherKey  = forebay.Match{Header: "Idempotency-Key", HeaderValue: "bob", DryRun: true}
)

// openKeys opens an engine with many sources, and one that the process keeps busy.
func openKeys(t *testing.T, data string) *forebay.Engine {
	t.Helper()
	e, err := forebay.Open(data, forebay.Options{MaxSources: erasedSources + 1})
	must(t, err)
	eachTenant(func(i int) {
		if err := e.Define(t.Context(), tenant(i)); err != nil {
			t.Error(err)
		}
	})
	busy := tenant(erasedSources)
	busy.ID = "busy"
	mustDefine(t, e, busy)
	return e
}

// eachTenant calls do for each source, many at a time, because each call waits for the disk.
func eachTenant(do func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for i := next.Add(1) - 1; i < erasedSources; i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	group.Wait()
}

// onceOf is the call with a key in each source, as Go and as HTTP makes it. It returns how many calls were known before.
func onceOf(t *testing.T, e *forebay.Engine, key string) int {
	t.Helper()
	event, err := callkey.Event([]string{key})
	must(t, err)
	var replayed atomic.Int64
	eachTenant(func(i int) {
		for _, name := range []string{key, event} {
			res, err := e.IngestOnce(t.Context(), fmt.Sprint("tenant-", i), forebay.Once{Key: name}, []*mapping.Record{mapping.JSON([]byte(`{"name":"a"}`))})
			switch {
			case err != nil:
				t.Error(err)
			case res[0].Sinks[0].Replayed:
				replayed.Add(1)
			}
		}
	})
	return int(replayed.Load())
}

// keysFound returns how many receipts a dry run finds.
func keysFound(t *testing.T, e *forebay.Engine, m forebay.Match) (found int) {
	t.Helper()
	m.DryRun = true
	for _, p := range mustErase(t, e, m).Places {
		if p.Place == forebay.ErasedKeys && p.Name != "" {
			found += int(p.Found)
		}
	}
	return found
}

// eraseKeysUntilKilled erases the receipts of a key, and kills its process as soon as it knows no more than so many keys. Meanwhile it accepts calls,
// whose commits delete some of the receipts.
func eraseKeysUntilKilled(t *testing.T, place string) {
	var p struct {
		Data string
		Keys int64
	}
	must(t, json.Unmarshal([]byte(place), &p))
	self, err := os.FindProcess(os.Getpid())
	must(t, err)
	e := openKeys(t, p.Data)
	go func() {
		for {
			_, _ = e.Ingest(context.Background(), "busy", mapping.JSON([]byte(`{"name":"a"}`)))
		}
	}()
	go func() {
		for e.Buffer().Stats().Keys > p.Keys {
			runtime.Gosched()
		}
		_ = self.Kill()
	}()
	_, err = e.Erase(context.Background(), erasedKey)
	fmt.Println("done", err)
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends when this process is killed, or its parent has ended
	t.FailNow()
}

// A process is killed again and again while it erases the receipts of a key in many sources. The receipts of other keys stay. An erasure that has ended
// is durable, and after the last one a repeated call stores its record again.
func TestKillsDuringEraseOfKeys(t *testing.T) {
	if place, ok := proctest.Child(); ok {
		eraseKeysUntilKilled(t, place)
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	const total = 2 * erasedSources
	rounds, rng, within := proctest.Kills(t), seedtest.Rand(t), 0
	for round := range rounds {
		data := t.TempDir()
		e := openKeys(t, data)
		if known := onceOf(t, e, "ada") + onceOf(t, e, "bob"); known != 0 {
			t.Fatalf("%d calls are known before the first, want 0", known)
		}
		must(t, errors.Join(e.FlushAll(t.Context()), e.Close()))
		left := total
		for kill := 0; kill < killsOfErase && left > 0; kill++ {
			keys := total + left - 1 - rng.IntN(left/4+1) // more are erased until it is killed
			if kill == killsOfErase-1 {
				keys = 0 // it is killed when it is done
			}
			p := proctest.Start(t, t.Name(), proctest.JSON(map[string]any{"data": data, "keys": keys}))
			done := false
			for line := range p.All() {
				done = line == "done <nil>"
				go p.Kill()
			}
			e := openKeys(t, data)
			before, others := left, keysFound(t, e, otherKey)
			if left = keysFound(t, e, erasedKey); left > before || done && left > 0 || others != total {
				t.Fatalf("round %d, kill %d: %d of %d receipts are left (erased: %t), and %d of others, want %d", round, kill, left, before, done, others, total)
			}
			if left > 0 && left < before {
				within++
			}
			t.Logf("round %d, kill %d: %d of %d receipts are left, erased: %t", round, kill, left, before, done)
			must(t, e.Close())
		}
		e = openKeys(t, data)
		r := mustErase(t, e, erasedKey)
		if left := keysFound(t, e, erasedKey); left != 0 || r.Left() != 0 {
			t.Fatalf("round %d: %d receipts are left: %+v", round, left, r)
		}
		if known := onceOf(t, e, "bob"); known != total {
			t.Errorf("round %d: %d calls of others are known, want %d", round, known, total)
		}
		if known := onceOf(t, e, "ada"); known != 0 {
			t.Errorf("round %d: %d calls are known after their receipts were erased", round, known)
		}
		if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
			t.Errorf("round %d: verify: %+v, %v", round, report, err)
		}
		must(t, e.Close())
	}
	if within == 0 {
		seedtest.Missed(t, "no kill was between the first receipt and the last: change the number of sources")
	}
}
