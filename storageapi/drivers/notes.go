package drivers

import (
	"context"
	"strings"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/storageapi"
)

// The notes on a table that say which sink writes it, as clients of the service read them.
const (
	noteProvider = "stream"
	sourceNote   = "KBC.stream.source.id"
	sinkNote     = "KBC.stream.sink.id"
)

// note writes into the metadata of the table which sink writes it, once for each table and sink in the life of the target. A
// failure is only logged, because the rows are in the table. The next import tries again.
func (t *Target) note(ctx context.Context, client *storageapi.Client, f *driver.File) {
	key := f.Table.ID + " " + f.SinkID
	_, done := t.noted.Load(key)
	source, sink, ok := strings.Cut(f.SinkID, "/")
	if done || !ok {
		return
	}
	_, err := client.SetTableMetadata(ctx, f.Table.ID, noteProvider, []storageapi.KeyValue{
		{Key: sourceNote, Value: source}, {Key: sinkNote, Value: sink},
	})
	if err != nil {
		t.opts.Logger.Debug("storage api target: the table could not be given the notes of its sink", "sink", f.SinkID, "table", f.Table.ID, "error", err)
		return
	}
	t.noted.Store(key, true)
}
