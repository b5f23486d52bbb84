package parquet

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	pqformat "github.com/parquet-go/parquet-go/format"
)

// createdBy begins the name that the footers of this package's parts have.
const createdBy = "forebay version "

// partFile is a part that is read. The library trusts the metadata of a part. After one flipped bit it may allocate gigabytes, or take the
// values of one column for values of another. So it gets row groups one by one, each after all that the footer, page headers and indexes say
// about it has been compared with each other and with the size of the file, and with a footer rebuilt from the compared data.
//
// One group at a time is also what parts need whose chunks of one column have different codecs. The library takes the codec of the first chunk for all.
type partFile struct {
	in     io.ReaderAt
	end    int64 // of the data, where the footer begins
	meta   pqformat.FileMetaData
	schema *pq.Schema
	ours   bool // this package has written it, so details that the format leaves open are certain
	flat   bool // the columns are not nested
}

// openFile reads the footer of a part.
func openFile(in io.ReaderAt, size int64) (*partFile, error) {
	var end [8]byte
	if size < int64(len("PAR1")+len(end)) {
		return nil, fmt.Errorf("it has %d bytes", size)
	}
	if err := readAt(in, end[:], size-int64(len(end))); err != nil {
		return nil, err
	}
	length := int64(endian.LittleEndian.Uint32(end[:]))
	p := &partFile{in: in, end: size - int64(len(end)) - length}
	if string(end[4:]) != "PAR1" || p.end < int64(len("PAR1")) {
		return nil, errors.New("it has no footer")
	}
	footer := make([]byte, length)
	if err := readAt(in, footer, p.end); err != nil {
		return nil, err
	}
	if n, err := decode(footer, &p.meta); err != nil || n != len(footer) {
		return nil, fmt.Errorf("its footer cannot be read: %d of %d bytes, %w", n, len(footer), err)
	}
	p.ours = strings.HasPrefix(p.meta.CreatedBy, createdBy)
	if err := p.check(); err != nil {
		return nil, err
	}
	empty, err := p.view(nil)
	if err != nil {
		return nil, err
	}
	p.schema = empty.Schema()
	return p, nil
}

// readAt fills b.
func readAt(in io.ReaderAt, b []byte, off int64) error {
	if n, err := in.ReadAt(b, off); n < len(b) {
		return fmt.Errorf("%d of %d bytes at %d: %w", n, len(b), off, err)
	}
	return nil
}

// decode decodes the beginning of data, and returns its length. It walks through data before, because lengths in it would be allocated
// whatever they are.
func decode(data []byte, v any) (int, error) {
	protocol := new(thrift.CompactProtocol)
	walk := protocol.NewReaderFromBytes(data)
	if err := thrift.NewDecoder(walk).Decode(new(struct{})); err != nil {
		return 0, err
	}
	return walk.BytesRead(), thrift.NewDecoder(protocol.NewReaderFromBytes(slices.Clone(data))).Decode(v)
}

// writes reports whether this package writes a codec. The library's decoder of a different codec may use all memory for a damaged page.
func writes(c pqformat.CompressionCodec) bool {
	return c == pqformat.Uncompressed || c == pqformat.Snappy || c == pqformat.Zstd
}

// written reports whether this package writes the codecs of all chunks.
func (p *partFile) written() bool {
	for g := range p.meta.RowGroups {
		for i := range p.meta.RowGroups[g].Columns {
			if !writes(p.meta.RowGroups[g].Columns[i].MetaData.Codec) {
				return false
			}
		}
	}
	return true
}

// rows is the number of rows.
func (p *partFile) rows() int64 { return p.meta.NumRows }

// start is where the chunk of a column begins.
func start(m *pqformat.ColumnMetaData) int64 {
	if m.DictionaryPageOffset != 0 {
		return m.DictionaryPageOffset
	}
	return m.DataPageOffset
}

