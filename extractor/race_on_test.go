//go:build race

package extractor_test

// raceEnabled is true when the race detector makes everything ten times slower.
const raceEnabled = true
