package main

import (
	"regexp"
	"strings"
	"time"
)

// timed is a test and how long it took.
type timed struct {
	name string
	took time.Duration
}

var (
	// ended is the line at the end of a test. For a subtest it is indented.
	ended = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \((\d+\.\d+s)\)$`)
	// switched says which test the following lines are from.
	switched = regexp.MustCompile(`^=== (RUN|CONT|NAME|PAUSE)\s+(\S*)$`)
)

// read reads the output of a test program with -test.v. It returns the tests that have no parent, and the output without the lines of tests
// that passed or were skipped. It keeps lines that belong to no test, such as the lines of a panic.
func read(text string) (tests []timed, failed string) {
	passed := map[string]bool{}
	for line := range strings.Lines(text) {
		m := ended.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		passed[m[2]] = m[1] != "FAIL"
		if took, err := time.ParseDuration(m[3]); err == nil && !strings.Contains(m[2], "/") {
			tests = append(tests, timed{m[2], took})
		}
	}
	var (
		kept strings.Builder
		now  string // the test that the lines are from
	)
	for line := range strings.Lines(text) {
		trimmed := strings.TrimRight(line, "\n")
		if m := switched.FindStringSubmatch(trimmed); m != nil {
			now = m[2]
			continue
		}
		if m := ended.FindStringSubmatch(trimmed); m != nil {
			now = m[2]
		}
		if !passed[now] {
			kept.WriteString(line)
		}
	}
	return tests, kept.String()
}