// check compares the parts of the footer.
func (p *partFile) check() error {
	if len(p.meta.Schema) == 0 || int(p.meta.Schema[0].NumChildren.V) > len(p.meta.Schema)-1 {
		return errors.New("its footer has no columns")
	}
	leaves := make([]*pqformat.SchemaElement, 0, len(p.meta.Schema))
	p.flat = int(p.meta.Schema[0].NumChildren.V) == len(p.meta.Schema)-1
	for i := range p.meta.Schema[1:] {
		e := &p.meta.Schema[1+i]
		if !e.Type.Valid {
			p.flat = false
			continue
		}
		p.flat = p.flat && e.RepetitionType.V != pqformat.Repeated
		leaves = append(leaves, e)
	}
	type span struct{ from, to int64 }
	var spans []span
	var rows int64
	for g := range p.meta.RowGroups {
		group := &p.meta.RowGroups[g]
		if group.NumRows < 0 || len(group.Columns) != len(leaves) || p.ours && int(group.Ordinal) != min(g, 1<<15-1) {
			return fmt.Errorf("its row group %d has %d rows of %d columns, and the number %d", g, group.NumRows, len(group.Columns), group.Ordinal)
		}
		rows += group.NumRows
		for i := range group.Columns {
			m := &group.Columns[i].MetaData
			from, what := start(m), ""
			switch {
			case m.Type != leaves[i].Type.V:
				what = "another type in a row group"
			case p.flat && (len(m.PathInSchema) != 1 || m.PathInSchema[0] != leaves[i].Name):
				what = "another name in a row group"
			case p.flat && m.NumValues != group.NumRows:
				what = fmt.Sprintf("%d values in %d rows", m.NumValues, group.NumRows)
			case from < int64(len("PAR1")) || m.TotalCompressedSize < 0 || m.TotalCompressedSize > p.end-from || m.TotalUncompressedSize < 0,
				m.DataPageOffset < from || m.DataPageOffset > from+m.TotalCompressedSize:
				what = "pages outside of its data"
			}
			if what != "" {
				return fmt.Errorf("its column %q has %s", leaves[i].Name, what)
			}
			spans = append(spans, span{from, from + m.TotalCompressedSize})
		}
	}
	if rows != p.meta.NumRows {
		return fmt.Errorf("it has %d rows, and %d in its row groups", p.meta.NumRows, rows)
	}
	slices.SortFunc(spans, func(a, b span) int { return int(max(-1, min(1, a.from-b.from))) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to && spans[i].from != spans[i].to {
			return errors.New("two of its columns have the same pages")
		}
	}
	return nil
}

// view opens the part with some of its row groups.
func (p *partFile) view(groups []pqformat.RowGroup) (*pq.File, error) {
	meta := p.meta
	meta.RowGroups, meta.NumRows = slices.Clone(groups), 0
	for i := range meta.RowGroups {
		meta.RowGroups[i].Ordinal = int16(i) // by which the library finds the indexes
		meta.NumRows += meta.RowGroups[i].NumRows
	}
	footer, err := marshal(&meta)
	if err != nil {
		return nil, err
	}
	n := uint32(len(footer))
	in := &refooted{p.in, p.end, append(endian.LittleEndian.AppendUint32(footer, n), "PAR1"...)}
	return pq.OpenFile(in, p.end+int64(len(in.footer)), pq.SkipPageIndex(true), pq.SkipBloomFilters(true))
}

// refooted is a part with another footer.
type refooted struct {
	in     io.ReaderAt
	end    int64
	footer []byte
}

func (r *refooted) ReadAt(b []byte, off int64) (n int, err error) {
	if off < r.end {
		if n, err = r.in.ReadAt(b[:min(int64(len(b)), r.end-off)], off); n == len(b) || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if off += int64(n); off < r.end {
			return n, io.ErrUnexpectedEOF
		}
	}
	more := 0
	if off -= r.end; off < int64(len(r.footer)) {
		more = copy(b[n:], r.footer[off:])
	}
	if n += more; n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// group opens a row group. Its chunks must be checked before they are read.
func (p *partFile) group(g int) (pq.RowGroup, error) {
	f, err := p.view(p.meta.RowGroups[g : g+1])
	if err != nil {
		return nil, err
	}
	return f.RowGroups()[0], nil
}

// checkChunk checks the pages of a column in a row group, from the last one that has a row before or at from on, and their dictionary. It returns
// the number of plain bytes that they have, or one that is too large when that is more than limit.
func (p *partFile) checkChunk(g, column int, from, limit int64) (plain int64, err error) {
	k := &p.meta.RowGroups[g].Columns[column]
	m := &k.MetaData
	name := p.meta.Schema[1+column].Name
	if !writes(m.Codec) {
		return 0, fmt.Errorf("its column %q is compressed as %s, which this driver does not write", name, m.Codec)
	}
	w := &chunkWalk{partFile: p, meta: m, optional: p.meta.Schema[1+column].RepetitionType.V == pqformat.Optional, at: start(m), end: start(m) + m.TotalCompressedSize}
	w.left = p.meta.RowGroups[g].NumRows
	if k.OffsetIndexOffset != 0 {
		locations, err := p.locations(k)
		if err != nil {
			return 0, fmt.Errorf("its column %q: %w", name, err)
		}
		at := len(locations) - 1
		for at > 0 && locations[at].FirstRowIndex > from {
			at--
		}
		if at > 0 && m.DictionaryPageOffset != 0 {
			w.end = m.DataPageOffset
			if err := w.dictionary(); err != nil {
				return 0, fmt.Errorf("its column %q: %w", name, err)
			}
			w.end = start(m) + m.TotalCompressedSize
		}
		if at > 0 {
			w.at, w.left = locations[at].Offset, w.left-locations[at].FirstRowIndex
			w.number, w.begun = at, true
		}
		w.indexed, w.locations = true, locations[max(at, 0):]
	} else if m.TotalUncompressedSize > limit {
		return m.TotalUncompressedSize, nil
	}
	if err := w.pages(limit); err != nil {
		return 0, fmt.Errorf("its column %q: %w", name, err)
	}
	return w.plain, nil
}

// locations reads the places of the pages of a chunk.
func (p *partFile) locations(k *pqformat.ColumnChunk) ([]pqformat.PageLocation, error) {
	offset, length := k.OffsetIndexOffset, int64(k.OffsetIndexLength)
	if offset < int64(len("PAR1")) || length < 1 || length > p.end-offset {
		return nil, errors.New("the index of its pages is outside of the data")
	}
	data := make([]byte, length)
	if err := readAt(p.in, data, offset); err != nil {
		return nil, err
	}
	var index pqformat.OffsetIndex
	if n, err := decode(data, &index); err != nil || n != len(data) {
		return nil, fmt.Errorf("the index of its pages cannot be read: %d of %d bytes, %w", n, len(data), err)
	}
	at, row := int64(0), int64(-1)
	for i, l := range index.PageLocations {
		if l.Offset < max(at, k.MetaData.DataPageOffset) || l.FirstRowIndex <= row || i == 0 && l.FirstRowIndex != 0 {
			return nil, errors.New("the index of its pages is not in order")
		}
		at, row = l.Offset+int64(max(l.CompressedPageSize, 0)), l.FirstRowIndex
	}
	if end := start(&k.MetaData) + k.MetaData.TotalCompressedSize; at > end || row >= k.MetaData.NumValues && row > 0 {
		return nil, errors.New("the index of its pages is of another column")
	}
	return index.PageLocations, nil
}

// chunkWalk goes through the pages of a chunk.
type chunkWalk struct {
	*partFile
	meta      *pqformat.ColumnMetaData
	optional  bool
	at, end   int64
	left      int64 // rows
	number    int   // of the next page of values
	begun     bool  // no dictionary can follow
	indexed   bool
	locations []pqformat.PageLocation // of the pages that follow, if they are indexed
	plain     int64
}

// pages goes to the end of the chunk, or until limit is exceeded.
func (w *chunkWalk) pages(limit int64) error {
	all := w.left
	for w.left > 0 || w.at < w.end {
		header, size, err := w.header()
		if err != nil {
			return err
		}
		body := w.at + size
		if header.Type == pqformat.DictionaryPage {
			if err := w.dictionary(); err != nil {
				return err
			}
		} else {
			if w.indexed && (len(w.locations) == 0 || w.locations[0].Offset != w.at) {
				return fmt.Errorf("the page at %d is not in the index of the pages", w.at)
			}
			values, err := w.data(header, body)
			if err != nil {
				return err
			}
			w.left -= values
			if len(w.locations) > 0 {
				next := w.locations[0].FirstRowIndex + values
				if w.locations = w.locations[1:]; len(w.locations) > 0 && w.locations[0].FirstRowIndex != next {
					return fmt.Errorf("the page at %d has %d values, which is not what the index of the pages says", w.at, values)
				}
			}
			w.at, w.begun = body+int64(header.CompressedPageSize), true
			w.plain += int64(header.UncompressedPageSize)
			w.number++
		}
		if w.left < 0 {
			return fmt.Errorf("its pages have more than %d values", all)
		}
		if w.plain > limit {
			return nil
		}
	}
	if w.left != 0 || w.at != w.end || len(w.locations) > 0 {
		return fmt.Errorf("its pages have %d values, want %d", all-w.left, all)
	}
	return nil
}

// maxHeader is longer than any header of a page, unless a program puts long values into its statistics.
const maxHeader = 64 << 10

// header reads the header of the page that follows. The sizes in it are within the chunk.
func (w *chunkWalk) header() (*pqformat.PageHeader, int64, error) {
	header := new(pqformat.PageHeader)
	n, err := 0, io.ErrUnexpectedEOF
	for most := int64(128); err != nil && most <= maxHeader; most *= 8 {
		data := make([]byte, min(most, w.end-w.at))
		if err := readAt(w.in, data, w.at); err != nil {
			return nil, 0, err
		}
		*header = pqformat.PageHeader{}
		if n, err = decode(data, header); int64(len(data)) < most {
			break
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("the header of the page at %d cannot be read: %w", w.at, err)
	}
	packed, plain := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
	if packed < 0 || packed > w.end-w.at-int64(n) || plain < 0 || plain > w.meta.TotalUncompressedSize || w.meta.Codec == pqformat.Uncompressed && packed != plain {
		return nil, 0, fmt.Errorf("the page at %d says that it has %d bytes, and %d in the part", w.at, plain, packed)
	}
	return header, int64(n), nil
}

// dictionary checks the dictionary, which is the first page, and moves past it. The library does not compare its checksum if it reads it again later.
func (w *chunkWalk) dictionary() error {
	header, size, err := w.header()
	if err != nil {
		return err
	}
	h := header.DictionaryPageHeader
	switch {
	case header.Type != pqformat.DictionaryPage || !h.Valid || w.begun || w.ours && w.at != w.meta.DictionaryPageOffset,
		header.DataPageHeader.Valid || header.DataPageHeaderV2.Valid:
		return fmt.Errorf("the page at %d is no dictionary", w.at)
	case h.V.NumValues < 0 || int64(h.V.NumValues) > min(w.meta.NumValues, 8*int64(header.UncompressedPageSize)),
		w.ours && h.V.Encoding != pqformat.Plain:
		return fmt.Errorf("the dictionary has %d values as %s", h.V.NumValues, h.V.Encoding)
	}
	body := w.at + size
	if err := w.checksum(header, body); err != nil {
		return err
	}
	w.at, w.begun = body+int64(header.CompressedPageSize), true
	w.plain += int64(header.UncompressedPageSize)
	if w.meta.DictionaryPageOffset != 0 && w.at != w.meta.DataPageOffset {
		return errors.New("its values do not follow the dictionary")
	}
	return nil
}

// checksum compares the checksum of a page.
func (w *chunkWalk) checksum(header *pqformat.PageHeader, body int64) error {
	if header.CRC == 0 && !w.ours {
		return nil
	}
	data := make([]byte, header.CompressedPageSize)
	if err := readAt(w.in, data, body); err != nil {
		return err
	}
	if sum := crc32.ChecksumIEEE(data); sum != uint32(header.CRC) {
		return fmt.Errorf("the page at %d has the checksum %08x, want %08x", w.at, sum, uint32(header.CRC))
	}
	return nil
}

// data checks a page of values, and returns how many it has.
func (w *chunkWalk) data(header *pqformat.PageHeader, body int64) (values int64, err error) {
	v1, v2 := header.DataPageHeader, header.DataPageHeaderV2
	var encoding pqformat.Encoding
	switch {
	case header.Type == pqformat.DataPage && v1.Valid && !w.ours:
		values, encoding = int64(v1.V.NumValues), v1.V.Encoding
	case header.Type == pqformat.DataPageV2 && v2.Valid && !(w.ours && v1.Valid):
		values, encoding = int64(v2.V.NumValues), v2.V.Encoding
		compressed := !v2.V.IsCompressed.Valid || v2.V.IsCompressed.V
		levels := int64(v2.V.DefinitionLevelsByteLength)
		if v2.V.NumRows != v2.V.NumValues || v2.V.RepetitionLevelsByteLength != 0 || levels < 0 || levels > int64(min(header.CompressedPageSize, header.UncompressedPageSize)) ||
			v2.V.NumNulls < 0 || int64(v2.V.NumNulls) > values || !w.optional && (levels != 0 || v2.V.NumNulls != 0) ||
			w.ours && compressed != (w.meta.Codec != pqformat.Uncompressed) || !compressed && header.CompressedPageSize != header.UncompressedPageSize {
			return 0, fmt.Errorf("the header of the page at %d contradicts itself", w.at)
		}
		if w.optional {
			data := make([]byte, levels)
			if err := readAt(w.in, data, body); err != nil {
				return 0, err
			}
			if nulls, ok := nullsIn(data, values); !ok || nulls != int64(v2.V.NumNulls) {
				return 0, fmt.Errorf("the page at %d does not have %d NULL in %d values", w.at, v2.V.NumNulls, values)
			}
		}
	default:
		return 0, fmt.Errorf("the page at %d has no values", w.at)
	}
	if values < 0 || w.ours && !w.encodes(encoding) {
		return 0, fmt.Errorf("the page at %d has %d values as %s", w.at, values, encoding)
	}
	if w.ours && header.CRC == 0 { // the library takes that for none
		return values, w.checksum(header, body)
	}
	return values, nil
}

// encodes reports whether the footer says that the page has an encoding. Of a column with a dictionary the first pages use it. The others have one
// encoding.
func (w *chunkWalk) encodes(e pqformat.Encoding) bool {
	var places, others int
	for _, s := range w.meta.EncodingStats {
		switch {
		case s.PageType == pqformat.DictionaryPage:
		case s.Encoding == pqformat.RLEDictionary:
			places += int(s.Count)
		case s.Encoding == e || e == pqformat.RLEDictionary:
			others += int(s.Count)
		}
	}
	if len(w.meta.EncodingStats) == 0 { // an earlier version has written it
		return slices.Contains(w.meta.Encoding, e)
	}
	return w.number < places+others && (e == pqformat.RLEDictionary) == (w.number < places)
}

// nullsIn counts the NULL in the definition levels of a page, which are runs and groups of eight bits. ok is false if they are of
// another number of values.
func nullsIn(levels []byte, values int64) (nulls int64, ok bool) {
	for values > 0 {
		head, n := endian.Uvarint(levels)
		if n <= 0 {
			return 0, false
		}
		levels = levels[n:]
		if head&1 == 0 {
			run := int64(head >> 1)
			if len(levels) == 0 || run > values || levels[0] > 1 {
				return 0, false
			}
			if levels[0] == 0 {
				nulls += run
			}
			levels, values = levels[1:], values-run
			continue
		}
		groups := head >> 1
		if groups > uint64(len(levels)) || int64(groups)*8 > values+7 {
			return 0, false
		}
		for _, eight := range levels[:groups] {
			for bit := 0; bit < 8 && values > 0; bit++ {
				nulls += int64(^eight >> bit & 1)
				values--
			}
		}
		levels = levels[groups:]
	}
	return nulls, len(levels) == 0
}
