package main

import (
	"slices"
	"testing"
	"time"
)

func TestOutputOfFailedTestsIsKept(t *testing.T) {
	text := `=== RUN   TestGood
    good_test.go:1: a word of a test that passes
--- PASS: TestGood (0.10s)
=== RUN   TestBad
=== RUN   TestBad/first
    bad_test.go:1: got 1, want 2
=== RUN   TestBad/second
    bad_test.go:2: fine
--- FAIL: TestBad (1.50s)
    --- FAIL: TestBad/first (0.50s)
    --- PASS: TestBad/second (1.00s)
=== RUN   TestBeside
=== PAUSE TestBeside
=== CONT  TestBeside
    beside_test.go:1: never mind
--- SKIP: TestBeside (0.00s)
=== RUN   TestHangs
panic: test timed out after 10m0s
FAIL
`
	tests, failed := read(text)
	wantTests := []timed{{"TestGood", 100 * time.Millisecond}, {"TestBad", 1500 * time.Millisecond}, {"TestBeside", 0}}
	if !slices.Equal(tests, wantTests) {
		t.Errorf("tests: got %v, want %v", tests, wantTests)
	}
	want := `    bad_test.go:1: got 1, want 2
--- FAIL: TestBad (1.50s)
    --- FAIL: TestBad/first (0.50s)
panic: test timed out after 10m0s
FAIL
`
	if failed != want {
		t.Errorf("output of failed tests: got\n%s\nwant\n%s", failed, want)
	}
}
