package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// rawArchive is an archive in a folder whose calls can wait or fail.
type rawArchive struct {
	*dir.ArchiveDir
	root                       string
	beforeImport, beforeErased func(ctx context.Context) error
}

func newRawArchive(t *testing.T) *rawArchive {
	root := t.TempDir()
	return &rawArchive{ArchiveDir: dir.Archive(root, dir.ArchiveOptions{}), root: root}
}

func (a *rawArchive) Import(ctx context.Context, f *driver.File) error {
	if a.beforeImport != nil {
		if err := a.beforeImport(ctx); err != nil {
			return err
		}
	}
	return a.ArchiveDir.Import(ctx, f)
}

func (a *rawArchive) Erase(ctx context.Context, archive string) error {
	if a.beforeErased != nil {
		if err := a.beforeErased(ctx); err != nil {
			return err
		}
	}
	return a.ArchiveDir.Erase(ctx, archive)
}

// keepsOnly is an archive that cannot erase.
type keepsOnly struct{ forebay.Archive }

// objects returns the paths of all objects, without the hour.
func (a *rawArchive) objects(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(a.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".csv.gz") {
			list = append(list, filepath.Base(filepath.Dir(filepath.Dir(path))))
		}
		return err
	})
	must(t, err)
	return list
}

// setArchive switches the archive of the source web on or off.
func setArchive(t *testing.T, cat *catalog.Catalog, on bool) {
	t.Helper()
	value := json.RawMessage("true")
	if !on {
		value = json.RawMessage("false")
	}
	done(t, cat)(cat.ChangeSettings(user, catalog.Ref{Source: "web"}, "", []catalog.SettingChange{{Key: "archive.enabled", Value: value}}))
}

// archivedSource makes the source web, which keeps its raw records, with an object in the archive.
func archivedSource(t *testing.T, cat *catalog.Catalog) {
	t.Helper()
	done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
	setArchive(t, cat, true)
	ingest(t, cat.Engine(), "web", true)
}

// wantReplayed replays the archive of the source web under a name, and checks how many records it has.
func wantReplayed(t *testing.T, cat *catalog.Catalog, run string, records int64) {
	t.Helper()
	task := done(t, cat)(cat.ArchiveReplays("web", "a").Start(catalog.ReplaySpec{Run: run}))
	if task.Replay.Progress.Records != records {
		t.Errorf("the replay has read %d records, want %d", task.Replay.Progress.Records, records)
	}
}

// An erasure deletes the raw records too, including records from before the archive was switched off, and a new source with the id reads its own only.
func TestErasureOfAnArchive(t *testing.T) {
	for _, off := range []bool{false, true} {
		archive := newRawArchive(t)
		eng := openEngine(t, forebay.Options{Archive: archive})
		store := newMemory()
		cat := openCatalog(t, eng, catalog.Options{Store: store, DropTable: func(context.Context, string) error { return nil }})
		archivedSource(t, cat)
		if off {
			setArchive(t, cat, false)
		}
		ingest(t, eng, "web", false) // one that waits
		done(t, cat)(cat.EraseSource("web"))
		if list, keys := archive.objects(t), store.keys("archive/"); len(list)+len(keys) > 0 {
			t.Errorf("switched off before: %t; after the erasure there are %q, records %q", off, list, keys)
		}
		archivedSource(t, cat)
		wantReplayed(t, cat, "r", 1)
	}
}

// A source that is deleted and comes back, with its old or new content, keeps its archive.
func TestArchiveOfADeletedSource(t *testing.T) {
	archive := newRawArchive(t)
	cat := openCatalog(t, openEngine(t, forebay.Options{Archive: archive}), catalog.Options{Store: newMemory()})
	archivedSource(t, cat)
	ref := catalog.Ref{Source: "web"}
	done(t, cat)(cat.CreateSource(user, spec("Other", "a")))
	done(t, cat)(cat.Delete(user, ref))
	if task := done(t, cat)(cat.ArchiveReplays("other", "a").Start(catalog.ReplaySpec{Run: "r", Archived: "web"})); task.Replay.Progress.Records != 1 {
		t.Errorf("the archive of a deleted source: %+v", task.Replay.Progress)
	}
	done(t, cat)(cat.Undelete(user, ref))
	wantReplayed(t, cat, "undeleted", 1)
	done(t, cat)(cat.Delete(user, ref))
	archivedSource(t, cat)
	wantReplayed(t, cat, "revived", 2)
	if list := slices.Compact(archive.objects(t)); len(list) != 1 || !strings.HasPrefix(list[0], "web.") {
		t.Errorf("archives %q, want one", list)
	}
}

