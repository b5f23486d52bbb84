package parquet

import (
	endian "encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/bloom"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	pqformat "github.com/parquet-go/parquet-go/format"
)

// part encodes the pages of a part and writes it by row groups. The design that lost is the library's writer, which takes values one by one.
// That costs more than parsing them.
type part struct {
	*scratch
	out     io.Writer
	columns []column
	chunks  []chunk // of the row group that is open, by column
	offset  int64   // in the file
	meta    pqformat.FileMetaData
	indexes [][]chunk // of the row groups that are written, without pages
}

// chunk has the pages of one column in a row group.
type chunk struct {
	meta       pqformat.ColumnMetaData
	pages      [][]byte // encoded
	locations  []pqformat.PageLocation
	nullPages  []bool
	nulls      []int64
	bounds     []bounds // of each page
	unbounded  bool     // a page with values has no bounds
	rows       int64
	tried      bool // whether a dictionary pays is known
	dictionary *dictionary
	hashes     []uint64 // of the values, of a column with a filter
	filter     bloom.SplitBlockFilter
}

func newPart(out io.Writer, columns []column, s *scratch) *part {
	p := &part{scratch: s, out: out, columns: columns, chunks: make([]chunk, len(columns))}
	p.meta = pqformat.FileMetaData{Version: 2, CreatedBy: "forebay version 1 (build )", Schema: schemaOf(columns)}
	for i := range columns {
		p.meta.ColumnOrders = append(p.meta.ColumnOrders, pqformat.ColumnOrder{Value: &pqformat.TypeDefinedOrder{}})
		p.begin(i)
	}
	return p
}

// begin makes an empty chunk. All chunks of a column have the codec of the first one, because parquet-go and programs built on it read them so, and a
// later chunk in another codec as garbage.
func (p *part) begin(i int) {
	c, codec := &p.columns[i], p.codec.CompressionCodec()
	if len(p.meta.RowGroups) > 0 {
		codec = p.meta.RowGroups[0].Columns[i].MetaData.Codec
	}
	p.chunks[i] = chunk{meta: pqformat.ColumnMetaData{
		Type: *c.node().Type().PhysicalType(), PathInSchema: []string{c.name}, Codec: codec,
	}}
}

// addPage encodes a page of column i.
func (p *part) addPage(i int, in *page) (err error) {
	c, k := &p.columns[i], &p.chunks[i]
	if in.nulls > 0 && !c.optional {
		return errors.New("parquet: NULL in a required column")
	}
	var b bounds
	encoding, plain := pqformat.Plain, in.data
	if c.filtered {
		k.hash(in)
	}
	switch {
	case c.store == longs:
		encoding = pqformat.DeltaBinaryPacked
		p.plain, err = pq.DeltaBinaryPacked.EncodeInt64(p.plain[:0], in.longs)
		plain = p.plain
	case c.store == ints:
		encoding = pqformat.DeltaBinaryPacked
		p.plain, err = pq.DeltaBinaryPacked.EncodeInt32(p.plain[:0], in.ints)
		plain = p.plain
	case c.kind == text && k.useDictionary(in):
		var ok bool
		if b, ok = k.dictionary.add(c, in); !ok {
			k.dictionary.places = nil // earlier pages of the chunk keep the dictionary
			break
		}
		encoding = pqformat.RLEDictionary
		p.plain, err = pq.RLEDictionary.EncodeInt32(p.plain[:0], k.dictionary.page)
		plain = p.plain
	}
	if err != nil {
		return err
	}
	if encoding != pqformat.RLEDictionary {
		b = c.boundsOf(in)
	}
	if p.levels = p.levels[:0]; c.optional {
		if p.levels, err = appendLevels(p.levels, in); err != nil {
			return err
		}
	}
	header := pqformat.PageHeader{Type: pqformat.DataPageV2}
	header.DataPageHeaderV2.Set(pqformat.DataPageHeaderV2{
		NumValues: int32(in.rows), NumNulls: int32(in.nulls), NumRows: int32(in.rows), Encoding: encoding,
		DefinitionLevelsByteLength: int32(len(p.levels)),
	})
	done, err := p.encode(header, p.levels, plain, k)
	if err != nil {
		return err
	}
	k.locations = append(k.locations, pqformat.PageLocation{Offset: k.size(), CompressedPageSize: int32(len(done)), FirstRowIndex: k.rows})
	k.pages = append(k.pages, done)
	k.addEncoding(encoding)
	k.countPage(pqformat.DataPageV2, encoding)
	k.rows += int64(in.rows)
	k.meta.NumValues += int64(in.rows)
	k.meta.Statistics.NullCount += int64(in.nulls)
	k.nulls, k.nullPages, k.bounds = append(k.nulls, int64(in.nulls)), append(k.nullPages, in.nulls == in.rows), append(k.bounds, b)
	k.unbounded = k.unbounded || b.least == nil && in.nulls < in.rows
	return nil
}

