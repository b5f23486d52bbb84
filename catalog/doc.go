// Package catalog keeps the definitions of an engine's sources and sinks: durably, with versions, and with every change
// live at once. It is the management of the service without HTTP; package stream serves it as the Stream API.
//
//	cat, err := catalog.Open(filepath.Join(dir, "catalog"), eng, catalog.Options{})
//	task, err := cat.CreateSource(by, catalog.SourceSpec{Name: "Web", Type: forebay.HTTP})
//	task, err = cat.Wait(ctx, task.ID)
//
// # What is guaranteed
//
//   - A change is checked when it is asked for: the caller gets its mistakes at once, as an [*Error]. Then it runs as a
//     [Task], because the table and the token of a sink are made elsewhere and may take long.
//   - A task that ended with success is on disk, and the engine follows it. The definitions, their new version and the
//     success of the task are one write: after a crash there is all of it or nothing. A task that a crash has ended is
//     marked as failed by the next Open. An erasure ends the source in one write and its task in another; the next Open
//     goes on with what a crash has left between the two.
//   - Two changes of one source or sink never run at the same time: the second is refused with [Busy] and the id of the
//     first. Changes of different sinks of one source wait for each other. No update is lost.
//   - No accepted row is lost by a change: rows go to the table that they were mapped for, also those of sinks that are
//     disabled or deleted meanwhile, which is why nothing has to be drained before.
//   - A table that an erasure drops is no live sink's: changes that begin to use it before are waited for, and then it
//     stays; later ones are refused with [Busy] until the erasure has ended.
//   - Secrets and tokens are never part of a version, a task, an error or a log line.
//
// # Own and inherited states
//
// A source and each of its sinks have their own disabled mark. A sink takes events when neither is set, so that enabling
// a source does not enable what was disabled for itself. A deleted source takes its live sinks with it, and undeleting it
// brings back those and no others.
//
// # When the disk fails
//
// A change is made outside first (tokens), then in the engine, then in the store, and in memory last. The write of the
// store is what counts; whatever fails before it is undone. The write itself can end in three ways:
//
//   - It is durable: memory takes it over, and the task has succeeded.
//   - Nothing was written ([ErrNotCommitted]): engine and tokens are put back, and the task has failed.
//   - The disk failed during it, and nobody knows. Then the store is reopened and the records are read back. If they are
//     there, all of them since they are one batch, the change has succeeded after all; if not, it is undone. As long
//     as the store cannot be read, the engine goes back to the definition that was acknowledged last, which is also what
//     readers see; the tokens of both stay, the task is [Processing], and the source has no other change. Neither
//     the time limit of the task nor the end of the caller's context ends that: to report a failure of what may come back
//     with the next start would be wrong, and so would be a success. [Catalog.Close] ends it; then the next Open
//     tells how the task has ended, from its record, which is a part of the same batch.
//
// Where putting the engine back fails, because its own disk is away too, it is repeated until it succeeds or another
// change of the source does. An end of a task that could not be written is written later.
//
// The default store never ends its process: the opening that met the failure is cut off from the disk, and the next call
// opens another from what the disk has, with growing pauses between attempts. A repeated fsync is not believed.
// Sources, sinks and tasks are read from memory meanwhile; versions and their contents need the disk. Calls that need it
// return a [*FailedError]. Files that are damaged are a [*DamageError], which no retry fixes.
//
// # Locks
//
// The lock of a source is held while a change of it is made, also through calls of drivers; the lock of the catalog is
// taken after it, for memory alone. Nothing is held while a task waits for its source, for as long as a task may take; a
// change without a task waits 20 s and is then refused with [Busy]. A change claims the tables that it begins to use after
// it has the lock; an erasure waits for claims without any lock, so neither can wait for itself.
//
// # Layout
//
// All records are in one [Store], by default a small pebble database of its own in the data directory. What is live is
// also in memory; the number of definitions is small by the limits of the service. [Catalog.Checkpoint] copies them.
package catalog
