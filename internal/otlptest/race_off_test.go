//go:build !race

package otlptest

const raceEnabled = false
