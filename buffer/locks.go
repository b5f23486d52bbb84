package buffer

// # Goroutines
//
//	caller      Append copies rows into a chunk; Ticket.Wait waits for the group. Any number.
//	committer   commitLoop: the only one that changes state. It takes groups, writes batches, begins and ends reopenings.
//	syncer      syncLoop: waits for the disk and lets the callers go. It runs what follows from a commit.
//	probe       gives the processor to callers that are about to wait; at most one for each group.
//	scheduler   calls fire when a timer is due. It only posts operations.
//	workers     uploads, imports, clean-ups; each makes its calls of drivers on separate goroutines (runAttempt).
//	reopen      of pebblestore.Store: closes and opens a store that has failed; at most one. It hands the store to the committer.
//
// # Lock order
//
// A lock may be taken while those before it on its line are held, never the other way round. No lock of the buffer is held
// during I/O, while a driver runs, or while a logger or meter is called. Only the intake is held for the length of an Append.
//
//	gate.intake ─▶ sinkState.mu ─▶ gate.mu
//	Buffer.mu ─▶ gate.mu
//	Buffer.mu ─▶ receipts.mu, probeQueues.mu, workers.mu, the lock of the scheduler
//	admission.mu ─▶ line.mu
//	locks of the store ─▶ the lock of its phase, receipts.mu
//
// The locks at the end of a line, and the locks of lateImports, relief and sliceSource, are held for a few instructions. The store
// reports its failure with its own locks held, so its callbacks (StoreConfig.Failed, neededBytes) must not enter the store.
//
// Buffer.mu is special, because only the committer writes the state that it guards. So the committer reads without it, and locks only
// to write. All other goroutines lock for reading. sinkState.def is the exception: Define sets it after a restart, so the committer reads it with the lock.
