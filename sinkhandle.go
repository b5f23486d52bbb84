package forebay

import "context"

// SinkHandle is one sink of an engine: see [Engine.Sink]. Its methods act on the sink and its files. A handle costs
// nothing. It is safe for concurrent use, and stays valid while the sink is defined again.
type SinkHandle struct {
	e            *Engine
	source, sink string
}

// Sink returns a handle of a sink. Neither the source nor the sink must be defined: the methods of the handle say what they need.
func (e *Engine) Sink(sourceID, sinkID string) SinkHandle { return SinkHandle{e, sourceID, sinkID} }

// id is the name of the sink in the buffer.
func (h SinkHandle) id() string { return bufferID(h.source, h.sink) }

// known names the sink in an error of the buffer.
func (h SinkHandle) known(err error) error { return h.e.unknownSink(err, h.source, h.sink) }

// Retry repeats at once what failed before at a sink, instead of waiting for the backoff: after the cause was fixed.
// The sink need not be defined any more.
func (h SinkHandle) Retry(ctx context.Context) error {
	return h.known(h.e.buf.Retry(ctx, h.id()))
}

// RetryFile is [SinkHandle.Retry] for one file, see [buffer.Buffer.RetryFile].
func (h SinkHandle) RetryFile(ctx context.Context, fileID string) error {
	return h.known(h.e.buf.RetryFile(ctx, h.id(), fileID))
}

// SplitFile goes on with a file that is held because the target refuses rows of it: it is imported without them, although the cause is probably
// not in the rows; see [buffer.Buffer.SplitFile]. The sink need not be defined any more.
func (h SinkHandle) SplitFile(ctx context.Context, fileID string) error {
	return h.known(h.e.buf.SplitFile(ctx, h.id(), fileID))
}

// QuarantineFile moves all rows of a file that are not in its table to the quarantine of the sink; see [buffer.Buffer.QuarantineFile]. The sink
// need not be defined any more.
func (h SinkHandle) QuarantineFile(ctx context.Context, fileID string) error {
	return h.known(h.e.buf.QuarantineFile(ctx, h.id(), fileID))
}

// Discard gives up a file that is not in its table yet; see [buffer.Buffer.Discard]. The ledger counts its rows as
// discarded. The sink need not be defined any more.
func (h SinkHandle) Discard(ctx context.Context, fileID string) error {
	return h.known(h.e.buf.Discard(ctx, h.id(), fileID))
}

// DiscardUpTo is [SinkHandle.Discard] for a file with at most so many rows, else it returns a [*buffer.FileGrewError]; see
// [buffer.Buffer.DiscardUpTo].
func (h SinkHandle) DiscardUpTo(ctx context.Context, fileID string, rows int64) error {
	return h.known(h.e.buf.DiscardUpTo(ctx, h.id(), fileID, rows))
}
