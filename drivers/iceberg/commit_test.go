package iceberg_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/drivers/iceberg/icebergtest"
)

// A commit whose response is lost is found, and no other commit is made.
func TestLostAnswers(t *testing.T) {
	hangUp := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	status := func(code int) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(code) }
	}
	for name, fault := range map[string]struct {
		stored bool
		answer func(w http.ResponseWriter)
		nil    bool // Import succeeds at once
	}{
		"stored, broken connection":     {true, hangUp, true},
		"stored, 500":                   {true, status(500), true},
		"stored, 502":                   {true, status(502), true},
		"stored, 504":                   {true, status(504), true},
		"stored, 409 of a repetition":   {true, status(409), true},
		"stored, 400":                   {true, status(400), true},
		"not stored, broken connection": {false, hangUp, false},
		"not stored, 503":               {false, status(503), false},
		"not stored, 409":               {false, status(409), true},
		"not stored, 403":               {false, status(403), false},
	} {
		t.Run(name, func(t *testing.T) {
			local := open(t, t.TempDir(), iceberg.Options{}).Catalog()
			server := icebergtest.NewServer(local)
			target := iceberg.New(overHTTP(t, server), iceberg.Options{})
			mustImport(t, target, makeFile("engine-f1", 0, 10))
			var broken atomic.Bool
			server.Break(func(w http.ResponseWriter, commit func() error) {
				broken.Store(true)
				if fault.stored {
					if err := commit(); err != nil {
						t.Error(err)
					}
				}
				fault.answer(w)
			})
			f := makeFile("engine-f2", 10, 10)
			err := target.Import(t.Context(), f)
			if (err == nil) != fault.nil || driver.IsPermanent(err) != (name == "not stored, 403") {
				t.Errorf("Import = %v", err)
			}
			if !broken.Load() {
				t.Error("no commit was made")
			}
			mustImport(t, target, f)
			mustImport(t, target, makeFile("engine-f1", 0, 10))
			expectIDs(t, local, "events", 20)
		})
	}
}

// faultyCatalog calls before ahead of each commit, with the number of earlier commits.
type faultyCatalog struct {
	catalog.Catalog
	before func(n int) error
	mu     sync.Mutex
	n      int
	leader any // the id of the file, given to startImport, whose call makes the newest commit
}

func (c *faultyCatalog) CommitTable(ctx context.Context, id table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	c.mu.Lock()
	n := c.n
	c.n++
	c.leader = ctx.Value(fileKey{})
	c.mu.Unlock()
	if err := c.before(n); err != nil {
		return nil, "", err
	}
	return c.Catalog.CommitTable(ctx, id, reqs, updates)
}

// Another attempt of the same file commits between the look for the id and the commit.
func TestOtherAttemptIsFaster(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, local, makeFile("engine-f1", 0, 10))
	c := &faultyCatalog{Catalog: local.Catalog()}
	c.before = func(n int) error {
		if n == 0 {
			mustImport(t, local, makeFile("engine-f2", 10, 10))
		}
		return nil
	}
	mustImport(t, iceberg.New(c, iceberg.Options{}), makeFile("engine-f2", 10, 10))
	if c.n != 1 {
		t.Errorf("%d commits were made, want 1", c.n)
	}
	expectIDs(t, local.Catalog(), "events", 20)
}

// A table of another program lets the library repeat commits, which would register the data files twice.
func TestLibraryDoesNotRepeatCommits(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, local, makeFile("engine-f1", 0, 10))
	tx := load(t, local.Catalog(), "events").NewTransaction()
	if err := tx.SetProperties(iceberglib.Properties{table.CommitNumRetriesKey: "4", table.CommitMinRetryWaitMsKey: "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &faultyCatalog{Catalog: local.Catalog()}
	c.before = func(n int) error {
		if n == 0 {
			mustImport(t, local, makeFile("engine-f2", 10, 10))
			return fmt.Errorf("%w: somebody was faster", table.ErrCommitFailed)
		}
		return nil
	}
	mustImport(t, iceberg.New(c, iceberg.Options{}), makeFile("engine-f2", 10, 10))
	expectIDs(t, local.Catalog(), "events", 20)
}

func TestPanicOfTheLibrary(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	c := &faultyCatalog{Catalog: local.Catalog()}
	c.before = func(n int) error {
		if n == 0 {
			panic("a type that Iceberg lacks")
		}
		return nil
	}
	target := iceberg.New(c, iceberg.Options{})
	f := makeFile("engine-f1", 0, 10)
	if err := target.Import(t.Context(), f); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "a type that Iceberg lacks") {
		t.Errorf("Import = %v, want a permanent error with the panic", err)
	}
	mustImport(t, target, f)
	expectIDs(t, local.Catalog(), "events", 10)
}

