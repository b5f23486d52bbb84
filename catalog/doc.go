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
//     marked as failed by the next Open.
//   - Two changes of one source or sink never run at the same time: the second is refused with [Busy] and the id of the
//     first. Changes of different sinks of one source wait for each other. No update is lost.
//   - No accepted row is lost by a change: rows go to the table that they were mapped for, also those of sinks that are
//     disabled or deleted meanwhile, which is why nothing has to be drained before.
//   - Secrets and tokens are never part of a version, a task, an error or a log line.
//
// # Own and inherited states
//
// A source and each of its sinks have their own disabled mark. A sink takes events when neither is set, so that enabling
// a source does not enable what was disabled for itself. A deleted source takes its live sinks with it, and undeleting it
// brings back those and no others.
//
// # Layout
//
// All records are in one [Store], by default a small pebble database of its own in the data directory. What is live is
// also in memory; the number of definitions is small by the limits of the service.
package catalog
