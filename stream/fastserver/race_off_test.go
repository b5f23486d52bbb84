//go:build !race

package fastserver_test

const raceEnabled = false
