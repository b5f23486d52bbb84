package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

// doubtful is a store whose next commit fails after or before it was made, and that cannot be read for a while then.
type doubtful struct {
	*memory
	mu     sync.Mutex
	made   bool // by the commit that fails
	armed  func(records map[string][]byte) bool
	unread int  // how many reads fail after it
	doubt  bool // the commit has failed
}

var errDoubt = errors.New("the disk went away")

func (d *doubtful) Commit(records map[string][]byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed == nil || !d.armed(records) {
		return d.memory.Commit(records)
	}
	d.armed, d.doubt = nil, true
	if d.made {
		if err := d.memory.Commit(records); err != nil {
			return err
		}
	}
	return errDoubt
}

func (d *doubtful) Get(key string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.doubt && d.unread > 0 {
		d.unread--
		return nil, errDoubt
	}
	return d.memory.Get(key)
}

// ofChange matches commits that have a definition in them.
func ofChange(records map[string][]byte) bool {
	for key := range records {
		if strings.HasPrefix(key, "source/") {
			return true
		}
	}
	return false
}

// TestOutcomeIsReadBack lets the write of a change fail whose outcome is not known. The task, the catalog and the engine
// follow the store.
func TestOutcomeIsReadBack(t *testing.T) {
	for _, made := range []bool{true, false} {
		for _, unread := range []int{0, 1, 30} {
			t.Run(fmt.Sprintf("made %v, %d reads fail", made, unread), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					eng := openEngine(t, forebay.Options{})
					store := &doubtful{memory: newMemory(), made: made, unread: unread}
					tokens := &countingTokens{live: map[string]bool{}}
					cat := openCatalog(t, eng, catalog.Options{Store: store, Tokens: tokens})
					mustTask := done(t, cat)
					mustTask(cat.CreateSource(user, spec("Web", "a")))
					mustTask(cat.Disable(user, catalog.Ref{Source: "web"}))
					store.mu.Lock()
					store.armed = ofChange
					store.mu.Unlock()
					task, err := cat.Enable(user, catalog.Ref{Source: "web"})
					must(t, err)
					if unread == 30 {
						synctest.Wait()
						if now, _ := cat.Task(task.ID); now.Finished() {
							t.Errorf("the task has ended before its outcome was known: %+v", now)
						}
						if def, _ := eng.Source("web"); !def.Disabled {
							t.Error("the engine runs ahead of what is known")
						}
						if _, err := cat.Disable(user, catalog.Ref{Source: "web"}); code(err) != catalog.Busy {
							t.Errorf("a change while another is in doubt: %v", err)
						}
					}
					task, err = cat.Wait(t.Context(), task.ID)
					if err != nil || (task.Status == catalog.Succeeded) != made {
						t.Errorf("task is %+v, %v", task, err)
					}
					source, _ := cat.Source("web")
					if def, _ := eng.Source("web"); def.Disabled == made || (source.Disabled == nil) != made {
						t.Errorf("engine: disabled is %v; catalog: %v", def.Disabled, source.Disabled)
					}
					token, ok := cat.Handle("web", "a").Token()
					if ok && !tokens.has(token.ID) {
						t.Error("the token of the sink is deleted")
					}
					if tokens.has("2") != made {
						t.Errorf("the token of the change exists: %v", !made)
					}
					store.mu.Lock()
					store.unread = 0
					store.mu.Unlock()
					mustTask(cat.Enable(user, catalog.Ref{Source: "web"}))
				})
			})
		}
	}
}

// countingTokens knows which tokens exist.
type countingTokens struct {
	mu   sync.Mutex
	made int
	live map[string]bool
}

func (c *countingTokens) CreateToken(context.Context, string, string) (catalog.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	id := fmt.Sprint(c.made)
	c.live[id] = true
	return catalog.Token{ID: id, Value: "secret-" + id}, nil
}

func (c *countingTokens) DeleteToken(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, id)
	return nil
}

func (c *countingTokens) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live[id]
}

