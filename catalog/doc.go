// Package catalog stores the definitions of an engine's sources and sinks durably, with versions, and applies every change
// at once. It is the management of the service without HTTP. Package stream/streamapi serves it as the Stream API.
//
//	cat, err := catalog.Open(filepath.Join(dir, "catalog"), eng, catalog.Options{})
//	task, err := cat.CreateSource(by, catalog.SourceSpec{Name: "Web", Type: forebay.HTTP})
//	task, err = task.Wait(ctx) // err says why the task has failed
//
// # What is guaranteed
//
//   - A change is checked when it is asked for, and the caller gets all mistakes at once, as an [*Error]. Then it runs as a
//     [Task], because the table and the token of a sink are made elsewhere and may take long.
//   - When a task has succeeded, its change is on disk and the engine has it. The definitions, their new version and the
//     success of the task are one write. After a crash there is all of it or nothing. The next Open marks tasks that a crash
//     has ended as failed. An erasure removes the source in one write and ends its task in another. The next Open continues
//     an erasure that a crash has interrupted between the two, and it continues replays of archives.
//   - Two changes of one source or sink never run at the same time. The second is refused with [Busy] and the id of the
//     first. Changes of different sinks of one source wait for each other. A change without a task, such as a rotation of a secret, waits
//     up to 20 s before it is refused. No update is lost.
//   - No change loses an accepted row. Rows go to the table that they were mapped for, also rows of sinks that are disabled
//     or deleted meanwhile, so nothing has to be drained first.
//   - An erasure drops only tables that no live sink uses. It waits for changes that have begun to use one of its tables,
//     and then leaves the table. Later changes are refused with [Busy] until the erasure has ended.
//   - Secrets and tokens are never part of a version, a task, an error or a log line.
//
// # Own and inherited states
//
// A source and each of its sinks have their own disabled mark. A sink accepts events when neither is set, so enabling a
// source does not enable a sink that was disabled on its own. Deleting a source deletes its live sinks. Undeleting it brings
// back those sinks and no others.
//
// # When the disk fails
//
// A change is made outside first (tokens), then in the engine, then in the store, and in memory last. The write of the
// store decides. Whatever fails before it is undone. The write itself can end in three ways:
//
//	it is durable                        memory takes it over, and the task has succeeded
//	nothing was written                  engine and tokens are put back, and the task has failed (ErrNotCommitted)
//	the disk failed, outcome unknown     the store is reopened and the records are read back: if they are there, all of them
//	                                     since they are one batch, the change has succeeded, else it is undone
//
// As long as the store cannot be read, engine and readers have the definition that was acknowledged last, the tokens of both
// definitions stay, the task is [Processing], and the source has no other change. Neither the time limit of the task nor the
// end of the caller's context ends that, because both a failure and a success could turn out wrong. [Catalog.Close] ends it.
// Then the next Open reads how the task has ended from its record, which is part of the same batch.
//
// A change that cannot be undone, because the engine's own disk is away too, is repeated until it succeeds or another change of the
// source replaces it. The end of a task that could not be written is written later.
//
// The default store never ends its process. After a failure the open database is cut off from the disk, and a later call
// opens a new one from the files on the disk, with growing pauses between attempts. A repeated fsync is not trusted. Sources,
// sinks and tasks are read from memory meanwhile. Versions and their contents need the disk, and calls that need it return a
// [*FailedError]. Damaged files are a [*DamageError], which no retry can fix.
//
// # Several nodes
//
// With a [SharedStore] several catalogs have the same definitions, tasks, secrets and tokens, one on each node of a cluster. Each
// follows the commits of the others, and so does its engine. The guarantees above hold for changes through all of them. A change first gets
// a hold on its source and tables, and another node that wants one of these is refused with [Busy]. The hold of a node that is silent for
// [SharedOptions.Lease] ends. Its task has failed, or another node continues its erasure. [Catalog.CatchUp] makes reads show earlier changes
// of other nodes.
package catalog
