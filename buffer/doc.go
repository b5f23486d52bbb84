// Package buffer keeps rows on local disk and moves them, in two triggered steps, to a staging store and into a
// destination table: local → staging → target.
//
//	b, err := buffer.Open("data", buffer.Options{Target: target, Staging: staging})
//	if err != nil {
//		return err
//	}
//	defer b.Close()
//	sink, err := b.Define(ctx, buffer.SinkConfig{ID: "events", Table: table})
//	if err != nil {
//		return err
//	}
//	ticket, err := b.Append(ctx, time.Now(), buffer.Rows{Sink: sink, Data: csv, Count: 1})
//	if err == nil {
//		err = ticket.Wait(ctx) // nil: the rows are on local disk
//	}
//
// # Promise
//
//   - When [Ticket.Wait] returns nil, the rows of that Append are on local disk (fsync) and will be in the target
//     exactly once, whatever crashes, power cuts or outages come in between, provided that the drivers keep their
//     contracts ([driver.Staging], [driver.Target]).
//   - With a [Changelog] they are then in a log on other machines too, and [Restore] brings them back when this one is lost.
//   - Rows whose Append no caller waited for are on disk after at most Tuning.SyncInterval and one commit.
//   - Nothing is dropped silently. Rows leave only by import, by expiry, by [SinkHandle.Discard] or by damage of the disk. All are
//     counted, and all but imports are logged as warnings or errors.
//   - Memory and disk are bounded. At a bound Append fails with an [*OverloadError] before it has taken anything.
//   - Rows of one sink that one goroutine appends keep their order inside an import.
//
// The cost of a durable Append is a copy of the rows and one shared wait. All appends of all sinks that arrive while
// a commit is being written are one batch of the next commit, with one fsync.
//
// # Levels and states
//
// Rows gather in memory chunks. A commit writes every open chunk. The chunks of one sink between two step-1 triggers
// are a slice. The slices of one sink between two step-2 triggers are a file.
//
//	slice   writing ──(step-1 trigger or its file closes)──▶ uploading ──(Staging.Put)──▶ uploaded ──▶ imported
//	file    writing ──(step-2 trigger)──▶ closing ──(all slices uploaded)──▶ importing ──(Target.Import)──▶ imported
//	                                                                             ├──(retention)──▶ expired
//	                                                                             └──(SinkHandle.Discard)──▶ discarded
//
// Every state change is one atomic batch with an fsync, and it is on disk before the external call that follows from
// it. A slice and a file are opened by the first row and not before, so an idle sink costs nothing. Both keep the
// table, the conditions and the encoding that were in force when they were opened. A change closes them.
//
// # What is assumed of the disk
//
// fsync of a file makes its bytes durable, and fsync of a folder its names. A torn write at the end of the log is
// found by checksums and cut off, because such rows were never acknowledged. A chunk that is damaged later is
// found by its own checksum when it is read, and reported with its coordinates.
package buffer