// useDictionary reports whether a page may be encoded with the dictionary of the chunk. After a page without it no page uses it, as readers
// expect.
func (k *chunk) useDictionary(in *page) bool {
	if !k.tried && in.nulls < in.rows {
		k.tried = true
		if len(k.pages) == 0 && repeats(in) {
			k.dictionary = &dictionary{places: make(map[string]int32)}
		}
	}
	return k.dictionary != nil && k.dictionary.places != nil
}

// size is the number of bytes of the data pages.
func (k *chunk) size() (n int64) {
	if at := len(k.locations); at > 0 {
		return k.locations[at-1].Offset + int64(k.locations[at-1].CompressedPageSize)
	}
	return 0
}

func (k *chunk) addEncoding(e pqformat.Encoding) {
	for _, has := range k.meta.Encoding {
		if has == e {
			return
		}
	}
	k.meta.Encoding = append(k.meta.Encoding, e)
}

// countPage notes the encoding of a page in the footer. The encoding in its header alone would decide whether its bytes are texts or places in the
// dictionary, and it has no checksum.
func (k *chunk) countPage(t pqformat.PageType, e pqformat.Encoding) {
	for i := range k.meta.EncodingStats {
		if s := &k.meta.EncodingStats[i]; s.PageType == t && s.Encoding == e {
			s.Count++
			return
		}
	}
	k.meta.EncodingStats = append(k.meta.EncodingStats, pqformat.PageEncodingStats{PageType: t, Encoding: e, Count: 1})
}

// levels01 has one bit a level.
var levels01 = rle.Encoding{BitWidth: 1}

// sample is the least number of bytes that show whether a chunk is worth compressing.
const sample = 4 << 10

// appendLevels appends the definition levels of a page.
func appendLevels(dst []byte, in *page) ([]byte, error) {
	if in.nulls > 0 {
		return levels01.EncodeLevels(dst, in.levels)
	}
	return append(endian.AppendUvarint(dst, uint64(in.rows)<<1), 1), nil // one run
}

// encode returns a page as the file has it. header lacks the sizes and the checksum. A column whose first page does not become smaller,
// for example of random ids, is not compressed.
func (p *part) encode(header pqformat.PageHeader, levels, plain []byte, k *chunk) (done []byte, err error) {
	packed, meta := plain, &k.meta
	if meta.Codec != pqformat.Uncompressed {
		if err = p.compress(plain); err != nil {
			return nil, err
		}
		packed = p.packed
		if len(p.meta.RowGroups) == 0 && len(k.pages) == 0 && len(plain) >= sample && header.DataPageHeaderV2.V.Encoding != pqformat.RLEDictionary && len(packed) > len(plain)-len(plain)/16 {
			meta.Codec, packed = pqformat.Uncompressed, plain
		}
	}
	if header.DataPageHeaderV2.Valid {
		header.DataPageHeaderV2.V.IsCompressed.Set(meta.Codec != pqformat.Uncompressed)
	}
	if int64(len(levels))+int64(max(len(plain), len(packed))) > 1<<31-1 {
		return nil, errors.New("parquet: a page has more than 2 GiB")
	}
	header.UncompressedPageSize = int32(len(levels) + len(plain))
	header.CompressedPageSize = int32(len(levels) + len(packed))
	header.CRC = int32(crc32.Update(crc32.ChecksumIEEE(levels), crc32.IEEETable, packed))
	head, err := marshal(&header)
	if err != nil {
		return nil, err
	}
	meta.TotalUncompressedSize += int64(len(head) + len(levels) + len(plain))
	meta.TotalCompressedSize += int64(len(head) + len(levels) + len(packed))
	done = make([]byte, 0, len(head)+len(levels)+len(packed))
	return append(append(append(done, head...), levels...), packed...), nil
}

func marshal(v any) ([]byte, error) { return thrift.Marshal(new(thrift.CompactProtocol), v) }

func (p *part) write(data []byte) error {
	n, err := p.out.Write(data)
	p.offset += int64(n)
	return err
}

// endGroup writes the row group.
func (p *part) endGroup() error {
	rows := p.chunks[0].rows
	if rows == 0 {
		return nil
	}
	if p.offset == 0 {
		if err := p.write([]byte("PAR1")); err != nil {
			return err
		}
	}
	g := pqformat.RowGroup{NumRows: rows, FileOffset: p.offset, Ordinal: int16(min(len(p.meta.RowGroups), 1<<15-1))}
	for i := range p.chunks {
		k := &p.chunks[i]
		if err := p.writeChunk(&p.columns[i], k); err != nil {
			return err
		}
		g.Columns = append(g.Columns, pqformat.ColumnChunk{MetaData: k.meta})
		g.TotalByteSize += k.meta.TotalUncompressedSize
		g.TotalCompressedSize += k.meta.TotalCompressedSize
	}
	p.meta.RowGroups = append(p.meta.RowGroups, g)
	p.meta.NumRows += rows
	p.indexes = append(p.indexes, append([]chunk(nil), p.chunks...))
	for i := range p.chunks {
		p.begin(i)
	}
	return nil
}

