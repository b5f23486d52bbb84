package iceberg

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// sweepEvery is the time between two searches for orphans of a table, unless KeepOrphans is shorter.
const sweepEvery = 24 * time.Hour

// removeOrphans removes old data files to which no snapshot refers. A process that was killed, or a merge that met a faster commit, leaves
// them. It looks only below the data folder of the table, and removes only files whose names this driver gives, see ownFile. It compares
// the names of files, not their addresses, because an address can be spelled in several ways.
func (x *compaction) removeOrphans() error {
	age, now := x.t.opts.KeepOrphans, time.Now()
	if age < 0 || now.Before(x.c.sweepAt) {
		return nil
	}
	tbl, err := x.table()
	if err != nil || tbl == nil {
		return err
	}
	files, err := tbl.FS(x.ctx)
	if err != nil {
		return err
	}
	x.c.sweepAt = now.Add(min(age, sweepEvery))
	listed, ok := files.(icebergio.ListableIO)
	if !ok || tbl.Properties()["gc.enabled"] == "false" {
		return nil
	}
	old, err := oldFiles(x.ctx, listed, dataFolder(tbl), now.Add(-age))
	if err != nil || len(old) == 0 {
		return err
	}
	// The snapshots are read after the list, so that they have each file that was committed before.
	if tbl, err = x.t.load(x.ctx, x.id); err != nil || tbl == nil {
		return err
	}
	used, err := usedNames(x.ctx, tbl, files)
	if err != nil {
		return err
	}
	for _, file := range old {
		if used[path.Base(file)] {
			continue
		}
		if err := files.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// dataFolder returns the folder of the data files of a table.
func dataFolder(tbl *table.Table) string {
	if folder := tbl.Properties()[table.WriteDataPathKey]; folder != "" {
		return folder
	}
	location, err := url.Parse(tbl.Location())
	if err != nil {
		return tbl.Location() + "/data"
	}
	return location.JoinPath("data").String()
}

// oldFiles lists the files below a folder that this driver has written before a time.
func oldFiles(ctx context.Context, files icebergio.ListableIO, folder string, before time.Time) (old []string, err error) {
	err = files.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) || err == nil && (entry.IsDir() || !ownFile(file)) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().Before(before) {
			old = append(old, file)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an expiry has removed it
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // no row was imported
		err = nil
	}
	return old, err
}

// usedNames returns the names of the data files of all snapshots.
func usedNames(ctx context.Context, tbl *table.Table, files icebergio.IO) (map[string]bool, error) {
	used, read := make(map[string]bool), make(map[string]bool)
	for _, s := range tbl.Metadata().Snapshots() {
		manifests, err := s.Manifests(files)
		if err != nil {
			return nil, err
		}
		for _, m := range manifests {
			if read[m.FilePath()] {
				continue
			}
			read[m.FilePath()] = true
			for entry, err := range m.Entries(files, true) {
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					return nil, err
				}
				name := entry.DataFile().FilePath()
				used[name[strings.LastIndexByte(name, '/')+1:]] = true
			}
		}
	}
	return used, nil
}
