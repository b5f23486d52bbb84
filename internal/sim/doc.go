// Package sim runs engines and buffers in a simulated world and checks that they keep their promise.
//
// One run is one seed: bubbles of testing/synctest with a fake clock, and in them
//
//   - a disk that can lose power at any operation, even after the kill of a process that had not synced, fail, fill up, be slow and
//     return wrong bytes. Data that a failed sync covered is lost with the power, though later syncs succeed,
//   - a staging store and a target that fail before or after they have done the work,
//   - clients that send rows,
//   - an operator who flushes, redefines, disables and removes sinks, discards files, makes checkpoints, restarts and kills
//     the process,
//   - other engines that give a table other columns,
//   - a target that refuses rows by rules that change, and names all of them, the first one or none. In most runs it can rule out an import,
//   - sinks with quarantines, with small and large bounds, and an operator who lists, repairs, tests, replays and discards their records,
//     who splits held files, and sends the rest of files to the quarantine.
//     The power also goes off a few operations of the disk after such a call, or after the target has refused rows,
//   - a source that keeps its raw records, and a run of SinkHandle.Replay that brings them into another sink. The operator calls it with
//     contexts that end early, cuts of the power and failing syncs.
//
// Time passes only when everything waits, so a run of many simulated days takes milliseconds.
//
// Two of three runs drive an engine. Its clients send records one by one, in batches, and by HTTP requests that reach the
// handler without a network. The third drives the buffer alone, where clients may also hold handles of replaced definitions.
//
// More than half of the runs have typed columns, in tables that grow. Each definition adds, removes or reorders columns of the definition
// before it, changes the case of their names, goes back to an earlier definition, or asks for a type that the table cannot follow.
//
// The model remembers what every client was told about every row, and every call to staging and target. After the run all
// faults stop and everything must drain. Then:
//
//   - every acknowledged row is in its table exactly once, or in the quarantine of its sink exactly once, or was reported as expired,
//     discarded or damaged,
//   - a record is in a quarantine only if its client was told so, or if the target has refused its row. It leaves by a replay, by a call that
//     discards it, or because it has expired, at its age, or as the oldest at a bound,
//   - a quarantine has each record as it arrived, even next to its edit, and a replay uses the edit,
//   - the archive has each record as it was sent, and a replay stores each record archived before the run exactly once, however often it was
//     interrupted,
//   - no row was invented, and no id was given to different rows,
//   - every row has exactly the cells that the texts of its record make, under the columns of its definition,
//   - rows without a waiting caller are missing only if the power went off within the bound of Tuning.SyncInterval,
//   - the order of each client holds inside each file,
//   - no file expired before its time,
//   - the ledger agrees with the tables, and the counters of the quarantines with their content,
//   - nothing is left on the disk, in staging or among the goroutines.
//
// # Quarantines
//
// Six of ten of the runs that are not regressions have quarantines. An operator inspects a quarantine while clients, imports and other calls
// continue. Records that clients know to be there must be listed, from the response on and after every restart. Where the model cannot know which
// record a bound has removed, it compares numbers. No more records may be missing than the counters say.
//
// # Clocks
//
// Leaps of hours and days happen while clients and drivers are active. The wall clock is set forward and back by up to weeks
// while no process runs, each time in a separate bubble. A step of the wall clock under a running process is not simulated,
// because a bubble has one clock. The code compares monotonic times there, see package trigger.
//
// # Damage
//
// Bytes rot while no process runs: in stored chunks, and in blocks of the store that hold only chunks. Damage of other
// records and of the log is tested in package buffer.
//
// # Determinism
//
// All decisions of a run come from its seed: the operator's from two generators, the disk's from the number of the
// operation, and decisions of clients and drivers from the name of the call and its attempt, so that they do not depend on the
// order of goroutines. That order, the choice of a select between ready cases, and the order of maps do not come from the
// seed. With one processor (-cpu 1) nearly every seed takes the same course each time; with several, simultaneous events
// change their order. A single run prints a fingerprint, a sum over all driver calls and their times, that tells which runs
// were alike. The command printed for a failed seed plays it ten times in both ways.
//
//	go test ./internal/sim -run TestSimulation -seed 42 -cpu 1      one run, with its story
//	go test ./internal/sim -run TestSimulation -seeds 2000          many runs
//
// The simulation proves itself with defects that are built in on purpose, one of testdata/mutants at a time:
// TestMutantsAreCaught.
package sim
