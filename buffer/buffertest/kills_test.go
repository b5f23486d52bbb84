package buffertest

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/suitetest"
)

// steps is a target that stores the rows of a file and its id in two steps. pause waits between them, as if the machine did.
type steps struct {
	dir   string
	pause func()
	early bool // it returns before the steps
}

func (s *steps) Ensure(context.Context, driver.Table) error { return nil }

func (s *steps) Import(ctx context.Context, f *driver.File) error {
	if ids, _ := os.ReadFile(filepath.Join(s.dir, "ids")); strings.Contains(string(ids), f.ID+"\n") {
		return nil
	}
	rows, err := readRows(ctx, f)
	if err != nil || s.early {
		return err
	}
	var data []byte
	for _, row := range rows {
		data = appendRow(data, row)
	}
	if err := s.add("rows", data); err != nil {
		return err
	}
	s.pause()
	return s.add("ids", []byte(f.ID+"\n"))
}

func (s *steps) add(name string, data []byte) error {
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(data)
	return err
}

func (s *steps) rows() [][]string {
	data, _ := os.ReadFile(filepath.Join(s.dir, "rows"))
	rows, _ := parseRows(data)
	return rows
}

// What else a kill finds is shown by the drivers that pass. See TestKills of buffer/dir.
func TestKillsCatchBrokenTargets(t *testing.T) {
	for name, tc := range map[string]struct {
		kill    int
		driver  steps
		message string
	}{
		"two steps":                {2, steps{pause: func() { select {} }}, "has 240 rows, want 180: commit the id in the same transaction"},
		"a look and no unique key": {1, steps{pause: func() {}}, "two processes have imported the same file at once"},
		"early":                    {0, steps{early: true}, "Import had returned nil"},
	} {
		t.Run(name, func(t *testing.T) {
			if place, ok := proctest.Child(); ok {
				tc.driver.dir = place
				importUntilKilled(t, &tc.driver)
			}
			sound := &steps{dir: t.TempDir(), pause: func() {}}
			errs := suitetest.Failures(t.Context(), func(r tb) {
				k := killer{
					bench: &bench{Target: sound, t: r, read: func(string) [][]string { return sound.rows() }},
					rng:   rand.New(rand.NewPCG(1, 0)), place: sound.dir, test: t.Name(), took: time.Second,
				}
				for i := range tc.kill {
					k.mustImport(killFile(i))
				}
				k.kill(tc.kill)
			})
			if len(errs) != 1 || !strings.Contains(errs[0], tc.message) {
				t.Errorf("got %q, want %q", errs, tc.message)
			}
		})
	}
}

// A Process whose Place differs from the place of the target of this process kills imports into a table that nothing reads.
func TestKillsNoticeAnotherPlace(t *testing.T) {
	if place, ok := proctest.Child(); ok {
		importUntilKilled(t, &steps{dir: place, pause: func() {}})
	}
	sound, other := &steps{dir: t.TempDir(), pause: func() {}}, t.TempDir()
	errs := suitetest.Failures(t.Context(), func(r tb) {
		k := killer{
			bench: &bench{Target: sound, t: r, read: func(string) [][]string { return sound.rows() }},
			rng:   rand.New(rand.NewPCG(1, 0)), place: other, test: t.Name(), took: time.Second,
		}
		k.kill(0)
	})
	if want := "Process.Place returned the place of a different target"; len(errs) != 1 || !strings.Contains(errs[0], want) {
		t.Errorf("got %q, want %q", errs, want)
	}
}
