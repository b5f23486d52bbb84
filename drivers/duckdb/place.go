package duckdb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/driverkit/keylock"
	"github.com/forebay/forebay/driverkit/sqlfile"
)

// place is a database file. All targets of a process on one file share its place, however they spell the path.
//
// Without the place, DuckDB would open the file once for each spelling, because its cache of open databases compares the texts of paths, and its lock
// of the file only keeps other processes out. Each instance would then overwrite the rows of the other instance.
type place struct {
	path  string   // the spelling that DuckDB gets
	locks sync.Map // from the id of a table to its *semaphore.Weighted
	files keylock.Locks

	opening sync.Mutex // one target at a time opens the file

	// places guards the fields below.
	targets []*Target    // the targets that are not closed
	open    int          // targets that have the file open
	file    sqlfile.File // the open file
}

// placeList contains the places of all targets of the process that are not closed.
type placeList struct {
	sync.Mutex
	list []*place
}

// places is global to the process, like DuckDB's cache of open databases.
var places = sync.OnceValue(func() *placeList { return new(placeList) })

// findPlace returns the place of an absolute path and adds the target to it. The caller calls leave.
func findPlace(path string, t *Target) *place {
	path = resolve(path)
	all := places()
	all.Lock()
	defer all.Unlock()
	i := slices.IndexFunc(all.list, func(p *place) bool {
		return p.path == path || p.open > 0 && p.file.At(path) || sameFile(p.path, path)
	})
	if i < 0 {
		i = len(all.list)
		all.list = append(all.list, &place{path: path})
	}
	p := all.list[i]
	p.targets = append(p.targets, t)
	return p
}

// leave removes a target from its place.
func (p *place) leave(t *Target) {
	all := places()
	all.Lock()
	defer all.Unlock()
	p.targets = slices.DeleteFunc(p.targets, func(o *Target) bool { return o == t })
	if len(p.targets) == 0 {
		all.list = slices.DeleteFunc(all.list, func(other *place) bool { return other == p })
	}
}

// enter opens the file for a target. It fails if another target has opened the path and the path leads to a different file now. The caller calls
// exit when it has closed the database.
func (p *place) enter() (db mapping.Database, err error) {
	p.opening.Lock()
	defer p.opening.Unlock()
	places().Lock()
	file, open := p.file, p.open
	places().Unlock()
	if open > 0 {
		if err := file.Check(); err != nil {
			return db, err
		}
	}
	_, absent := os.Stat(p.path)
	if db, err = openDatabase(p.path); err != nil {
		return db, err
	}
	if errors.Is(absent, fs.ErrNotExist) {
		_ = os.Chmod(p.path, 0o600) // DuckDB lets all users read the file. Some file systems have no permissions.
	}
	if open == 0 {
		if file, err = sqlfile.Find(p.path); err != nil {
			mapping.Close(&db)
			return db, err
		}
	}
	places().Lock()
	defer places().Unlock()
	p.file = file
	p.open++
	return db, nil
}

func (p *place) exit() {
	places().Lock()
	defer places().Unlock()
	p.open--
}

// others returns the other targets.
func (p *place) others(t *Target) (list []*Target) {
	places().Lock()
	defer places().Unlock()
	for _, o := range p.targets {
		if o != t {
			list = append(list, o)
		}
	}
	return list
}

// restrictLog gives the log the permissions of the file. DuckDB makes a new log after each checkpoint, and lets all users read it.
func (p *place) restrictLog() {
	log, err := os.Stat(p.path + ".wal")
	if err != nil {
		return
	}
	if file, err := os.Stat(p.path); err == nil && file.Mode() != log.Mode() {
		_ = os.Chmod(p.path+".wal", file.Mode().Perm())
	}
}

// resolve follows symbolic links, because DuckDB puts its log next to the path that it gets and would not find the log under a different name of
// the file. An earlier release did not follow links. If it left a log next to a link, resolve returns the link, so that DuckDB reads the log.
func resolve(path string) string {
	if _, err := os.Stat(path + ".wal"); err == nil {
		return path
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil { // there is no file yet
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// sameFile reports whether two paths lead to one file, which may be absent.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	infoA, errA = os.Stat(filepath.Dir(a))
	infoB, errB = os.Stat(filepath.Dir(b))
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// opened is the file that a target has open.
func (p *place) opened() sqlfile.File {
	places().Lock()
	defer places().Unlock()
	return p.file
}
