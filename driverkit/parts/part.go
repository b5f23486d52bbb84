package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/driver"
)

// Part is a file of rows in a table. Its name tells which imported files it has:
//
//	<id>.csv                     one file
//	<id>.<rows>.csv              the rows of one file that belong to one day
//	<first>~<last>~<files>.csv   several files, merged; "contents" below lists them
//
// No name is ever used for other rows. The files that are merged with a given first one only become more.
type Part struct {
	// Folder is "" or the folder of a day in the table, Name the name in it and Extension what ends it.
	Folder, Name, Extension string
	// First and Last are the lowest and the highest id.
	First, Last string
	// Rows is the number of rows, -1 if the name does not tell.
	Rows int64
	// Files is the number of imported files.
	Files int
}

// day is the name of the folder of the day, "" in a table that is not split.
func (p Part) day() string {
	if p.Folder == "" {
		return ""
	}
	return filepath.Base(p.Folder)
}

// Path is the path of the part in its table.
func (p Part) Path() string { return filepath.Join(p.Folder, p.Name) }

// Merged reports whether the part has the rows of several files.
func (p Part) Merged() bool { return p.Files > 1 }

// contentsPath is the file that lists the contents of a merged part. Its name starts with a dot, so readers ignore it.
func (p Part) contentsPath() string {
	return filepath.Join(p.Folder, "."+strings.TrimSuffix(p.Name, p.Extension)+".json")
}

// parsePart reads the name of a part. ok is false for another file.
func (t *Tables) parsePart(folder, name string) (p Part, ok bool) {
	i := slices.IndexFunc(t.Format.Extensions(), func(e string) bool { return strings.HasSuffix(name, e) })
	if i < 0 || name[0] == '.' || strings.HasPrefix(name, emptyPrefix) {
		return p, false
	}
	extension := t.Format.Extensions()[i]
	base := strings.TrimSuffix(name, extension)
	p = Part{Folder: folder, Name: name, Rows: -1, Files: 1, Extension: extension}
	if fields := strings.Split(base, "~"); len(fields) == 3 {
		p.First, p.Last = fields[0], fields[1]
		var err error
		p.Files, err = strconv.Atoi(fields[2])
		return p, err == nil && p.Files > 1
	}
	id, rows, counted := strings.Cut(base, ".")
	if p.First, p.Last = id, id; counted {
		n, err := strconv.ParseInt(rows, 10, 64)
		if err != nil {
			n = -1
		}
		p.Rows = n
	}
	return p, true
}

// parts lists the parts in the directory of a table, sorted by folder and name.
func (t *Tables) parts(dir string) (parts []Part, err error) {
	entries, err := t.FS.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var found []Part
		switch name := e.Name(); {
		case !e.IsDir():
			if p, ok := t.parsePart("", name); ok {
				parts = append(parts, p)
			}
		case strings.HasPrefix(name, DayPrefix):
			found, err = t.partsOfDay(dir, name)
		case name == ImportsDir:
			found, err = t.partsOfImports(dir)
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, found...)
	}
	return parts, nil
}

// partsOfDay lists the parts in the folder of a day. A missing folder has none.
func (t *Tables) partsOfDay(dir, folder string) (parts []Part, err error) {
	files, err := t.FS.ReadDir(filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, f := range files {
		if p, ok := t.parsePart(folder, f.Name()); ok && !f.IsDir() {
			parts = append(parts, p)
		}
	}
	return parts, err
}

// partsOfImports lists the parts of all files with several days.
func (t *Tables) partsOfImports(dir string) (parts []Part, err error) {
	imports, err := t.FS.ReadDir(filepath.Join(dir, ImportsDir))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, i := range imports {
		if !i.IsDir() {
			continue
		}
		found, err := t.partsOfImport(dir, i.Name())
		if err != nil {
			return nil, err
		}
		parts = append(parts, found...)
	}
	return parts, err
}

// partsOfImport lists the parts in the folder of a file with several days.
func (t *Tables) partsOfImport(dir, id string) (parts []Part, err error) {
	folder := filepath.Join(ImportsDir, id)
	days, err := t.FS.ReadDir(filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, d := range days {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), DayPrefix) {
			continue
		}
		found, err := t.partsOfDay(dir, filepath.Join(folder, d.Name()))
		if err != nil {
			return nil, err
		}
		parts = append(parts, found...)
	}
	return parts, err
}

