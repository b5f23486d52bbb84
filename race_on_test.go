//go:build race

package forebay_test

const raceEnabled = true
