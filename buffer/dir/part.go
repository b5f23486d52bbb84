package dir

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/driverkit/parts"
)

// Count implements [parts.Format].
func (csvFormat) Count(ctx context.Context, store *parts.Store, d parts.Definition, s parts.Section) (int64, error) {
	var check rowChecker
	var malformed error
	err := readPart(store, d, s, func(_ []string, r io.Reader) error {
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
		return 0, parts.Damaged(s.Path, malformed)
	}
	return check.rows, err
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// readPart calls read with the names in the header, nil if the table has none, and the plain rows of a section.
func readPart(store *parts.Store, d parts.Definition, s parts.Section, read func(names []string, r io.Reader) error) error {
	p, err := openPart(store, d, s.Path)
	if err != nil {
		return err
	}
	defer p.file.Close()
	if s.Length > 0 {
		if err := p.seek(s.Offset, s.Length); err != nil {
			return err
		}
	}
	rows, err := p.rows()
	if err != nil {
		return err
	}
	return errors.Join(read(p.names, rows), rows.Close())
}

// openedPart is a part that is open after its header.
type openedPart struct {
	header []byte   // the plain header line, nil in a table without
	names  []string // in the header
	size   int64    // the stored bytes of the header
	in     *bufio.Reader
	file   io.ReadCloser
	gzip   bool
}

func openPart(store *parts.Store, d parts.Definition, path string) (p *openedPart, err error) {
	p = &openedPart{gzip: strings.HasSuffix(path, gzipPart)}
	if p.file, err = store.FS.Open(path); err != nil {
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
			return nil, parts.Damaged(path, err)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.size = count.n - int64(p.in.Buffered())
	return p, nil
}

// headerError says that a part does not begin with names of columns.
type headerError string

func (e headerError) Error() string { return "its header " + string(e) }

func (p *openedPart) readHeader(d parts.Definition) (err error) {
	if _, err := p.in.Peek(1); errors.Is(err, io.EOF) {
		return nil // an empty file has no rows
	} else if err != nil {
		return err
	}
	in := p.in
	if p.gzip { // the header is a separate member
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
			return headerError("is no separate gzip member")
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
	return driver.Decode(driver.Gzip, io.NopCloser(p.in))
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
