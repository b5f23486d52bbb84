// Package sim runs engines and buffers in a simulated world and checks that they keep their promise.
//
// One run is one seed: bubbles of testing/synctest with a fake clock, a disk that can lose power at any operation,
// fail, fill up, be slow and give back other bytes than it got, a staging store and a target that fail before or after
// they have done the work, clients, and an operator who flushes, redefines, disables and removes sinks, discards files,
// makes checkpoints, restarts and kills the process. Time passes only when everything waits, so a run of many simulated
// days takes milliseconds.
//
// Two runs of three drive an engine: its clients send records one by one, in batches, and by HTTP requests that are
// given to the handler without a network. The third drives the buffer alone, where clients may also hold handles of
// definitions that have been replaced.
//
// The model is plain: it remembers what every client was told about every row, and what the staging store and the
// target were asked to do. After the run all faults stop, everything must drain, and then every row that was
// acknowledged is in its table exactly once, or is one of those that were reported as expired, discarded or damaged; no
// row was invented, rows that nobody waited for are missing only when the power went off within the bound of
// Options.SyncInterval, the order of each client holds inside each file, one id was never given to different rows, no
// file expired before its time, the ledger agrees with the tables, and nothing is left over on the disk, in staging and
// among the goroutines.
//
// # Clocks
//
// Leaps of hours and days happen while clients and drivers are active. The wall clock is set forward and back while no
// process runs, by up to weeks: each setting is a bubble of its own. A step of the wall clock under a running process is
// not simulated, because a bubble has one clock; there the code compares monotonic times, see package trigger.
//
// # Damage
//
// Bytes rot while no process runs: in stored chunks, and in blocks of the store's files that hold chunks alone. Damage of
// the other records and of the log of the store is not simulated here.
//
// # Determinism
//
// All decisions of a run come from its seed: those of the operator from two generators, those of the disk from the
// number of the operation, and those of the clients and drivers from the name of the call and its attempt, so that they
// do not depend on how goroutines are interleaved. How they are interleaved is up to Go's scheduler, which no seed rules,
// as are the choice of a select between cases that are ready, and the order of maps. With one processor (-cpu 1) nearly
// every seed goes the same way each time, with several the order of what happens at the same time differs. The
// fingerprint that a single run prints, a sum over all calls of drivers and their times, tells which runs were alike. The
// command that is printed for a failed seed plays it ten times in both ways.
//
//	go test ./internal/sim -run TestSimulation -seed 42 -cpu 1      one run, with its story
//	go test ./internal/sim -run TestSimulation -seeds 2000          many runs
//
// The simulation proves itself with defects that are put into a build on purpose, one of testdata/mutants at a time:
// TestMutantsAreCaught.
package sim
