//go:build race

package catalog_test

// faultStep is the distance of the operations that fail in turn: the race detector makes each of them some ten times as
// dear, and the runs without it take every one.
const faultStep = 9
