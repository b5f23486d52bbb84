// Package salvage replaces a damaged store by a new one with everything in it that is whole, so that the process starts and
// the rows flow. It knows the format of the store and nothing of the buffer that uses it.
//
// # When
//
// The buffer opens its store in these steps. Each may find damage ([pebblestore.IsDamage]), and then [Run] is called and the store is
// opened once more:
//
//	FinishSwap ─▶ CheckClosed ─▶ ForgetClosed ─▶ open the store ─▶ read the records ─▶ in use ─▶ closed ─▶ NoteClosed
//	     ▲            │damage                       │damage            │damage
//	     │            └─────────────────────────────┴────────┬─────────┘
//	     └──────────────────────── Run ◀─────────────────────┘
//
// An error of the disk itself is no damage. It may pass, and nothing is changed.
//
// # Order of a run
//
//	scan    read every table and log key by key,      found    the contents, in the version that is furthest
//	        and the copy of the records
//	settle  decide what becomes of it                 plan     records of the new store, chunks that it keeps, losses
//	write   write the new store next to the damaged   forebay-salvage/
//	swap    move the damaged store to damaged-<time>, and the new one to its place
//
// scan, settle and write change nothing of the damaged store. A crash before the swap leaves a folder that the next run
// deletes. The swap has a note on disk (forebay-swap):
//
//	no note ──write note──▶ "out": old files are moved out ──▶ "in": new files are moved in ──remove note──▶ no note
//
// Moving a file again that was moved before does nothing, so [pebblestore.FinishSwap] repeats the step that the note names.
//
// # Who owns what
//
//	found    filled by scan, then read by settle and write alone; it aliases nothing of the store
//	plan     made by settle; write reads it
//	losses   added to by scan and settle; becomes records of the new store, and lines of the log after the swap
//
// # Why the furthest version counts
//
// The structures that order versions in a store (its list of tables, a part of a log) may be the damaged part, so nothing rests on
// them. The format does not need them, because a number is never given twice, a chunk and a receipt never change, the record of a slice or
// file only advances through its states, the record of a sink through its lives and counters, and a deleted record never comes back.
// So the version that is furthest counts, and a deletion above all.
//
// # The copy of the records
//
// The records of sinks, files and slices are in a few small tables, and one wrong byte may destroy all of them. Then nothing says where the rows in
// staging belong, because a staging cannot list its objects, and an object contains only rows. And nothing says how far a replay has come, so it
// would store its rows once more. So the buffer keeps a copy of these records in a separate file ([format.CopyFile]). It writes a change there after the change is durable in the store. The copy is one more place with versions of
// records. It may be older than the store was, and never newer. Nothing else in a salvage knows of it.
//
// The design that lost: a header in each object with its sink, table and file. Drivers and warehouses read the objects as they are, plain text has no
// place for it, and the salvage would still have to guess the ids.
//
// # Why rows are still there exactly once
//
// The salvaged state may be older than the last state of the store.
//
//   - Everything keeps its id, and a target takes an id once. Nothing more is written under an id that was found: all
//     open slices and files are sealed, and the new store has a new instance name.
//   - A slice that may have been longer, or uploaded, is marked Salvaged. The buffer first looks for it in staging, and counts
//     its rows there. Else it asks the target for its file, and if the target does not have it, uploads the remaining rows under a
//     new id.
//   - A rejected record counts in the version that is furthest too, and its deletion above all. If the deletion is the damaged part,
//     the record is back. The ledger of its sink then shows one too many, which is reported.
//   - Parts that cannot be attributed, such as chunks whose slice has no record in the copy either, are not imported: they may be in
//     their table already. They are reported as a loss and stay in the folder that was set aside.
package salvage
