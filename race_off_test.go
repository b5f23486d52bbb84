//go:build !race

package forebay_test

const raceEnabled = false