// Files that wait for a commit are committed together.
func TestWaitingFilesShareACommit(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, local, makeFile("engine-f0", 0, 10))
	const files = 8
	c := &faultyCatalog{Catalog: local.Catalog()}
	target := iceberg.New(c, iceberg.Options{})
	var wg sync.WaitGroup
	var saved sync.WaitGroup // the files whose data is written
	saved.Add(files)
	c.before = func(n int) error {
		if n == 0 {
			saved.Wait()
		}
		return nil
	}
	for i := range files {
		wg.Go(func() {
			f := makeFile(fmt.Sprintf("engine-f%d", i+1), 10*(i+1), 10)
			save := f.SaveProgress
			f.SaveProgress = func(ctx context.Context, note []byte) error {
				saved.Done()
				return save(ctx, note)
			}
			if err := target.Import(context.Background(), f); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if c.n > 5 {
		t.Errorf("got %d commits for %d files that waited, want at most 5", c.n, files)
	}
	expectIDs(t, local.Catalog(), "events", 10*(files+1))
}

// A call that gave up is not committed by a later call.
func TestCallThatGaveUpIsNotCommitted(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, local, makeFile("engine-f1", 0, 10))
	c := &faultyCatalog{Catalog: local.Catalog()}
	target := iceberg.New(c, iceberg.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	c.before = func(n int) error {
		if n == 0 { // while engine-f2 commits, engine-f3 waits for its turn and gives up
			f := makeFile("engine-f3", 100, 10)
			save := f.SaveProgress
			f.SaveProgress = func(_ context.Context, note []byte) error { defer cancel(); return save(t.Context(), note) }
			if err := target.Import(ctx, f); !errors.Is(err, context.Canceled) {
				t.Errorf("Import = %v, want the end of its context", err)
			}
		}
		return nil
	}
	mustImport(t, target, makeFile("engine-f2", 10, 10))
	mustImport(t, target, makeFile("engine-f4", 20, 10))
	expectIDs(t, local.Catalog(), "events", 30)
}

type fileKey struct{}

// turnContext closes waits when an import asks for Done after its note is saved. By then the import waits for its turn.
type turnContext struct {
	context.Context
	saved atomic.Bool
	once  sync.Once
	waits chan struct{}
}

func (c *turnContext) Done() <-chan struct{} {
	if c.saved.Load() {
		c.once.Do(func() { close(c.waits) })
	}
	return c.Context.Done()
}

// startImport begins an import while another call commits. It returns when the import waits for its turn.
func startImport(ctx context.Context, target driver.Target, f *driver.File) <-chan error {
	c := &turnContext{Context: context.WithValue(ctx, fileKey{}, f.ID), waits: make(chan struct{})}
	begun := *f
	begun.SaveProgress = func(ctx context.Context, note []byte) error {
		defer c.saved.Store(true)
		return f.SaveProgress(ctx, note)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- target.Import(c, &begun)
		c.once.Do(func() { close(c.waits) })
	}()
	<-c.waits
	return ended
}

// The call of a file that failed may have removed the data files, so no later round of the group commits them.
func TestFailedFileIsNotCommittedByItsGroup(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, local, makeFile("engine-f1", 0, 10))
	c := &faultyCatalog{Catalog: local.Catalog()}
	target := iceberg.New(c, iceberg.Options{})
	failing := makeFile("damaged-f1", 40, 10)
	var good, bad <-chan error
	var badErr error
	c.before = func(n int) error {
		switch n {
		case 0: // for engine-f2
			good = startImport(t.Context(), target, makeFile("engine-f3", 20, 10))
			bad = startImport(t.Context(), target, failing)
			setProperty(t, local.Catalog(), "forebay.imported.damaged", "yesterday 0")
		case 1: // for engine-f3 alone, a conflict, before which the property is repaired
			if c.leader != failing.ID {
				badErr = <-bad
			}
			setProperty(t, local.Catalog(), "forebay.imported.damaged", time.Now().UTC().Format(time.RFC3339)+" 0")
			mustImport(t, local, makeFile("other-f1", 30, 10))
		}
		return nil
	}
	mustImport(t, target, makeFile("engine-f2", 10, 10))
	if err := <-good; err != nil {
		t.Error(err)
	}
	if c.leader == failing.ID {
		badErr = <-bad
	}
	if badErr == nil {
		t.Error("a damaged property is taken for an empty one")
	}
	if c.n != 3 {
		t.Errorf("got %d commits, want 3: the commit for engine-f3 has no conflict", c.n)
	}
	expectIDs(t, local.Catalog(), "events", 40)
	mustImport(t, target, failing)
	expectIDs(t, local.Catalog(), "events", 50)
}

// A context that ends while its call commits for others fails none of them.
func TestGroupOutlivesItsLeader(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, local, makeFile("engine-f1", 0, 10))
	c := &faultyCatalog{Catalog: local.Catalog()}
	target := iceberg.New(c, iceberg.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leader := makeFile("engine-f3", 20, 10)
	var gaveUp <-chan error
	var others []<-chan error
	c.before = func(n int) error {
		switch n {
		case 0: // for engine-f2
			gaveUp = startImport(ctx, target, leader)
			for i := range 3 {
				others = append(others, startImport(t.Context(), target, makeFile(fmt.Sprintf("engine-f%d", 4+i), 30+10*i, 10)))
			}
		case 1: // for engine-f3 and the others
			cancel()
		}
		return nil
	}
	mustImport(t, target, makeFile("engine-f2", 10, 10))
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("Import = %v, want the end of its context", err)
	}
	for _, other := range others {
		if err := <-other; err != nil {
			t.Errorf("Import of a file with a live context = %v", err)
		}
	}
	mustImport(t, target, leader)
	expectIDs(t, local.Catalog(), "events", 60)
}

