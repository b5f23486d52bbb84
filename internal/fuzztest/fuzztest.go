// Package fuzztest lets a fuzz target play inputs that are the same in every run.
//
// `go test -fuzz` searches. Which inputs it tries depends on the machine and its load. A search that fails a merge by luck stops
// a good change and tells its author nothing about it. So the checks before a merge play a fixed list of inputs, made from the
// seeds of each target. The search is separate.
package fuzztest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
)

// F is a fuzz target that also plays inputs derived from its seeds: FUZZ_INPUTS of them, or none without that variable.
// FUZZ_SEED chooses others, it is 1 by default. `go test -run` names an input that fails by its number, as it does for a seed.
type F struct {
	*testing.F
	seeds [][]any
}

// New wraps the argument of a fuzz target.
func New(f *testing.F) *F { return &F{F: f} }

// Add is [testing.F.Add]. Seeds must be added in the same order in every run.
func (f *F) Add(args ...any) {
	f.Helper()
	f.seeds = append(f.seeds, args)
	f.F.Add(args...)
}

// Fuzz is [testing.F.Fuzz].
func (f *F) Fuzz(target any) {
	f.Helper()
	if n := f.number("FUZZ_INPUTS", 0); n > 0 {
		seed := f.number("FUZZ_SEED", 1)
		for i := range n {
			f.F.Add(derive(rand.New(rand.NewPCG(seed, i)), f.seeds[i%uint64(len(f.seeds))])...)
		}
		target = showing(target)
	}
	f.F.Fuzz(target)
}

func (f *F) number(name string, none uint64) uint64 {
	f.Helper()
	text := os.Getenv(name)
	if text == "" {
		return none
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		f.Fatalf("%s: got %v, want no error", name, err)
	}
	return n
}

// showing makes a target show the input that fails.
func showing(target any) any {
	fn := reflect.ValueOf(target)
	return reflect.MakeFunc(fn.Type(), func(args []reflect.Value) []reflect.Value {
		t := args[0].Interface().(*testing.T)
		t.Cleanup(func() {
			if t.Failed() {
				for _, arg := range args[1:] {
					t.Logf("input %s(%s)", arg.Type(), literal(arg))
				}
			}
		})
		return fn.Call(args)
	}).Interface()
}

func literal(v reflect.Value) string {
	if b, ok := v.Interface().([]byte); ok {
		return strconv.Quote(string(b))
	}
	return fmt.Sprintf("%#v", v.Interface())
}

// derive returns a changed copy of one input.
func derive(rng *rand.Rand, input []any) []any {
	out := make([]any, len(input))
	copy(out, input)
	for range 1 + rng.IntN(2) {
		i := rng.IntN(len(out))
		switch v := out[i].(type) {
		case []byte:
			out[i] = change(rng, v)
		case string:
			out[i] = string(change(rng, []byte(v)))
		case uint8:
			out[i] = uint8(rng.Uint32())
		case uint16:
			out[i] = uint16(rng.Uint32()) >> rng.IntN(16)
		case uint64:
			out[i] = rng.Uint64() >> rng.IntN(64)
		case float64: // any bits, or a number of few digits
			if out[i] = math.Float64frombits(rng.Uint64()); rng.IntN(2) > 0 {
				out[i] = float64(rng.Int64N(2e9)-1e9) / math.Pow10(rng.IntN(20))
			}
		default:
			panic(fmt.Sprintf("fuzztest: no change is known for a %T", v))
		}
	}
	return out
}

// syntax are pieces that mean something to a parser.
var syntax = []string{
	`"`, `'`, `\`, "{", "}", "[", "]", "(", ")", ",", ":", ";", "&", "=", "%", "/", ".", "-", "+", "0", "1", "9", "e", " ", "\n", "\r", "\x00", "\x7f", "\x80", "\xff",
	"é", "\u0085", "\u2028", "😀", `\u`, `\ud800`, "%2F", "null", "1e999", "-0", "9223372036854775808", "18446744073709551616",
}

// change returns b with one to four changes.
func change(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(b) + 1)
		to := at + rng.IntN(min(len(b)-at, 16)+1)
		piece := bytes.Clone(b[at:to])
		switch rng.IntN(6) {
		case 0: // cut out
			b = append(b[:at], b[to:]...)
		case 1: // repeat
			b = append(b[:to], append(piece, b[to:]...)...)
		case 2: // copy elsewhere
			at = rng.IntN(len(b) + 1)
			b = append(b[:at], append(piece, b[at:]...)...)
		case 3: // insert
			b = append(b[:at], append([]byte(syntax[rng.IntN(len(syntax))]), b[at:]...)...)
		case 4: // replace
			b = append(b[:at], append([]byte(syntax[rng.IntN(len(syntax))]), b[to:]...)...)
		case 5: // flip a bit
			if at < len(b) {
				b[at] ^= 1 << rng.IntN(8)
			}
		}
	}
	return b
}
