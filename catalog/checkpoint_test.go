package catalog_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/messagetest"
)

// TestCheckpoint restores a copy that was made while definitions change.
func TestCheckpoint(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
	mustTask(cat.Disable(user, catalog.Ref{Source: "web", Sink: "a"}))
	last := mustTask(cat.CreateSource(user, spec("Other", "c")))
	source, sinks, err := cat.Sinks("web", false)
	must(t, err)

	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			text := fmt.Sprint(i)
			var task catalog.Task
			if task, err = cat.UpdateSource(user, "other", catalog.SourcePatch{Description: &text}); err == nil {
				_, err = cat.Wait(t.Context(), task.ID)
			}
		}
		stopped <- err
	}()
	folder := filepath.Join(t.TempDir(), "backup", "catalog")
	must(t, cat.Checkpoint(folder))
	close(stop)
	must(t, <-stopped)
	if err := cat.Checkpoint(folder); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a checkpoint in a folder that exists: %v", err)
	}
	mustTask(cat.Delete(user, catalog.Ref{Source: "web"}))

	eng := openEngine(t, forebay.Options{})
	restored, err := catalog.Open(folder, eng, catalog.Options{})
	must(t, err)
	defer restored.Close()
	gotSource, gotSinks, err := restored.Sinks("web", false)
	if err != nil || !reflect.DeepEqual(gotSource, source) || !reflect.DeepEqual(gotSinks, sinks) {
		t.Errorf("restored %+v %+v, %v", gotSource, gotSinks, err)
	}
	if def, ok := eng.Source("web"); !ok || def.Secret != source.Secret {
		t.Error("the engine does not follow what was restored")
	}
	if task, err := restored.Task(last.ID); err != nil || task.Status != catalog.Succeeded {
		t.Errorf("task %+v, %v", task, err)
	}
	other, err := restored.Source("other")
	versions, e := restored.Versions(catalog.Ref{Source: "other"})
	if err != nil || e != nil || len(versions) != other.Version.Number {
		t.Errorf("got %d versions, %v, %v, want the %d of %v", len(versions), err, e, other.Version.Number, other)
	}
	done(t, restored)(restored.Delete(user, catalog.Ref{Source: "web"}))
}

// TestStoreInUse opens a folder twice, and reads after the end.
func TestStoreInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "catalog")
	eng := openEngine(t, forebay.Options{})
	cat, err := catalog.Open(dir, eng, catalog.Options{})
	must(t, err)
	done(t, cat)(cat.CreateSource(user, spec("Web")))
	var inUse *catalog.InUseError
	if _, err := catalog.Open(dir, openEngine(t, forebay.Options{}), catalog.Options{}); !errors.As(err, &inUse) {
		t.Errorf("a second catalog on the folder: %v", err)
	} else {
		messagetest.Check(t, "a second catalog on the folder", err.Error(), messagetest.Want{What: "is in use", Where: dir, Next: "choose another folder"}, messagetest.GoNames()...)
	}
	must(t, cat.Close())
	if _, err := cat.Versions(catalog.Ref{Source: "web"}); !errors.Is(err, catalog.ErrClosed) {
		t.Errorf("reading versions after Close: %v", err)
	}
	if err := cat.Checkpoint(filepath.Join(t.TempDir(), "copy")); !errors.Is(err, catalog.ErrClosed) {
		t.Errorf("a checkpoint after Close: %v", err)
	}
}

// TestNoCheckpointer asks a store for a copy that cannot make one.
func TestNoCheckpointer(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	if err := cat.Checkpoint(filepath.Join(t.TempDir(), "copy")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a checkpoint of a store of one's own: %v", err)
	}
}
