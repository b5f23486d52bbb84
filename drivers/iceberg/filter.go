package iceberg

import (
	"context"
	"strconv"

	iceberglib "github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

const (
	// filteredKey, with the name of a column, is the property of tables whose data files get Bloom filters of the column.
	filteredKey = table.ParquetBloomFilterColumnEnabledKeyPrefix + "."
	// filterBytes is the size of a filter. The library makes each as large as it may be, because it does not know the number of values. A row group of
	// 131,072 rows with as many different values has 8 bits for each value.
	filterBytes = 128 << 10
)

// withFilters returns the table with the properties of Options.Bloom. The driver never commits them.
func (t *Target) withFilters(tbl *table.Table) (*table.Table, error) {
	props := iceberglib.Properties{}
	for _, name := range t.opts.Bloom {
		if f, ok := tbl.Schema().FindFieldByName(name); ok && f.Type.Equals(iceberglib.PrimitiveTypes.String) {
			props[filteredKey+name] = "true"
			props[table.ParquetBloomFilterMaxBytesKey] = strconv.Itoa(filterBytes)
		}
	}
	if len(props) == 0 {
		return tbl, nil
	}
	b, err := table.MetadataBuilderFromBase(tbl.Metadata(), tbl.MetadataLocation())
	if err == nil {
		err = b.SetProperties(props)
	}
	if err != nil {
		return nil, err
	}
	meta, err := b.Build()
	if err != nil {
		return nil, err
	}
	return table.New(tbl.Identifier(), meta, tbl.MetadataLocation(), func(ctx context.Context) (icebergio.IO, error) { return tbl.FS(ctx) }, nil), nil
}
