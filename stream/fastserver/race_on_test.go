//go:build race

package fastserver_test

const raceEnabled = true
