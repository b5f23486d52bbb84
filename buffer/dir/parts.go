package dir

import (
	"bufio"
	"bytes"
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

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/ctxio"
)

const plainPart, gzipPart = ".csv", ".csv.gz"

// part is a file of rows in a table. Its name tells which imported files it has:
//
//	<id>.csv                     one file
//	<id>.<rows>.csv              the rows of one file that belong to one day
//	<first>~<last>~<files>.csv   several files, merged; "contents" below lists them
//
// No name is ever used for other rows: the files that are merged with a given first one only become more.
type part struct {
	folder      string // "" or the folder of a day
	name        string
	first, last string // the lowest and the highest id
	rows        int64  // -1 if the name does not tell
	files       int
}

func (p part) path() string      { return filepath.Join(p.folder, p.name) }
func (p part) extension() string { return extensionOf(p.name) }
func (p part) merged() bool      { return p.files > 1 }

// contentsPath is the file that lists what a merged part has. Its name starts with a dot, so readers ignore it.
func (p part) contentsPath() string {
	return filepath.Join(p.folder, "."+strings.TrimSuffix(p.name, p.extension())+".json")
}

// extensionOf returns the extension of a part, and "" for the name of another file.
func extensionOf(name string) string {
	for _, e := range []string{gzipPart, plainPart} {
		if strings.HasSuffix(name, e) {
			return e
		}
	}
	return ""
}

// parsePart reads the name of a part. ok is false for another file.
func parsePart(folder, name string) (p part, ok bool) {
	extension := extensionOf(name)
	if extension == "" || name[0] == '.' {
		return p, false
	}
	base := strings.TrimSuffix(name, extension)
	p = part{folder: folder, name: name, rows: -1, files: 1}
	if fields := strings.Split(base, "~"); len(fields) == 3 {
		p.first, p.last = fields[0], fields[1]
		var err error
		p.files, err = strconv.Atoi(fields[2])
		return p, err == nil && p.files > 1
	}
	id, rows, counted := strings.Cut(base, ".")
	if p.first, p.last = id, id; counted {
		n, err := strconv.ParseInt(rows, 10, 64)
		if err != nil {
			n = -1
		}
		p.rows = n
	}
	return p, true
}

// parts lists the parts in the directory of a table, sorted by folder and name.
func (t *TableDir) parts(dir string) (parts []part, err error) {
	entries, err := t.fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			if p, ok := parsePart("", e.Name()); ok {
				parts = append(parts, p)
			}
			continue
		}
		if !strings.HasPrefix(e.Name(), dayPrefix) {
			continue
		}
		files, err := t.fs.ReadDir(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, f := range files {
			if p, ok := parsePart(e.Name(), f.Name()); ok && !f.IsDir() {
				parts = append(parts, p)
			}
		}
	}
	return parts, nil
}

// contents lists the files of a merged part, in the order of their rows.
type contents struct {
	Files []content `json:"files"`
}

