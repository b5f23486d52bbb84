package catalog_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

func openFolder(t *testing.T, dir string, mem *buffertest.Memory) (*forebay.Engine, *catalog.Catalog, func()) {
	t.Helper()
	eng, err := forebay.Open(dir, forebay.Options{Staging: mem, Target: mem, Archive: newRawArchive(t)})
	must(t, err)
	cat, err := catalog.Open(dir+"/catalog", eng, catalog.Options{})
	must(t, err)
	end := func() {
		if err := errors.Join(cat.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	}
	return eng, cat, end
}

// The engine has the settings of a new source and its sinks from the first version on, even after a restart.
func TestSettingsOfANewSource(t *testing.T) {
	dir, mem, by := t.TempDir(), buffertest.NewMemory(), catalog.By{Type: "user", UserName: "Ann"}
	eng, cat, end := openFolder(t, dir, mem)
	source := forebay.Settings{Sync: forebay.SyncUnsafe, Upload: trigger.Conditions{Count: 10, Size: 123_457, Interval: 3 * time.Second}}
	sink := forebay.Settings{Sync: forebay.SyncWait, Import: trigger.Conditions{Count: 20, Size: 60 << 20, Interval: 90 * time.Second}}
	columns := mapping.Columns{mapping.Path("id", "id")}
	task, err := cat.CreateSource(by, catalog.SourceSpec{
		ID: "shop", Name: "Shop", Type: forebay.HTTP, Settings: source, Split: forebay.SplitArray, KeepHeaders: []string{"X-Shop-Id", "x-version"}, Archive: true,
		Sinks: []catalog.SinkSpec{{ID: "orders", Name: "Orders", TableID: "in.c-shop.orders", Columns: columns, Settings: sink}},
	})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	if task, err = cat.CreateSink(by, "shop", catalog.SinkSpec{ID: "items", Name: "Items", TableID: "in.c-shop.items", Columns: columns, Settings: sink}); err == nil {
		_, err = task.Wait(t.Context())
	}
	must(t, err)
	for range 2 {
		def, ok := eng.Source("shop")
		if !ok || def.Settings != source || def.Split != forebay.SplitArray || def.Archive == nil || !reflect.DeepEqual(def.KeepHeaders, []string{"X-Shop-Id", "x-version"}) ||
			len(def.Sinks) != 2 || def.Sinks[0].Settings != sink || def.Sinks[1].Settings != sink {
			t.Errorf("the engine has %+v, sinks %+v", def.Settings, def.Sinks)
		}
		if got, err := cat.Source("shop"); err != nil || got.Version.Number != 1 {
			t.Errorf("version %d, %v, want 1", got.Version.Number, err)
		}
		end()
		eng, cat, end = openFolder(t, dir, mem)
	}
	end()
}

// Settings out of range are refused with the other mistakes, and nothing is created.
func TestSettingsOfANewSourceAreChecked(t *testing.T) {
	_, cat, end := openFolder(t, t.TempDir(), buffertest.NewMemory())
	defer end()
	for wrong, settings := range map[string]forebay.Settings{
		"upload.trigger.interval": {Upload: trigger.Conditions{Interval: time.Nanosecond}},
		"upload.trigger.count":    {Upload: trigger.Conditions{Count: -1}},
		"import.trigger.size":     {Import: trigger.Conditions{Size: 1 << 50}},
		"Settings.Compression":    {Compression: forebay.CompressionNone},
		"Settings.Sync is 9":      {Sync: 9},
		"Settings.Sync is 9, which is unknown; Settings.Compression": {Sync: 9, Compression: forebay.CompressionZstd},
	} {
		sink := catalog.SinkSpec{Name: "Orders", TableID: "in.c-shop.orders", Columns: mapping.Columns{mapping.Path("id", "id")}}
		ofSource := catalog.SourceSpec{Name: "Shop", Type: forebay.HTTP, Settings: settings}
		sink.Settings = settings
		ofSink := catalog.SourceSpec{Name: "Shop", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{sink}}
		_, err1 := cat.CreateSource(catalog.By{}, ofSource)
		_, err2 := cat.CreateSource(catalog.By{}, ofSink)
		for _, err := range []error{err1, err2, cat.ValidateSource(ofSource), cat.ValidateSource(ofSink), cat.ValidateSink("shop", sink)} {
			var refused *catalog.Error
			if !errors.As(err, &refused) || refused.Code != catalog.BadRequest || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: got %v, want a bad request that names it", wrong, err)
			}
		}
	}
	if list := cat.Sources(false); len(list) != 0 {
		t.Errorf("sources %v", list)
	}
}

// The error of a wait is the failure of the task. A wait that the caller ends leaves the task alone, and a copy of a task asks for the catalog.
func TestWaitForATask(t *testing.T) {
	mem := buffertest.NewMemory()
	held := make(chan struct{})
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpEnsure {
			<-held
			return driver.Permanent(errors.New("the column is a number"))
		}
		return nil
	}
	_, cat, end := openFolder(t, t.TempDir(), mem)
	defer end()
	task, err := cat.CreateSource(catalog.By{}, catalog.SourceSpec{Name: "Shop", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{Name: "Orders", TableID: "in.c-shop.orders", Columns: mapping.Columns{mapping.Path("id", "id")}},
	}})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := task.Wait(ctx); !errors.Is(err, context.Canceled) || got.Finished() || got.ID != task.ID {
		t.Errorf("got %v, %v for a wait that was given up", got, err)
	}
	close(held)
	ended, err := task.Wait(t.Context())
	var failed *catalog.Error
	if !errors.As(err, &failed) || failed.Message != ended.Failure || failed.Task != task.ID || failed.Code != ended.Code || !strings.Contains(err.Error(), "the column is a number") || ended.Status != catalog.Failed {
		t.Errorf("got %+v, %v", ended, err)
	}
	again, err := cat.Task(task.ID)
	must(t, err)
	for _, task := range append(cat.Tasks(), again, ended) {
		if _, second := task.Wait(t.Context()); second == nil || second.Error() != failed.Message {
			t.Errorf("the second wait: %v", second)
		}
	}
	if _, err := (catalog.Task{ID: task.ID}).Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "Catalog.Task") {
		t.Errorf("a copy: %v", err)
	}
}