// contents lists the files of a merged part, in the order of their rows.
type contents struct {
	Files []Content `json:"files"`
}

// Content is one file in a merged part.
type Content struct {
	// ID is the id of the file and Rows the number of its rows.
	ID   string `json:"id"`
	Rows int64  `json:"rows"`
	// Offset and Length say where the rows are, in a unit of the format, bytes or rows.
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// Contents reads the contents of a merged part of the folder dir.
func (s *Store) Contents(dir string, p Part) ([]Content, error) {
	path := filepath.Join(dir, p.contentsPath())
	rc, err := s.FS.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(rc)
	if err := errors.Join(err, rc.Close()); err != nil {
		return nil, err
	}
	var c contents
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, driver.Permanent(fmt.Errorf("%s is damaged: %w; restore it", path, err))
	}
	return c.Files, nil
}

// Section is where the rows of one imported file are, in a part, or a range in a merged one.
type Section struct {
	// Path is the path of the part.
	Path string
	// Rows is the number of rows as recorded, -1 if it is not.
	Rows int64
	// Offset and Length are as in [Content]. A Length of 0 is the whole part.
	Offset, Length int64
}

// sections finds the rows of an imported file. There are none if it was not imported, or if its parts were removed.
func (t *Tables) sections(table, id string) ([]Section, error) {
	if s, err := t.wholePart(table, id); s != nil || err != nil {
		return s, err
	}
	target, err := t.linkOf(table)
	if target == "" || err != nil {
		return nil, err
	}
	dir := filepath.Join(t.Root, target)
	parts, err := t.parts(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return t.sectionsIn(dir, parts, id)
}

// wholePart finds the part of a file in a table that is not split.
func (t *Tables) wholePart(table, id string) ([]Section, error) {
	for _, extension := range t.Format.Extensions() {
		path := filepath.Join(t.Path(table), id+extension)
		if info, err := t.Find(path); info != nil || err != nil {
			return []Section{{Path: path, Rows: -1}}, err
		}
	}
	return nil, nil
}

// sectionsIn finds the rows of a file in some parts of the folder dir.
func (t *Tables) sectionsIn(dir string, parts []Part, id string) (found []Section, err error) {
	for _, p := range parts {
		if id < p.First || p.Last < id {
			continue
		}
		s := Section{Path: filepath.Join(dir, p.Path()), Rows: p.Rows}
		if p.Merged() {
			files, err := t.Contents(dir, p)
			if err != nil {
				return nil, err
			}
			i := slices.IndexFunc(files, func(c Content) bool { return c.ID == id })
			if i < 0 {
				continue
			}
			s.Rows, s.Offset, s.Length = files[i].Rows, files[i].Offset, files[i].Length
		}
		found = append(found, s)
	}
	return found, nil
}

// countSections returns the number of rows in sections, and whether each has the rows that are recorded for it.
func (t *Tables) countSections(ctx context.Context, d Definition, all []Section) (rows int64, whole bool, err error) {
	whole = true
	for _, s := range all {
		n, err := t.Format.Count(ctx, &t.Store, d, s)
		if err != nil {
			return 0, false, err
		}
		rows += n
		whole = whole && n == s.Rows
	}
	return rows, whole, nil
}

// Damaged is the error for a part that the format does not write.
func Damaged(path string, err error) error {
	return driver.Permanent(fmt.Errorf("%s is damaged: move it away or mend it: %w", path, err))
}