// content is one file in a merged part: its rows, and where their stored bytes are.
type content struct {
	ID     string `json:"id"`
	Rows   int64  `json:"rows"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
}

// contents reads what a merged part has.
func (t *TableDir) contents(dir string, p part) ([]content, error) {
	path := filepath.Join(dir, p.contentsPath())
	rc, err := t.fs.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(rc)
	if err := errors.Join(err, rc.Close()); err != nil {
		return nil, err
	}
	var c contents
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, buffer.Permanent(fmt.Errorf("%s is damaged: restore it: %w", path, err))
	}
	return c.Files, nil
}

// section is where the rows of one imported file are: a part, or a range in a merged one.
type section struct {
	path   string
	rows   int64 // as recorded, -1 if they are not
	offset int64
	length int64 // 0: the whole part
}

// sections finds the rows of an imported file. There are none if it was not imported, or if its parts were removed.
func (t *TableDir) sections(table, id string) ([]section, error) {
	dir := t.Path(table)
	for _, extension := range []string{plainPart, gzipPart} {
		path := filepath.Join(dir, id+extension)
		if info, err := t.find(path); info != nil || err != nil {
			return []section{{path: path, rows: -1}}, err
		}
	}
	target, err := t.fs.Readlink(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if target == "" || err != nil {
		return nil, err
	}
	dir = filepath.Join(t.root, target)
	parts, err := t.parts(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []section
	for _, p := range parts {
		if id < p.first || p.last < id {
			continue
		}
		s := section{path: filepath.Join(dir, p.path()), rows: p.rows}
		if p.merged() {
			files, err := t.contents(dir, p)
			if err != nil {
				return nil, err
			}
			i := slices.IndexFunc(files, func(c content) bool { return c.ID == id })
			if i < 0 {
				continue
			}
			s.rows, s.offset, s.length = files[i].Rows, files[i].Offset, files[i].Length
		}
		found = append(found, s)
	}
	return found, nil
}

// countSections returns the number of rows in sections, and whether each has the rows that are recorded for it.
func (t *TableDir) countSections(ctx context.Context, d definition, all []section) (rows int64, whole bool, err error) {
	whole = true
	for _, s := range all {
		n, err := t.countRows(ctx, d, s)
		if err != nil {
			return 0, false, err
		}
		rows += n
		whole = whole && n == s.rows
	}
	return rows, whole, nil
}

// countRows returns the number of rows of a section. Anything but rows is a [buffer.Permanent] error.
func (t *TableDir) countRows(ctx context.Context, d definition, s section) (int64, error) {
	var check rowChecker
	var malformed error
	err := t.readPart(d, s, func(_ []string, r io.Reader) error {
		w := writerFunc(func(p []byte) (n int, err error) {
			n, malformed = check.Write(p)
			return n, malformed
		})
		if _, err := io.CopyBuffer(ctxio.Writer(ctx, w), struct{ io.Reader }{r}, make([]byte, 128<<10)); err != nil {
			return err
		}
		malformed = check.end()
		return malformed
	})
	if malformed != nil {
		return 0, damaged(s.path, malformed)
	}
	return check.rows, err
}

func damaged(path string, err error) error {
	return buffer.Permanent(fmt.Errorf("%s is damaged: move it away or mend it: %w", path, err))
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// readPart calls read with the names in the header, nil if the table has none, and the plain rows of a section.
func (t *TableDir) readPart(d definition, s section, read func(names []string, r io.Reader) error) error {
	p, err := t.openPart(d, s.path)
	if err != nil {
		return err
	}
	defer p.file.Close()
	if s.length > 0 {
		if err := p.seek(s.offset, s.length); err != nil {
			return err
		}
	}
	rows, err := p.rows()
	if err != nil {
		return err
	}
	return errors.Join(read(p.names, rows), rows.Close())
}

// openedPart is a part that is open behind its header.
type openedPart struct {
	header []byte   // the plain header line; nil in a table without
	names  []string // in the header
	size   int64    // the stored bytes of the header
	in     *bufio.Reader
	file   io.ReadCloser
	gzip   bool
}

func (t *TableDir) openPart(d definition, path string) (p *openedPart, err error) {
	p = &openedPart{gzip: extensionOf(path) == gzipPart}
	if p.file, err = t.fs.Open(path); err != nil {
		return nil, err
	}
	count := &countingReader{r: p.file}
	p.in = bufio.NewReaderSize(count, 64<<10)
	if d.NoHeader {
		return p, nil
	}
	if err := p.readHeader(d); err != nil {
		p.file.Close()
		var malformed headerError
		if errors.As(err, &malformed) {
			return nil, damaged(path, err)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.size = count.n - int64(p.in.Buffered())
	return p, nil
}

// headerError says that a part does not begin with names of columns.
type headerError string

func (e headerError) Error() string { return "its header " + string(e) }

func (p *openedPart) readHeader(d definition) (err error) {
	if _, err := p.in.Peek(1); errors.Is(err, io.EOF) {
		return nil // an empty file has no rows
	} else if err != nil {
		return err
	}
	in := p.in
	if p.gzip { // the header is a member of its own
		zr, err := gzip.NewReader(p.in)
		if err != nil {
			return err
		}
		zr.Multistream(false)
		in = bufio.NewReader(zr)
	}
	p.header, err = readRow(in, nil)
	if errors.Is(err, io.EOF) || errors.Is(err, errCutRow) {
		return headerError("is cut")
	}
	if err != nil {
		return err
	}
	if p.gzip {
		if _, err := in.ReadByte(); err == nil {
			return headerError("is no gzip member of its own")
		} else if !errors.Is(err, io.EOF) {
			return err
		}
	}
	row := newRowReader(bytes.NewReader(p.header))
	if !row.Next() {
		return headerError(fmt.Sprintf("is no row of quoted cells: %v", row.Err()))
	}
	for _, cell := range row.Cells() {
		if !slices.ContainsFunc(d.Columns, func(c datatype.Column) bool { return c.Name == string(cell) }) {
			return headerError(fmt.Sprintf("has %.80q, and the table has no such column", cell))
		}
		p.names = append(p.names, string(cell))
	}
	return nil
}

// seek moves to a range of the stored bytes.
func (p *openedPart) seek(offset, length int64) error {
	seeker, ok := p.file.(io.Seeker)
	if !ok {
		return errors.ErrUnsupported
	}
	_, err := seeker.Seek(offset, io.SeekStart)
	p.in.Reset(io.LimitReader(p.file, length))
	return err
}

// rows returns the plain rows. Its Close does not close the part.
func (p *openedPart) rows() (io.ReadCloser, error) {
	switch _, err := p.in.Peek(1); {
	case err != nil && !errors.Is(err, io.EOF): // the reader tells it once
		return nil, err
	case err != nil, !p.gzip:
		return io.NopCloser(p.in), nil
	}
	return buffer.Decode(buffer.Gzip, io.NopCloser(p.in))
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
