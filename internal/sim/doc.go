// Package sim runs the buffer in a simulated world and checks that it keeps its promise.
//
// One run is one seed: a bubble of testing/synctest with a fake clock, a disk that can lose power at any operation,
// fail, fill up and be slow, a staging store and a target that fail before or after they have done the work, clients
// that append rows, and an operator who flushes, redefines and drops sinks, restarts and kills the process. Time passes
// only when everything waits, so a run of many simulated hours takes milliseconds.
//
// The model is plain: it remembers what every client was told about every row, and what the staging store and the
// target were asked to do. After the run all faults stop, everything must drain, and then every row that was
// acknowledged is in its table exactly once, no row was invented, rows that nobody waited for are missing only when
// the power went off within the bound of Options.SyncInterval, the order of each client holds inside each file, one id
// was never given to different rows, the ledger agrees with the tables, and nothing is left over on the disk, in
// staging and among the goroutines.
//
// The decisions of a run come from its seed: those of the operator from one generator, those of the disk from the
// number of the operation, and those of the drivers from the name of the call and its attempt, so that they do not
// depend on how goroutines are interleaved.
//
//	go test ./internal/sim -run TestSimulation -seed 42        repeat one run, with its story
//	go test ./internal/sim -run TestSimulation -seeds 2000     many runs
//
// The simulation proves itself with builds of the buffer that are broken on purpose (build tag forebay_mutants):
// TestMutantsAreCaught.
package sim
