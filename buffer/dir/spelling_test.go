package dir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/placetest"
)

func TestOneFolderOfTablesForEachSpelling(t *testing.T) {
	for name, o := range map[string]TablesOptions{"plain": {}, "merged": {MergeTo: 1 << 20}, "gzip": {Gzip: true}} {
		t.Run(name, func(t *testing.T) {
			placetest.Play(t, func(_ *testing.T, folder string) driver.Target { return TablesWith(folder, o) },
				func(t *testing.T, target driver.Target, table string) (all [][]string) {
					return readTable(t, target.(*TableDir), table)
				})
		})
	}
}

// Stagings on one folder store the same and other objects at once, and read the objects of each other.
func TestOneStagingForEachSpelling(t *testing.T) {
	var stagings []*StagingDir
	for _, path := range placetest.Spellings(t) {
		stagings = append(stagings, Staging(path))
	}
	object := func(id string) driver.Object { return driver.Object{ID: id, Rows: 1} }
	var ids []string
	var wg sync.WaitGroup
	for i, s := range stagings {
		for n := range 10 {
			ids = append(ids, fmt.Sprintf("own-%d-%d", i, n))
		}
		wg.Go(func() {
			for n := range 10 {
				own, gone := fmt.Sprintf("own-%d-%d", i, n), fmt.Sprintf("gone-%d-%d", i, n)
				for _, id := range []string{fmt.Sprint("same-", n), own, gone} {
					if err := s.Put(t.Context(), object(id), bytesSource([]byte(id))); err != nil {
						t.Errorf("put of %s: %v", id, err)
					}
				}
				if err := s.Delete(t.Context(), object(gone)); err != nil {
					t.Errorf("delete of %s: %v", gone, err)
				}
			}
		})
	}
	wg.Wait()
	for n := range 10 {
		ids = append(ids, fmt.Sprint("same-", n))
	}
	for i, s := range stagings {
		for _, id := range ids {
			rc, err := s.Open(t.Context(), object(id))
			if err != nil {
				t.Errorf("staging %d: %v", i, err)
				continue
			}
			got, err := io.ReadAll(rc)
			if err = errors.Join(err, rc.Close()); err != nil || string(got) != id {
				t.Errorf("staging %d: %s has %q, %v", i, id, got, err)
			}
		}
	}
}

// Archives on one folder import the same and other files at once.
func TestOneArchiveForEachSpelling(t *testing.T) {
	var archives []*ArchiveDir
	for _, path := range placetest.Spellings(t) {
		archives = append(archives, Archive(path, ArchiveOptions{}))
	}
	var want []string
	var wg sync.WaitGroup
	for i, a := range archives {
		for n := range 10 {
			want = append(want, fmt.Sprintf("2026-01-02T03/own-%d-%d.csv.gz", i, n))
		}
		wg.Go(func() {
			for n := range 10 {
				for _, id := range []string{fmt.Sprint("same-", n), fmt.Sprintf("own-%d-%d", i, n)} {
					if err := a.Import(t.Context(), newFile(id, rawTable, rawRows(someHour, someHour))); err != nil {
						t.Errorf("import of %s: %v", id, err)
					}
				}
				if err := a.Compact(t.Context(), rawTable); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for n := range 10 {
		want = append(want, fmt.Sprintf("2026-01-02T03/same-%d.csv.gz", n))
	}
	for i, a := range archives {
		objects := strings.Fields(objectsOf(t, a, time.Time{}, always))
		if !slices.Equal(objects, want) {
			t.Errorf("archive %d has %q, want %q", i, objects, want)
		}
		for _, object := range objects {
			if rows := bytes.Count([]byte(archiveText(t, a, object)), []byte("\n\"2026")); rows != 2 {
				t.Errorf("archive %d: %s has %d rows, want 2", i, object, rows)
			}
		}
	}
}