// TestCloseInDoubt closes a catalog while the outcome of a change is not known. The next Open follows the store.
func TestCloseInDoubt(t *testing.T) {
	for _, made := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			eng := openEngine(t, forebay.Options{})
			store := &doubtful{memory: newMemory(), made: made, unread: 1 << 30}
			cat, err := catalog.Open("", eng, catalog.Options{Store: store})
			must(t, err)
			done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
			store.mu.Lock()
			store.armed = ofChange
			store.mu.Unlock()
			task, err := cat.Disable(user, catalog.Ref{Source: "web"})
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := cat.Wait(ctx, task.ID); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("made %v: waiting gives %v", made, err)
			}
			must(t, cat.Close())
			if ended, err := cat.Task(task.ID); err != nil || !strings.Contains(ended.Failure, "next Open") {
				t.Errorf("made %v: after Close the task is %+v, %v", made, ended, err)
			}
			again := openCatalog(t, eng, catalog.Options{Store: store.memory})
			ended, err := again.Task(task.ID)
			if err != nil || (ended.Status == catalog.Succeeded) != made || !ended.Finished() {
				t.Errorf("made %v: task is %+v, %v", made, ended, err)
			}
			if def, _ := eng.Source("web"); def.Disabled != made {
				t.Errorf("made %v: the engine has disabled %v", made, def.Disabled)
			}
		})
	}
}

// TestRotationInDoubt gives a call without a task up before its outcome is known. The change continues.
func TestRotationInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := openEngine(t, forebay.Options{})
		store := &doubtful{memory: newMemory(), made: true, unread: 30}
		cat := openCatalog(t, eng, catalog.Options{Store: store})
		mustTask := done(t, cat)
		mustTask(cat.CreateSource(user, spec("Web", "a")))
		before, _ := cat.Source("web")
		store.mu.Lock()
		store.armed = ofChange
		store.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cat.RotateSecret(ctx, user, "web", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a rotation in doubt gives %v", err)
		}
		if source, _ := cat.Source("web"); source.Secret != before.Secret {
			t.Error("the secret is shown before it is known to be stored")
		}
		time.Sleep(time.Hour)
		after, _ := cat.Source("web")
		if def, _ := eng.Source("web"); after.Secret == before.Secret || def.Secret != after.Secret {
			t.Error("catalog and engine do not have the secret of the store")
		}
		mustTask(cat.Disable(user, catalog.Ref{Source: "web"}))
	})
}

// TestNoTokens opens a catalog without tokens on a store that has some to delete.
func TestNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.records["retired/1"] = []byte(`{"token":{"id":"1"},"source":"web","sink":"a","at":"2020-01-02T03:04:05Z"}`)
		openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: store})
		time.Sleep(2 * time.Minute)
		if len(store.keys("retired/")) != 1 {
			t.Error("the token is forgotten")
		}
	})
}

// TestEndOfTaskIsWrittenLater has the store fail the end of a task that did not succeed. It is stored when that works
// again.
func TestEndOfTaskIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		setFail := func(err error) {
			store.mu.Lock()
			defer store.mu.Unlock()
			store.fail = err
		}
		drop := func(context.Context, string) error {
			setFail(errDoubt)
			return errors.New("somebody uses it")
		}
		cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: store, DropTable: drop})
		done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
		task, err := cat.EraseSource("web")
		must(t, err)
		if task, err = cat.Wait(t.Context(), task.ID); err != nil || !task.Partial {
			t.Errorf("task is %+v, %v", task, err)
		}
		stored := func() string {
			record, err := store.Get("task/" + task.ID)
			must(t, err)
			return string(record)
		}
		if strings.Contains(stored(), "partial") {
			t.Error("the end of the task is stored already")
		}
		setFail(nil)
		time.Sleep(5 * time.Second)
		if got := stored(); !strings.Contains(got, `"partial":true`) {
			t.Errorf("the task is stored as %s", got)
		}
	})
}

// TestCatalogOnFailingDisk lets every operation of the store's disk fail while definitions change. Nothing is shown that
// is not on disk, and after a cut of the power the store has what catalog and engine have had.
func TestCatalogOnFailingDisk(t *testing.T) {
	if inOwnProcess(t) {
		return
	}
	seed := seedtest.Of(t)
	for _, length := range []int64{1, 20} {
		untouched := false
		for n := int64(1); !untouched && !t.Failed(); n += int64(casetest.Step()) {
			synctest.Test(t, func(t *testing.T) {
				untouched = playCatalog(t, &faults{first: n, length: length}, rand.New(rand.NewPCG(seed, uint64(n))))
			})
		}
	}
}