// writeChunk writes the pages of a chunk and forgets them.
func (p *part) writeChunk(c *column, k *chunk) error {
	if d := k.dictionary; d != nil && len(d.texts) > 0 {
		header := pqformat.PageHeader{Type: pqformat.DictionaryPage}
		header.DictionaryPageHeader.Set(pqformat.DictionaryPageHeader{NumValues: int32(len(d.texts)), Encoding: pqformat.Plain})
		done, err := p.encode(header, nil, d.data, k)
		if err != nil {
			return err
		}
		k.addEncoding(pqformat.Plain)
		k.countPage(pqformat.DictionaryPage, pqformat.Plain)
		k.meta.DictionaryPageOffset = p.offset
		if err := p.write(done); err != nil {
			return err
		}
	}
	k.addEncoding(pqformat.RLE)
	k.meta.DataPageOffset = p.offset
	for i, data := range k.pages {
		k.locations[i].Offset = p.offset
		if err := p.write(data); err != nil {
			return err
		}
	}
	k.pages, k.dictionary = nil, nil
	k.endFilter()
	if all := (bounds{}); !k.unbounded {
		for _, b := range k.bounds {
			if b.least != nil {
				all.add(c, b.least)
				all.add(c, b.most)
			}
		}
		k.meta.Statistics.MinValue, k.meta.Statistics.MaxValue = all.least, all.most
	}
	return nil
}

// close writes the last row group, the indexes of the pages, and the footer.
func (p *part) close() error {
	if err := p.endGroup(); err != nil {
		return err
	}
	if p.offset == 0 { // without rows
		if err := p.write([]byte("PAR1")); err != nil {
			return err
		}
	}
	if err := p.writeIndexes(); err != nil {
		return err
	}
	footer, err := marshal(&p.meta)
	if err != nil {
		return err
	}
	n := len(footer)
	return p.write(append(endian.LittleEndian.AppendUint32(footer, uint32(n)), "PAR1"...))
}

// writeIndexes writes the filters, the bounds of all pages, and then their places.
func (p *part) writeIndexes() error {
	if err := p.writeFilters(); err != nil {
		return err
	}
	for g, chunks := range p.indexes {
		for i := range chunks {
			if chunks[i].unbounded {
				continue
			}
			data, err := marshal(chunks[i].index(&p.columns[i]))
			if err != nil {
				return err
			}
			to := &p.meta.RowGroups[g].Columns[i]
			to.ColumnIndexOffset, to.ColumnIndexLength = p.offset, int32(len(data))
			if err := p.write(data); err != nil {
				return err
			}
		}
	}
	for g, chunks := range p.indexes {
		for i := range chunks {
			data, err := marshal(&pqformat.OffsetIndex{PageLocations: chunks[i].locations})
			if err != nil {
				return err
			}
			to := &p.meta.RowGroups[g].Columns[i]
			to.OffsetIndexOffset, to.OffsetIndexLength = p.offset, int32(len(data))
			if err := p.write(data); err != nil {
				return err
			}
		}
	}
	return nil
}

// index returns the bounds of the pages.
func (k *chunk) index(c *column) *pqformat.ColumnIndex {
	x := &pqformat.ColumnIndex{NullPages: k.nullPages, NullCounts: k.nulls}
	up, down := true, true
	var before bounds
	for _, b := range k.bounds {
		if b.least == nil { // NULL alone
			b = bounds{[]byte{}, []byte{}}
		} else {
			if before.least != nil {
				least, most := c.compare(before.least, b.least), c.compare(before.most, b.most)
				up, down = up && least <= 0 && most <= 0, down && least >= 0 && most >= 0
			}
			before = b
		}
		x.MinValues, x.MaxValues = append(x.MinValues, b.least), append(x.MaxValues, b.most)
	}
	if up {
		x.BoundaryOrder = pqformat.Ascending
	} else if down {
		x.BoundaryOrder = pqformat.Descending
	}
	return x
}

// schemaOf returns the columns as the footer has them.
func schemaOf(columns []column) []pqformat.SchemaElement {
	out := []pqformat.SchemaElement{{Name: "table", NumChildren: thrift.New(int32(len(columns)))}}
	for i := range columns {
		c := &columns[i]
		t := c.node().Type()
		e := pqformat.SchemaElement{Name: c.name, Type: thrift.New(*t.PhysicalType()), RepetitionType: thrift.New(pqformat.Required)}
		if c.optional {
			e.RepetitionType.V = pqformat.Optional
		}
		if l := t.LogicalType(); l != nil {
			e.LogicalType = *l
		}
		if l := t.ConvertedType(); l != nil {
			e.ConvertedType.Set(*l)
		}
		if c.kind == decimal { // for readers that do not know logical types
			e.Precision.Set(int32(c.precision))
			e.Scale.Set(int32(c.scale))
		}
		if c.store == fixed {
			e.TypeLength.Set(16)
		}
		out = append(out, e)
	}
	return out
}
