package forebay_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// kept counts the objects of an archive in a folder.
func kept(t *testing.T, root string) (n int) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".csv.gz") {
			n++
		}
		return err
	})
	must(t, err)
	return n
}

// The retention continues for the existing objects after the archive was switched off or the source removed, and after a restart.
func TestRetentionWithoutTheArchive(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, e *forebay.Engine) error{
		"switched off": func(t *testing.T, e *forebay.Engine) error { return e.Define(t.Context(), events(lenient)) },
		"removed":      func(t *testing.T, e *forebay.Engine) error { return e.Remove(t.Context(), "web") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root, disk, staging := t.TempDir(), vfs.NewMem(), buffertest.NewMemory()
				on := func(o *forebay.Options) {
					o.Buffer, o.Staging = localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disk), staging
				}
				archive := dir.Archive(root, dir.ArchiveOptions{KeepFor: 24 * time.Hour})
				e, _ := openArchive(t, archive, on)
				mustDefine(t, e, events(archived, lenient))
				ingestN(t, e, 0, 5)
				must(t, errors.Join(e.FlushAll(t.Context()), end(t, e), e.Close()))
				e, _ = openArchive(t, archive, on)
				if name == "switched off" {
					mustDefine(t, e, events(lenient))
				}
				time.Sleep(20 * time.Hour)
				if n := kept(t, root); n != 1 {
					t.Errorf("%d objects before their time has passed, want 1", n)
				}
				time.Sleep(10 * time.Hour)
				synctest.Wait()
				if n := kept(t, root); n != 0 {
					t.Errorf("%d objects after their time has passed, want 0", n)
				}
			})
		})
	}
}

// A source does not read what another generation of its id has kept, a run does not go from one to the other, and each is erased alone.
func TestGenerationsOfAnArchive(t *testing.T) {
	root := t.TempDir()
	e, _ := openArchive(t, dir.Archive(root, dir.ArchiveOptions{}))
	generation := func(g string) func(s *forebay.Source) { return func(s *forebay.Source) { s.Generation = g } }
	replay := func(o forebay.ReplayOptions) forebay.ReplayProgress {
		t.Helper()
		o.Archived = "web"
		p, err := e.Sink("again", "rows").Replay(t.Context(), o)
		must(t, err)
		return p
	}
	mustDefine(t, e, again())
	for i, g := range []string{"", "1", "2"} {
		mustDefine(t, e, events(archived, lenient, generation(g)))
		ingestN(t, e, 0, 10+i)
		must(t, e.FlushAll(t.Context()))
		if p := replay(forebay.ReplayOptions{Run: "run-" + g + "x"}); p.Records != int64(10+i) || p.Generation != g {
			t.Errorf("generation %q: %+v", g, p)
		}
	}
	if _, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "run-1x", Archived: "web"}); !errors.Is(err, forebay.ErrOtherReplay) {
		t.Errorf("a run of another generation: %v", err)
	}
	must(t, e.Remove(t.Context(), "web"))
	if p := replay(forebay.ReplayOptions{Run: "removed", Generation: "1"}); p.Records != 11 {
		t.Errorf("the generation of a removed source: %+v", p)
	}
	mustDefine(t, e, events(archived, lenient, generation("2")))
	if err := e.EraseArchive(t.Context(), "web.2"); !errors.Is(err, buffer.ErrSinkInUse) || kept(t, root) != 3 {
		t.Errorf("the archive of a source: %v, %d objects", err, kept(t, root))
	}
	for i, name := range []string{"web", "web.1", "web.1"} {
		if err := e.EraseArchive(t.Context(), name); err != nil || kept(t, root) != max(2-i, 1) {
			t.Errorf("%s: got %v, %d objects, want no error, %d", name, err, kept(t, root), max(2-i, 1))
		}
	}
	ingestN(t, e, 0, 1)
	must(t, e.Remove(t.Context(), "web"))
	must(t, e.FlushAll(t.Context()))
	if err := e.EraseArchive(t.Context(), "web.2"); err != nil || kept(t, root) != 0 {
		t.Errorf("the archive of a removed source: %v, %d objects", err, kept(t, root))
	}
}

func TestEraseArchiveRefuses(t *testing.T) {
	e, _ := openMemory(t)
	if err := e.EraseArchive(t.Context(), "web"); !errors.Is(err, forebay.ErrNoArchive) {
		t.Errorf("without an archive: %v", err)
	}
	e, _ = openArchive(t, struct{ forebay.Archive }{dir.Archive(t.TempDir(), dir.ArchiveOptions{})})
	if err := e.EraseArchive(t.Context(), "web"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an archive that cannot erase: %v", err)
	}
	root := t.TempDir()
	e, _ = openArchive(t, dir.Archive(root, dir.ArchiveOptions{}))
	for _, name := range []string{"", "..", "../x", "web.", ".x", "a.b.c"} {
		if err := e.EraseArchive(t.Context(), name); err == nil {
			t.Errorf("the name %q is taken", name)
		}
	}
	mustDefine(t, e, events(archived, lenient))
	ingestN(t, e, 0, 1)
	if err := e.Define(t.Context(), forebay.Source{ID: "x", Generation: "No"}); err == nil {
		t.Error("a generation that is no id is taken")
	}
}

// refusingArchive accepts no file.
type refusingArchive struct{ forebay.ArchiveEraser }

func (refusingArchive) Import(context.Context, *driver.File) error {
	return driver.Permanent(errors.New("the archive is read-only"))
}

// Raw records that arrive from another engine reach their archive after the move. The archive is not erased before.
func TestEraseArchiveWhileAFileArrives(t *testing.T) {
	archive, staging := refusingArchive{dir.Archive(t.TempDir(), dir.ArchiveOptions{})}, buffertest.NewMemory()
	on := func(o *forebay.Options) { o.Staging = staging }
	first, _ := openArchive(t, archive, on)
	second, _ := openArchive(t, archive, on)
	mustDefine(t, first, events(archived, lenient))
	ingestN(t, first, 0, 1)
	if err := first.FlushAll(t.Context()); err == nil {
		t.Fatal("the archive takes the file")
	}
	moveFiles(t, first, second)
	if err := second.EraseArchive(t.Context(), "web"); !errors.Is(err, buffer.ErrSinkInUse) {
		t.Errorf("EraseArchive while a file arrives = %v, want ErrSinkInUse", err)
	}
	if err := errors.Join(second.Buffer().Moves().EndArrival(t.Context(), "1st", false), second.EraseArchive(t.Context(), "web")); err != nil {
		t.Error(err)
	}
}
