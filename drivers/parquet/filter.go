package parquet

import (
	"slices"

	"github.com/parquet-go/parquet-go/bloom"
	pqformat "github.com/parquet-go/parquet-go/format"
)

// filterBits are the bits of a Bloom filter for each different value. About one of a hundred values that are not there seems to be there.
const filterBits = 10

// filters reports whether the row groups of a column get Bloom filters.
func (x format) filters(c *column) bool { return c.kind == text && slices.Contains(x.bloom, c.name) }

// hash notes the values of a page.
func (k *chunk) hash(in *page) {
	for text := range in.texts {
		k.hashes = append(k.hashes, bloom.XXH64{}.Sum64(text))
	}
}

// endFilter makes the filter of the noted values. A chunk without any has none, because its statistics say so.
func (k *chunk) endFilter() {
	if len(k.hashes) == 0 {
		return
	}
	slices.Sort(k.hashes)
	k.hashes = slices.Compact(k.hashes)
	k.filter = make(bloom.SplitBlockFilter, bloom.NumSplitBlocksOf(int64(len(k.hashes)), filterBits))
	k.filter.InsertBulk(k.hashes)
	k.hashes = nil
}

func (p *part) writeFilters() error {
	for g, chunks := range p.indexes {
		for i := range chunks {
			filter := chunks[i].filter
			if filter == nil {
				continue
			}
			header := pqformat.BloomFilterHeader{NumBytes: int32(len(filter) * bloom.BlockSize)}
			header.Algorithm.Value, header.Hash.Value, header.Compression.Value = &pqformat.SplitBlockAlgorithm{}, &pqformat.XxHash{}, &pqformat.BloomFilterUncompressed{}
			data, err := marshal(&header)
			if err != nil {
				return err
			}
			data = append(data, filter.Bytes()...)
			to := &p.meta.RowGroups[g].Columns[i].MetaData
			to.BloomFilterOffset, to.BloomFilterLength = p.offset, int32(len(data))
			if err := p.write(data); err != nil {
				return err
			}
		}
	}
	return nil
}
