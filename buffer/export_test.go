package buffer

import "context"

// ImportNow imports the first file of a sink, even if its workers would not begin an attempt at this moment.
func ImportNow(ctx context.Context, b *Buffer, sinkID string) {
	b.mu.RLock()
	f := b.mu.sinks[sinkID].files[0]
	b.mu.RUnlock()
	b.importFile(ctx, f)
}
