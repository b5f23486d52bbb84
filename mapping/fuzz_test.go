package mapping

import (
	"math/rand/v2"
	"testing"
)

// FuzzTemplateText mutates the text of templates. Most mutants are no programs: this finds what a parser lets through.
func FuzzTemplateText(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add(c, []byte(sampleBody))
	}
	f.Fuzz(func(t *testing.T, content string, body []byte) {
		if len(content) > MaxTemplateLength || len(body) > 4096 {
			return
		}
		r := sampleRecord()
		r.Body = body
		sameOrFail(t, content, r)
	})
}

// FuzzTemplateGenerated makes programs and bodies out of the input: this finds what programs do.
func FuzzTemplateGenerated(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		data := make([]byte, 20+rng.IntN(200))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g := &generator{data: data}
		r := sampleRecord()
		r.Body = []byte(g.body())
		sameOrFail(t, g.expr('z'), r)
	})
}

// TestDifferentialGenerated is a short run of the same without the fuzzing engine.
func TestDifferentialGenerated(t *testing.T) {
	n := 1500
	if testing.Short() || raceEnabled {
		n = 200
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		data := make([]byte, 20+rng.IntN(300))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		g := &generator{data: data}
		r := sampleRecord()
		r.Body = []byte(g.body())
		sameOrFail(t, g.expr('z'), r)
	}
}
