//go:build race && !forebay_notemplates

package template

const raceEnabled = true