// A source that was made before there were generations continues with the archive that is named by its id alone, and a later one does not.
func TestArchiveOfAnOldSource(t *testing.T) {
	archive, store := newRawArchive(t), newMemory()
	eng := openEngine(t, forebay.Options{Archive: archive})
	cat := openCatalog(t, eng, catalog.Options{Store: store})
	done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
	must(t, cat.Close())
	var record map[string]any
	if err := json.Unmarshal(store.records["source/web"], &record); err != nil || record["generation"] == nil {
		t.Fatalf("got %v, %v, want no error and record[\"generation\"] != nil", record, err)
	}
	delete(record, "generation")
	store.records["source/web"], _ = json.Marshal(record)
	cat = openCatalog(t, eng, catalog.Options{Store: store, DropTable: func(context.Context, string) error { return nil }})
	setArchive(t, cat, true)
	ingest(t, eng, "web", true)
	if list := archive.objects(t); !slices.Equal(list, []string{"web"}) {
		t.Errorf("archives %q", list)
	}
	wantReplayed(t, cat, "r", 1)
	away := errors.New("the archive is away")
	archive.beforeErased = func(context.Context) error { return away }
	task, err := cat.EraseSource("web")
	if err == nil {
		task, err = cat.Wait(t.Context(), task.ID)
	}
	if err != nil || !task.Partial {
		t.Fatalf("got %+v, %v, want no error and task.Partial", task, err)
	}
	archivedSource(t, cat)
	wantReplayed(t, cat, "r", 1)
}

// The process stops after any commit of an erasure, with the raw records still there. The next opening deletes them.
func TestCrashDuringErasureOfAnArchive(t *testing.T) {
	archive := newRawArchive(t)
	eng := openEngine(t, forebay.Options{Archive: archive})
	store := &cloning{memory: newMemory()}
	opts := catalog.Options{Store: store, DropTable: func(context.Context, string) error { return nil }}
	cat := openCatalog(t, eng, opts)
	archivedSource(t, cat)
	name := archive.objects(t)[0]
	store.clones = []*memory{}
	done(t, cat)(cat.EraseSource("web"))
	must(t, cat.Close())
	erased := 0
	for i, disk := range store.clones {
		refill(t, archive, name)
		opts.Store = disk
		again, err := catalog.Open("", eng, opts)
		must(t, err)
		for _, task := range again.Tasks() {
			if _, err := again.Wait(t.Context(), task.ID); err != nil {
				t.Fatal(err)
			}
		}
		must(t, again.Close())
		_, err = again.Source("web")
		_ = eng.Remove(t.Context(), "web") // for the next catalog, if it has one
		switch list := archive.objects(t); {
		case err == nil && len(list) == 0:
			t.Errorf("commit %d: the source is there, and its raw records are gone", i)
		case err != nil && len(list) > 0 && i < len(store.clones)-1: // no opening after the last commit looks for records put there by the test
			t.Errorf("commit %d: the source is erased, and there are %q", i, list)
		case err != nil && len(list) == 0:
			erased++
		}
	}
	if erased == 0 {
		t.Errorf("none of %d crashes was between the end of the source and of its raw records", len(store.clones))
	}
}

// cloning keeps the state that a crash after each commit leaves, once clones is not nil.
type cloning struct {
	*memory
	clones []*memory
}

func (c *cloning) Commit(records map[string][]byte) error {
	err := c.memory.Commit(records)
	if c.clones != nil {
		c.clones = append(c.clones, c.clone())
	}
	return err
}

// refill puts an object into an archive.
func refill(t *testing.T, archive *rawArchive, name string) {
	t.Helper()
	eng := openEngine(t, forebay.Options{Archive: archive})
	id, generation, _ := strings.Cut(name, ".")
	err := eng.Define(t.Context(), forebay.Source{ID: id, Generation: generation, Archive: &forebay.ArchiveSettings{}})
	must(t, err)
	ingest(t, eng, id, true)
}

