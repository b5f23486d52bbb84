package instance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// folder is the folder of a node. See the package comment for its contents.
type folder struct {
	disk vfs.FS
	dir  string
	lock io.Closer
}

const (
	nameFile = "instance"
	// damageFile is in the folder of an engine that has met damage. It goes with the folder.
	damageFile = "damaged"

	fencedPrefix = "fenced-"
)

// openFolder makes the folder and keeps other nodes out, in this process too. The caller closes it.
func openFolder(disk vfs.FS, dir string) (*folder, error) {
	if err := pebblestore.MakeDir(disk, dir); err != nil {
		return nil, err
	}
	lock, err := pebblestore.LockDir(disk, dir)
	if err != nil {
		return nil, fmt.Errorf("%s is in use by another process or by another node of this process: %w", dir, err)
	}
	return &folder{disk, dir, lock}, nil
}

func (f *folder) close() error { return f.lock.Close() }

// instance returns the name of the present instance, empty if there is none.
func (f *folder) instance() (string, error) {
	text, err := pebblestore.ReadNote(f.disk, f.disk.PathJoin(f.dir, nameFile), 256)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(text), err
}

// begin makes an instance the present one.
func (f *folder) begin(instance string) error {
	return pebblestore.WriteNote(f.disk, f.dir, nameFile, instance+"\n")
}

// data is the folder of an engine.
func (f *folder) data(instance string) string { return f.disk.PathJoin(f.dir, "data", instance) }

// snapshot is the folder of a checkpoint in progress. No instance has that name.
func (f *folder) snapshot() string { return f.disk.PathJoin(f.dir, "data", "snapshot") }

// adopted has a folder for each instance that is being drained.
func (f *folder) adopted() string { return f.disk.PathJoin(f.dir, "adopted") }

// tidy removes the folders of interrupted restorations. They are next to the folders of engines, whose names have no dots.
func (f *folder) tidy() error {
	data := f.disk.PathDir(f.snapshot())
	names, err := f.disk.List(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".checkpoint") || strings.HasSuffix(name, ".restored") || strings.HasSuffix(name, ".partial") {
			if err := f.disk.RemoveAll(f.disk.PathJoin(data, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// found is the state of an engine's folder.
type found struct {
	// empty says that there is no engine. unread is why its local level cannot be read, nil if it can.
	empty  bool
	unread error
	// mark is the mark of the last batch.
	mark mark
}

// inspect looks into the folder of an engine.
func (f *folder) inspect(instance string) (found, error) {
	i, err := forebay.Inspect(f.data(instance), localdisk.On(buffer.InspectOptions{}, f.disk))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found{empty: true}, nil
	case errors.As(err, new(*buffer.InUseError)):
		return found{}, err
	case err != nil: // opening the engine shows what to do
		return found{unread: err}, nil
	}
	m, err := parseMark(i.LogPosition())
	return found{mark: m}, errors.Join(err, i.Close())
}

// tellVoid reports how many rows of a folder that must not continue were acknowledged before the log had them.
func (f *folder) tellVoid(instance string, log *slog.Logger) {
	i, err := forebay.Inspect(f.data(instance), localdisk.On(buffer.InspectOptions{}, f.disk))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var rows int64
	if err == nil {
		rows, err = i.AckedLocally()
		err = errors.Join(err, i.Close())
	}
	switch {
	case err != nil:
		log.Error("rows of a folder set aside not counted", "instance", instance, "cause", err, "next", "salvage the folder (docs/cluster-failures.md)")
	case rows > 0:
		log.Error("folder set aside with acknowledged rows", "instance", instance, "rows_at_most", rows, "next", "salvage the folder (docs/cluster-failures.md)")
	}
}

// noteDamage notes what an engine has met, for damage to return it.
func (f *folder) noteDamage(instance string, found error) error {
	return pebblestore.WriteNote(f.disk, f.data(instance), damageFile, found.Error()+"\n")
}

// damage returns the damage noted by the engine of an instance, nil if there is none.
func (f *folder) damage(instance string) (found, err error) {
	text, err := pebblestore.ReadNote(f.disk, f.disk.PathJoin(f.data(instance), damageFile), 1024)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return errors.New(strings.TrimSpace(text)), err
}

// forgetDamage removes the note.
func (f *folder) forgetDamage(instance string) error {
	if err := f.disk.Remove(f.disk.PathJoin(f.data(instance), damageFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return pebblestore.SyncDir(f.disk, f.data(instance))
}

// restored is where the folder of an engine is made again while the old one is still there.
func (f *folder) restored(instance string) string { return f.data(instance) + ".restored" }

// exchange sets the folder of an engine aside and puts the restored one in its place, if there is one. After a crash in between there is no
// folder, and the next process restores it.
func (f *folder) exchange(instance string, epoch uint64) error {
	if err := f.setAside(instance, epoch); err != nil {
		return err
	}
	if err := f.disk.Rename(f.restored(instance), f.data(instance)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return pebblestore.SyncDir(f.disk, f.disk.PathDir(f.data(instance)))
}

// replace puts the restored folder of an engine in place of the old one, which holds nothing else. After a crash in between there is no
// folder, and the next process restores it.
func (f *folder) replace(instance string) error {
	old := f.data(instance) + ".partial" // tidy removes it
	err := f.disk.RemoveAll(old)
	for _, move := range [][2]string{{f.data(instance), old}, {f.restored(instance), f.data(instance)}} {
		if err == nil {
			err = f.disk.Rename(move[0], move[1])
		}
	}
	return errors.Join(err, pebblestore.SyncDir(f.disk, f.disk.PathDir(old)), f.disk.RemoveAll(old))
}

// setAside moves the folder of an engine that must not continue, which ended with an epoch.
func (f *folder) setAside(instance string, epoch uint64) error {
	from, to := f.data(instance), f.disk.PathJoin(f.dir, fmt.Sprintf("%s%s-%d", fencedPrefix, instance, epoch))
	if err := f.disk.Rename(from, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return errors.Join(pebblestore.SyncDir(f.disk, f.dir), pebblestore.SyncDir(f.disk, f.disk.PathDir(from)))
}