// loadingCatalog calls after at the end of each load of a table, with the number of earlier loads.
type loadingCatalog struct {
	catalog.Catalog
	after func(n int)
	n     int
}

func (c *loadingCatalog) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	tbl, err := c.Catalog.LoadTable(ctx, id)
	c.after(c.n)
	c.n++
	return tbl, err
}

// A context that ends between two steps is never taken for a success.
func TestEndOfContextIsNoSuccess(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, local, makeFile("engine-f0", 0, 1))
	at := 0
	for ended := true; ended; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		ended = false
		c := &loadingCatalog{Catalog: local.Catalog(), after: func(n int) {
			if ended = ended || n == at; n == at {
				cancel()
			}
		}}
		f := makeFile(fmt.Sprintf("engine-f%d", at+1), at+1, 1)
		err := iceberg.New(c, iceberg.Options{}).Import(ctx, f)
		if found := len(rowsOf(t, local.Catalog(), "events")) == at+2; err == nil && !found {
			t.Errorf("load %d: Import = nil, and the row is not in the table", at)
		}
		cancel()
		mustImport(t, local, f)
		expectIDs(t, local.Catalog(), "events", at+2)
	}
	if at < 3 {
		t.Errorf("the context ended at %d loads only", at-1)
	}
}

func TestFourEngines(t *testing.T) {
	folder := t.TempDir()
	const engines, files, rows = 4, 10, 20
	var wg sync.WaitGroup
	for e := range engines {
		target := open(t, folder, iceberg.Options{PartitionBy: "at"})
		wg.Go(func() {
			for i := range files {
				f := makeFile(fmt.Sprintf("engine%d-f%d", e, i), (e*files+i)*rows, rows)
				for range 2 { // also a repetition
					if err := target.Import(context.Background(), f); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	expectIDs(t, open(t, folder, iceberg.Options{}).Catalog(), "events", engines*files*rows)
}

// Two engines add the same column.
func TestEnginesExtendTogether(t *testing.T) {
	folder := t.TempDir()
	first, second := open(t, folder, iceberg.Options{}), open(t, folder, iceberg.Options{})
	mustImport(t, first, makeFile("engine-f1", 0, 10))
	c := &faultyCatalog{Catalog: first.Catalog()}
	wider := makeFile("engine-f2", 10, 10).Table
	wider.Columns = append(wider.Columns, datatype.Column{Name: "more", Type: datatype.JSON})
	c.before = func(n int) error {
		if n == 0 {
			return second.Extend(t.Context(), wider)
		}
		return nil
	}
	if err := iceberg.New(c, iceberg.Options{}).Extend(t.Context(), wider); err != nil {
		t.Fatal(err)
	}
	if c.n != 1 {
		t.Errorf("got %d changes of the table, want 1", c.n)
	}
	if fields := load(t, first.Catalog(), "events").Schema().Fields(); len(fields) != 3 {
		t.Errorf("the table has the columns %v", fields)
	}
}