func playCatalog(t *testing.T, f *faults, rng *rand.Rand) (untouched bool) {
	disk := disktest.New(t)
	store, err := catalog.OpenStoreOn(f.on(disk), "catalog")
	if err != nil {
		return false // TestStoreOnFailingDisk
	}
	eng := openEngine(t, forebay.Options{Buffer: localdisk.On(buffer.Tuning{}, disktest.New(t))})
	cat, err := catalog.Open("", eng, catalog.Options{Store: store})
	if err != nil {
		return false
	}
	defer cat.Close() // it may fail, when the disk does now
	name := ""
	for i, change := range []func() (catalog.Task, error){
		func() (catalog.Task, error) { return cat.CreateSource(user, spec("Web", "a", "b")) },
		func() (catalog.Task, error) {
			name = "renamed"
			return cat.UpdateSource(user, "web", catalog.SourcePatch{Name: &name})
		},
		func() (catalog.Task, error) { return cat.Delete(user, catalog.Ref{Source: "web"}) },
		func() (catalog.Task, error) { return cat.Undelete(user, catalog.Ref{Source: "web"}) },
		func() (catalog.Task, error) { return cat.Disable(user, catalog.Ref{Source: "web", Sink: "a"}) },
	} {
		task, err := change()
		for attempt := 0; err != nil && attempt < 1000; attempt++ { // refused, or the store is away
			if code(err) != "" {
				break
			}
			<-time.After(time.Second)
			task, err = change()
		}
		if err != nil {
			if i == 0 || code(err) == "" {
				t.Fatalf("operation %d: change %d: %v", f.first, i, err)
			}
			continue
		}
		if task, err = cat.Wait(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
		again := reopenClone(t, disk, rng)
		if got, ok := again.tasks[task.ID]; !ok && task.Status == catalog.Succeeded || ok && task.Status == catalog.Succeeded && got.Status != task.Status {
			t.Errorf("operation %d: change %d has succeeded, on disk it is %+v", f.first, i, got)
		}
		for _, deleted := range []bool{false, true} {
			if !reflect.DeepEqual(again.sources[deleted], cat.Sources(deleted)) {
				t.Errorf("operation %d: change %d: sources are %v, on disk %v", f.first, i, cat.Sources(deleted), again.sources[deleted])
			}
		}
		_, sinks, _ := cat.Sinks("web", false)
		if !reflect.DeepEqual(again.sinks, sinks) {
			t.Errorf("operation %d: change %d: sinks are %v, on disk %v", f.first, i, sinks, again.sinks)
		}
		def, live := eng.Source("web")
		if live != again.live || live && !reflect.DeepEqual(def, again.def) {
			t.Errorf("operation %d: change %d: the engine has %+v, the disk %+v", f.first, i, def, again.def)
		}
	}
	return !f.hit()
}

// stored is the state of a catalog that was opened from a disk after a cut of the power.
type stored struct {
	sources map[bool][]catalog.Source
	sinks   []catalog.Sink
	tasks   map[string]catalog.Task
	def     forebay.Source
	live    bool
}

func reopenClone(t *testing.T, disk *disktest.Disk, rng *rand.Rand) stored {
	t.Helper()
	store, err := catalog.OpenStoreOn(disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), "catalog")
	must(t, err)
	eng, err := forebay.Open("data", forebay.Options{Buffer: localdisk.On(buffer.Tuning{}, disktest.New(t)), Target: buffertest.NewMemory()})
	must(t, err)
	cat, err := catalog.Open("", eng, catalog.Options{Store: store})
	must(t, err)
	s := stored{sources: map[bool][]catalog.Source{}, tasks: map[string]catalog.Task{}}
	for _, deleted := range []bool{false, true} {
		s.sources[deleted] = cat.Sources(deleted)
	}
	_, s.sinks, _ = cat.Sinks("web", false)
	for _, task := range cat.Tasks() {
		s.tasks[task.ID] = task
	}
	s.def, s.live = eng.Source("web")
	if err := errors.Join(cat.Close(), eng.Close()); err != nil {
		t.Error(err)
	}
	return s
}
