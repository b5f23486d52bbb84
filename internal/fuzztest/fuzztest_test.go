package fuzztest

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestDerivedInputsAreTheSameInEveryRun(t *testing.T) {
	input := []any{[]byte(`{"a":[1,2]}`), "text", uint8(1), uint16(2), uint64(3)}
	want := []any{[]byte(`{"a":[1,2]}`), "text", uint8(1), uint16(2), uint64(3)}
	different := 0
	for i := range uint64(200) {
		a, b := derive(rand.New(rand.NewPCG(1, i)), input), derive(rand.New(rand.NewPCG(1, i)), input)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("input %d is %q, and then %q", i, a, b)
		}
		if !reflect.DeepEqual(a, input) {
			different++
		}
	}
	if different < 180 {
		t.Errorf("%d of 200 inputs are changed, want at least 180", different)
	}
	if !reflect.DeepEqual(input, want) {
		t.Errorf("the seed became %q", input)
	}
}

// The empty text can be changed too.
func TestChangeOfNothing(t *testing.T) {
	longest := 0
	for i := range uint64(100) {
		longest = max(longest, len(change(rand.New(rand.NewPCG(1, i)), nil)))
	}
	if longest == 0 {
		t.Error("nothing was inserted")
	}
}

// FuzzPlayed counts the inputs that it plays, which are the seed and as many as FUZZ_INPUTS says.
func FuzzPlayed(tf *testing.F) {
	tf.Setenv("FUZZ_INPUTS", "50")
	f := New(tf)
	played := map[string]bool{}
	f.Cleanup(func() {
		if len(played) < 20 {
			f.Errorf("%d different inputs were played", len(played))
		}
	})
	f.Add("seed", uint8(1))
	f.Fuzz(func(_ *testing.T, text string, _ uint8) { played[text] = true })
}
