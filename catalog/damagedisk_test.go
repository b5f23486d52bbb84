package catalog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/seedtest"
)

// TestRandomDamageOnDisk damages random files of a catalog on a real disk, which was closed, or copied while it was open. It opens. Each
// definition is as it was, or the log reports a loss, and definitions can be changed.
func TestRandomDamageOnDisk(t *testing.T) {
	root := t.TempDir()
	closed, open := filepath.Join(root, "closed"), filepath.Join(root, "open")
	eng := openEngine(t, forebay.Options{})
	cat, err := catalog.Open(closed, eng, catalog.Options{})
	must(t, err)
	mustTask := done(t, cat)
	for i := range 4 {
		mustTask(cat.CreateSource(user, spec(fmt.Sprint("Source", i), "a", "b")))
		for n := range 3 {
			text := fmt.Sprint("text ", n)
			mustTask(cat.UpdateSource(user, fmt.Sprint("source", i), catalog.SourcePatch{Description: &text}))
		}
		mustTask(cat.Disable(user, catalog.Ref{Source: fmt.Sprint("source", i), Sink: "b"}))
	}
	mustTask(cat.Delete(user, catalog.Ref{Source: "source3"}))
	want := definitionsOf(cat)
	must(t, disktest.Copy(closed, open))
	must(t, cat.Close())
	first := seedtest.Of(t)
	for i := range casetest.Of(500, 20, 10) {
		seed := first + uint64(i)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			from, dir := closed, filepath.Join(t.TempDir(), "catalog")
			if rng.IntN(2) == 0 {
				from = open
			}
			must(t, disktest.Copy(from, dir))
			files := 1
			if from == closed {
				files += rng.IntN(2)
			}
			what := damageCatalog(t, rng, dir, files)
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, %s: %s", seed, filepath.Base(from), what)
				}
			}()
			checkCatalog(t, dir, want, from == open && strings.Contains(what, ".log: "))
		})
	}
}

// damageCatalog damages some files, except the note of Close. In a catalog that was not closed, few files say which parts of others are missing.
func damageCatalog(t *testing.T, rng *rand.Rand, dir string, files int) string {
	t.Helper()
	var what []string
	paths, err := disktest.Files(dir)
	must(t, err)
	for range files {
		path := paths[rng.IntN(len(paths))]
		if _, err := os.Stat(path); err != nil || files > 1 && filepath.Base(path) == "forebay-closed" {
			continue
		}
		how, err := disktest.Damage(rng, path)
		must(t, err)
		what = append(what, filepath.Base(path)+": "+how)
	}
	return strings.Join(what, "; ")
}

// checkCatalog opens a damaged catalog and changes each of its definitions. A torn one may lack the end of its log.
func checkCatalog(t *testing.T, dir, want string, torn bool) {
	t.Helper()
	var log bytes.Buffer
	cat, err := catalog.Open(dir, openEngine(t, forebay.Options{}), catalog.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() {
		if err := cat.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if got := definitionsOf(cat); got != want && !torn && !strings.Contains(log.String(), "records lost or outdated") {
		t.Errorf("the definitions are\n%s\nwant\n%s\nwithout a report; the log has %s", got, want, &log)
	}
	mustTask, text := done(t, cat), "changed after the damage"
	for _, s := range cat.Sources(false) {
		mustTask(cat.UpdateSource(user, s.ID, catalog.SourcePatch{Description: &text}))
	}
	mustTask(cat.CreateSource(user, spec("Later", "a")))
}

// definitionsOf describes the sources and sinks of a catalog, a line each.
func definitionsOf(cat *catalog.Catalog) string {
	var out strings.Builder
	for _, s := range cat.Sources(false) {
		fmt.Fprintf(&out, "%s %q version %d\n", s.ID, s.Description, s.Version.Number)
		_, sinks, err := cat.Sinks(s.ID, false)
		for _, k := range sinks {
			fmt.Fprintf(&out, "  %s version %d disabled %v\n", k.ID, k.Version.Number, k.Disabled != nil)
		}
		if err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	return out.String()
}
