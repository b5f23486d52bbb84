// Package changelog keeps a second copy of an engine's local level in a replicated log, so that no
// acknowledged row is lost with a machine.
//
//	appender, err := changelog.OpenAppender(ctx, changelog.AppenderOptions{
//		Log: log, NextEpoch: keeper.NextEpoch, Valid: keeper.Valid, Released: keeper.Owner().Released,
//	})
//	if err != nil {
//		return err
//	}
//	pending := appender.Append(batch)
//	err = pending.Wait(ctx) // nil: the log has stored the batch
//
// # What is promised
//
// A batch is released when it and all batches before it are permanently in the log. A caller that acknowledges rows only then can lose any one
// machine. Another node, the adopter, reads the log and has every acknowledged batch exactly once and in order. Three invariants
// carry this:
//
//   - I1: a batch is released only if it stands in the log before every record of a higher epoch.
//   - I2: an effect outside (an upload, an import) begins only after the batch that causes it was released. An adopter therefore knows
//     of it and repeats it under the same id.
//   - I3: at any position the records of one epoch count at most, and an epoch belongs to one node.
//
// The price is one response of a quorum for each batch, in parallel with the fsync of the local level, and the network and disks
// of the log. While the log is away nothing is released. Two faults at once are not covered. The owner's disk, together with a
// log that has lost acknowledged records, loses rows, and loudly ([ErrHole], [ErrWentBack]).
//
// # The life of a batch
//
//	Appender.Append   number, parts of PartBytes, chain ─▶ queue   at most MaxBytes wait
//	send              part by part ─▶ Writer                       at most Window parts in flight
//	collect           ticket by ticket, in order; the lease is asked
//	release           Pending ends: acknowledge, begin effects
//
// The first failed ticket makes the appender suspect. It releases nothing more, even where later tickets would succeed, and gives up
// the writer. Then it takes a new epoch, appends a marker, and reads from the last released batch up to the marker. Batches that it
// finds are released, the others are appended again under the new epoch. The same steps open a log after a restart, and in
// the adopter: [OpenAppender].
//
// # Who counts
//
// Writers are fenced by epochs. The log may still accept records of a fenced writer that were in flight, so the reader decides,
// always by the same rule, from a batch that counts or from the start of the log:
//
//   - The highest epoch so far is kept. It begins with its marker, of the kind [Opened]. A later record of a lower epoch is void.
//   - An epoch belongs to the node of its first marker. A record of another node in it is void.
//   - A batch whose parts are not complete when the next one or a higher epoch begins is void.
//   - Numbers of batches have no gaps, over all epochs, and the chain of each part must fit the one before. Anything else is a
//     [HoleError]. No reader continues after it.
//
// # Who owns an instance
//
// One record in [Owners] says who owns an instance: [Owner]. A node that has the instance on its disk gets it with [Take], another node
// with [Adopt] when the owner has been silent for a lease. Both give a [Keeper], which beats, and from which an appender takes
// its epochs and its right to release.
//
// A lease is timing, not safety. Two nodes that both believe to be the owner are distinguished by the log. Reading a record decides
// only that a higher epoch of another process is final. All else is decided by comparing and setting. The record of a retired
// instance can be deleted nevertheless. See [Forget].
// Drivers implement [Log] and [Owners], and [Elector] where a stream has several replicas.
package changelog
