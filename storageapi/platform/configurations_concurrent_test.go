package platform_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

// Changes of one configuration at the same time come one after the other. No version is lost or given twice.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{Name: "c"}))(t)
	const workers, each = 20, 6
	var mu sync.Mutex
	seen := make(map[int]string)
	ids := make(map[string]bool)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			w := &world{Client: w.client(masterToken)}
			for i := range each {
				content := fmt.Sprintf(`{"worker":%d,"i":%d}`, worker, i)
				out, err := w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{Configuration: raw(content)})
				if err != nil {
					t.Error(err)
					return
				}
				row, err := w.CreateRow(ctx, component, c.ID, storageapi.RowCreate{})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[out.Version] != "" || ids[row.ID] {
					t.Errorf("version %d or row %s was given twice", out.Version, row.ID)
				}
				seen[out.Version], ids[row.ID] = content, true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	last := must(w.Configuration(ctx, component, c.ID))(t)
	if last.Version != 1+2*workers*each || len(last.Rows) != workers*each {
		t.Errorf("version %d with %d rows, want %d with %d", last.Version, len(last.Rows), 1+2*workers*each, workers*each)
	}
	for version, content := range seen {
		v := must(w.ConfigurationVersion(ctx, component, c.ID, version))(t)
		if string(v.Configuration) != content {
			t.Errorf("version %d is %s, want %s", version, v.Configuration, content)
		}
	}
	versions := must(storageapi.Collect(w.ConfigurationVersions(ctx, component, c.ID)))(t)
	if len(versions) != last.Version || !slices.IsSortedFunc(versions, func(a, b storageapi.ConfigurationVersion) int { return b.Version - a.Version }) {
		t.Errorf("got %d versions, want %d from the newest to the oldest", len(versions), last.Version)
	}
}

// Changes, deletions and restorations of one configuration by many clients at once leave a history without a gap, in
// which each that was acknowledged is one entry.
func TestConcurrentLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	var mu sync.Mutex
	done := 1
	var wg sync.WaitGroup
	for worker := range 20 {
		wg.Go(func() {
			client := w.client(masterToken)
			for i := range 8 {
				var err error
				switch (worker + i) % 5 {
				case 0:
					_, err = client.RestoreConfiguration(ctx, component, "c")
				case 1:
					_, err = client.CreateRow(ctx, component, "c", storageapi.RowCreate{Name: fmt.Sprint(worker, i)})
				case 2:
					_, err = client.RollbackConfiguration(ctx, component, "c", 1, "")
				case 3:
					_, err = client.UpdateConfigurationByForm(ctx, component, "c", storageapi.ConfigurationUpdate{Configuration: raw(fmt.Sprintf(`{"i":%d}`, i))})
				case 4:
					if worker != 4 { // one deletes, so that none purges
						continue
					}
					if err = client.DeleteConfiguration(ctx, component, "c"); err == nil {
						mu.Lock()
						done++
						mu.Unlock()
						_, err = client.RestoreConfiguration(ctx, component, "c")
					}
				}
				if err == nil {
					mu.Lock()
					done++
					mu.Unlock()
				} else if !storageapi.IsNotFound(err) { // it was in the trash
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	versions := must(storageapi.Collect(w.ConfigurationVersions(ctx, component, "c")))(t)
	for i, v := range versions {
		if v.Version != len(versions)-i {
			t.Fatalf("entry %d is version %d of %d", i, v.Version, len(versions))
		}
	}
	if len(versions) != done {
		t.Errorf("%d versions, %d changes were acknowledged, want %v", len(versions), done, done)
	}
}
