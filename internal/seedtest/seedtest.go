// Package seedtest draws the seeds of random tests.
//
// The environment variable FOREBAY_SEED fixes all seeds of a run: CI derives it from the commit, the nightly run from the clock. Without it each
// run of a test draws a new number. A test that fails has the command in its output that repeats it with the same number.
package seedtest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Environment variables.
const (
	numberEnv  = "FOREBAY_SEED"
	nightlyEnv = "FOREBAY_NIGHTLY"
)

// Rand returns a generator for the seed of the test.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Of(t), 0))
}

// Of returns the seed of the test, and logs the command that repeats it. Tests with different names have different seeds. All calls
// within a test and its subtests derive their seeds from one number, so that one command repeats them together.
//
// The command is logged at once and not at the end. With -v it is in the output even if the process dies.
func Of(t testing.TB) uint64 {
	t.Helper()
	n := numberOf(t)
	t.Logf("repeat with: %s", command(n, t.Name()))
	return derive(n, t.Name())
}

// derive is stable across versions and machines.
func derive(n uint64, name string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", n, name)
	return h.Sum64()
}

// drawn are the numbers of the running tests, by the name of the top-level test.
var drawn = struct {
	sync.Mutex
	of map[string]*number
}{of: make(map[string]*number)}

// number is shared by a test and its subtests.
type number struct {
	n     uint64
	users int
}

func numberOf(t testing.TB) uint64 {
	t.Helper()
	if text := os.Getenv(numberEnv); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: got %v, want a number", numberEnv, err)
		}
		return n
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	drawn.Lock()
	defer drawn.Unlock()
	d := drawn.of[name]
	if d == nil {
		d = &number{n: uint64(rand.Uint32())} // short, because people copy it
		drawn.of[name] = d
	}
	d.users++
	t.Cleanup(func() {
		drawn.Lock()
		defer drawn.Unlock()
		if d.users--; d.users == 0 {
			delete(drawn.of, name) // -count plays another number
		}
	})
	return d.n
}

// Missed reports that a random test did not reach a case that it should reach: "in 40 seeds it never happened: …". The nightly run, with
// FOREBAY_NIGHTLY=1, fails. Other runs log it, because chance must not decide about a change.
func Missed(t testing.TB, format string, args ...any) {
	t.Helper()
	if Nightly() {
		t.Errorf(format, args...)
		return
	}
	t.Logf(format+" (this fails with "+nightlyEnv+"=1)", args...)
}

// Nightly reports whether the environment says FOREBAY_NIGHTLY=1.
func Nightly() bool { return os.Getenv(nightlyEnv) == "1" }