// While the archive is away the erasure ends, says which records are left, and a new source can take the id. The raw records are deleted when
// the archive is there again, in this opening or a later one.
func TestErasureWhileTheArchiveIsAway(t *testing.T) {
	for name, tc := range map[string]struct {
		away func(a *rawArchive, on *atomic.Bool) forebay.Archive
		says string
		// reopen is set where only another opening can have the archive again.
		reopen bool
	}{
		"fails": {func(a *rawArchive, on *atomic.Bool) forebay.Archive {
			a.beforeErased = func(context.Context) error {
				if !on.Load() {
					return errors.New("the bucket is away")
				}
				return nil
			}
			return a
		}, "which is tried again", false},
		"fails, and the service is stopped": {func(a *rawArchive, on *atomic.Bool) forebay.Archive {
			a.beforeErased = func(context.Context) error {
				if !on.Load() {
					return errors.New("the bucket is away")
				}
				return nil
			}
			return a
		}, "which is tried again", true},
		"is not configured":  {func(*rawArchive, *atomic.Bool) forebay.Archive { return nil }, "until the service has its archive again", true},
		"cannot delete them": {func(a *rawArchive, _ *atomic.Bool) forebay.Archive { return keepsOnly{a} }, "unsupported", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				archive, store, data := newRawArchive(t), newMemory(), t.TempDir()
				var back atomic.Bool
				open := func(with forebay.Archive) (*catalog.Catalog, func()) {
					eng, err := forebay.Open(data, forebay.Options{Target: buffertest.NewMemory(), Archive: with})
					must(t, err)
					cat, err := catalog.Open("", eng, catalog.Options{Store: store, DropTable: func(context.Context, string) error { return nil }})
					must(t, err)
					return cat, func() {
						must(t, errors.Join(cat.Close(), eng.Close()))
					}
				}
				cat, stop := open(archive)
				archivedSource(t, cat)
				stop()
				cat, stop = open(tc.away(archive, &back))
				task, err := cat.EraseSource("web")
				if err == nil {
					task, err = cat.Wait(t.Context(), task.ID)
				}
				if err != nil || !task.Partial || !strings.Contains(task.Failure, tc.says) {
					t.Fatalf("got %+v, %v, want no error and task.Partial and strings.Contains(task.Failure, tc.says)", task, err)
				}
				done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
				time.Sleep(2 * time.Minute)
				if len(archive.objects(t)) != 1 || len(store.keys("archive/")) != 1 {
					t.Errorf("before: %q, records %q", archive.objects(t), store.keys("archive/"))
				}
				back.Store(true)
				if tc.reopen {
					stop()
					cat, stop = open(archive)
				}
				setArchive(t, cat, true)
				ingest(t, cat.Engine(), "web", true)
				wantReplayed(t, cat, "r", 1)
				time.Sleep(2 * time.Minute)
				source, err := cat.Source("web")
				if list := archive.objects(t); err != nil || !slices.Equal(list, []string{"web." + source.Generation}) || len(store.keys("archive/")) > 0 {
					t.Errorf("after: %q of generation %s, records %q, %v", list, source.Generation, store.keys("archive/"), err)
				}
				stop()
			})
		})
	}
}

// An erasure at one node takes the raw records that another node is about to bring, by the node or by the adopter of its instance.
func TestSharedErasureOfAnArchive(t *testing.T) {
	for _, way := range []string{"node", "adopter", "away"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				archive, others := newRawArchive(t), newRawArchive(t) // the folders of two machines
				if way == "adopter" {
					others = archive
				}
				started, release := make(chan struct{}, 1), make(chan struct{})
				goOn := sync.OnceFunc(func() { close(release) })
				defer goOn()
				var blocked, away atomic.Bool
				others.beforeImport = func(context.Context) error {
					if blocked.Swap(false) {
						started <- struct{}{}
						<-release
					}
					return nil
				}
				others.beforeErased = func(context.Context) error {
					if away.Load() {
						return errors.New("the disk is away")
					}
					return nil
				}
				cluster := newNodes(t, catalog.Options{DropTable: func(context.Context, string) error { return nil }})
				a := cluster.openWith("a", "a", openEngine(t, forebay.Options{Target: cluster.target, Archive: archive}))
				eng := openEngine(t, forebay.Options{Target: cluster.target, Archive: others})
				b := cluster.openWith("b", "b", eng)
				done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
				setArchive(t, a.Catalog, true)
				same(t, a, b)
				ingest(t, a.eng, "web", true)
				ingest(t, eng, "web", true)
				ingest(t, eng, "web", false)
				blocked.Store(true)
				flushed := make(chan error, 1)
				go func() { flushed <- eng.FlushAll(context.WithoutCancel(t.Context())) }()
				<-started
				away.Store(way == "away")
				if way == "adopter" {
					if err := errors.Join(b.Close(), eng.Remove(t.Context(), "web")); err != nil { // an adopted engine has no sources
						t.Fatal(err)
					}
				}
				done(t, a.Catalog)(a.EraseSource("web"))
				if list := archive.objects(t); len(list) > 0 {
					t.Fatalf("after the erasure there are %q", list)
				}
				goOn()
				<-flushed
				if way == "adopter" {
					adopted, err := a.Adopt("b", 2, eng)
					must(t, err)
					if len(archive.objects(t)) == 0 {
						t.Error("the import has brought nothing: nothing is tested")
					}
					must(t, adopted.Finish(t.Context()))
					adopted.Close()
				}
				done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a"))) // even while the disk of another node is away
				setArchive(t, a.Catalog, true)
				ingest(t, a.eng, "web", true)
				time.Sleep(time.Minute)
				if list := others.objects(t); way == "away" && len(list) != 2 {
					t.Errorf("while the disk is away there are %q", list)
				}
				away.Store(false)
				time.Sleep(2 * time.Minute) // the repairs
				synctest.Wait()
				source, err := a.Source("web")
				must(t, err)
				for _, list := range [][]string{archive.objects(t), others.objects(t)} {
					if slices.ContainsFunc(list, func(name string) bool { return name != "web."+source.Generation }) {
						t.Errorf("there are %q, the new source has the generation %s", list, source.Generation)
					}
				}
				if len(archive.objects(t)) != 1 {
					t.Errorf("the new source has %q", archive.objects(t))
				}
			})
		})
	}
}
