package platform

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/storageapi"
)

// fileRows reads the rows of a file of the project, slice by slice. It can be read several times.
type fileRows struct {
	ctx    context.Context
	blobs  *blobs
	file   storedFile
	format csvFormat
	skip   int
	// inner are the names of the blobs, gz says which of them are compressed.
	inner []string
	gz    []bool
	size  int64 // bytes as they are stored
}

const notUploaded = "storage.fileNotUploaded"

// maxManifest bounds the memory that a manifest can take.
const maxManifest = 64 << 20

const byteOrderMark = "\ufeff"

// openFileRows finds the blobs of a file, which are the file itself, or the slices that its manifest names.
func (s *Server) openFileRows(ctx context.Context, f storedFile, format csvFormat, skip int) (*fileRows, error) {
	r := &fileRows{ctx: ctx, blobs: s.blobs, file: f, format: format, skip: skip}
	if !f.Sliced {
		r.inner, r.gz = []string{""}, []bool{strings.HasSuffix(f.Name, ".gz")}
		return r, r.statBlobs()
	}
	blob, err := r.open(storageapi.ManifestName, "its manifest")
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	var m struct {
		Entries []struct {
			URL string `json:"url"`
		} `json:"entries"`
	}
	if err := json.NewDecoder(io.LimitReader(blob, maxManifest)).Decode(&m); err != nil {
		return nil, refuse(http.StatusBadRequest, "storage.files.invalidManifest", "The manifest of file %d is not JSON", f.ID)
	}
	prefix := "/" + blobContainer + "/" + blobName(f.ID, true)
	for _, e := range m.Entries {
		_, inner, ok := strings.Cut(e.URL, prefix)
		if !ok || inner == "" {
			return nil, refuse(http.StatusBadRequest, "storage.files.invalidManifest", "The manifest of file %d names %q, which is not in the file", f.ID, cut(e.URL, 120))
		}
		r.inner = append(r.inner, inner)
		r.gz = append(r.gz, strings.HasSuffix(inner, ".gz"))
	}
	return r, r.statBlobs()
}

// open opens a blob of the file. what names it in the error that says that it is absent.
func (r *fileRows) open(inner, what string) (*os.File, error) {
	f, err := r.blobs.open(r.file.ID, inner)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(http.StatusBadRequest, notUploaded, "File %d cannot be imported: %s has not been uploaded", r.file.ID, what)
	}
	return f, err
}

// statBlobs checks that every blob is there, and adds up their sizes.
func (r *fileRows) statBlobs() error {
	for _, inner := range r.inner {
		f, err := r.open(inner, fmt.Sprintf("slice %q", inner))
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		r.size += info.Size()
	}
	return nil
}

func (r *fileRows) compressed() bool { return len(r.gz) > 0 && r.gz[0] }

// each calls row with the cells of every row, good until the next call. n counts from 0 over all slices. The first is the
// header, if there is one. errStop ends the reading.
func (r *fileRows) each(row func(n int64, cells [][]byte) error) error {
	var n int64
	for i, inner := range r.inner {
		err := r.eachOf(inner, r.gz[i], func(cells [][]byte) error {
			n++
			return row(n-1, cells)
		}, i == 0)
		if errors.Is(err, errStop) {
			return nil
		}
		if bad, ok := errors.AsType[*csvError](err); ok {
			return refuse(http.StatusBadRequest, "csvImport.loadError", "Load error: %s of file %d: %s", describeSlice(inner), r.file.ID, bad)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errStop = errors.New("enough rows")

func describeSlice(inner string) string {
	if inner == "" {
		return "content"
	}
	return fmt.Sprintf("slice %q", inner)
}

func (r *fileRows) eachOf(inner string, gz bool, row func(cells [][]byte) error, first bool) error {
	f, err := r.open(inner, describeSlice(inner)) // it may be deleted meanwhile
	if err != nil {
		return err
	}
	defer f.Close()
	var src io.Reader = &contextReader{r.ctx, f}
	if gz {
		zr, err := gzip.NewReader(src)
		if err == io.EOF {
			return nil // no bytes at all
		}
		if err != nil {
			return &csvError{0, "not gzip: " + err.Error()}
		}
		defer zr.Close()
		src = &gzipReader{zr, r.ctx}
	}
	rows := newCSVReader(src, r.format)
	if first {
		if err := r.begin(rows); err != nil {
			return err
		}
	}
	return rows.each(row)
}

// begin skips a byte order mark and the lines that the request ignores.
func (r *fileRows) begin(rows *csvReader) error {
	if head, _ := rows.r.Peek(len(byteOrderMark)); string(head) == byteOrderMark && !r.file.Sliced {
		_, _ = rows.r.Discard(len(byteOrderMark)) // they were peeked at
	}
	for n := 0; n < r.skip; {
		_, err := rows.r.ReadSlice('\n')
		switch {
		case err == nil:
			n++
		case errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull): // there is more of the line
			return err
		}
	}
	return nil
}

// gzipReader turns errors of gzip into a csvError, unless the context has ended.
type gzipReader struct {
	r   io.Reader
	ctx context.Context
}

func (g *gzipReader) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if err != nil && err != io.EOF && g.ctx.Err() == nil {
		err = &csvError{0, "damaged gzip: " + err.Error()}
	}
	return n, err
}

// header returns the first row, copied, or nil if there is none.
func (r *fileRows) header() (names []string, err error) {
	err = r.each(func(_ int64, cells [][]byte) error {
		for i, cell := range cells {
			if !utf8.Valid(cell) {
				return &csvError{0, fmt.Sprintf("cell %d of the header is not UTF-8: %q", i+1, cut(string(cell), maxShown))}
			}
			names = append(names, string(cell))
		}
		return errStop
	})
	return names, err
}

// readFormat reads the options for the format of cells.
func readFormat(in *input) csvFormat {
	one := func(name, fallback string) byte {
		text := in.textOr(name, fallback)
		if text == "" {
			return 0
		}
		if len(text) != 1 || text[0] == '\n' || text[0] == '\r' {
			in.failCode("invalidCsv", name, "want one character of ASCII")
			return 0
		}
		return text[0]
	}
	f := csvFormat{delimiter: one("delimiter", ","), escape: one("escapedBy", "")}
	quote := `"`
	if f.escape != 0 {
		quote = ""
	}
	f.quote = one("enclosure", quote)
	if f.delimiter == 0 {
		in.failCode("invalidCsv", "delimiter", "want one character of ASCII")
	}
	if f.quote != 0 && f.escape != 0 {
		in.failCode("invalidCsv", "escapedBy", "excludes enclosure")
	}
	if f.delimiter == f.quote || f.escape != 0 && f.delimiter == f.escape {
		in.failCode("invalidCsv", "delimiter", "is the enclosure or escape as well")
	}
	return f
}
