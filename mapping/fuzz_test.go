package mapping

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
)

// FuzzTemplateText mutates the text of templates. Most mutants are no programs, so this finds faults that a parser lets through.
func FuzzTemplateText(tf *testing.F) {
	f := fuzztest.New(tf)
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

// FuzzTemplateGenerated makes programs and bodies out of the input. This finds faults in what programs do.
func FuzzTemplateGenerated(tf *testing.F) {
	f := fuzztest.New(tf)
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

var (
	fromSeed = flag.Int("from", 0, "the first seed of TestDifferentialGenerated")
	seeds    = flag.Int("seeds", 1500, "how many programs TestDifferentialGenerated plays; with -short or the race detector at most 200")
)

// TestDifferentialGenerated plays programs of the generator, one for each seed.
func TestDifferentialGenerated(t *testing.T) {
	skipUnderRace(t)
	n := *seeds
	if testing.Short() {
		n = min(n, 200)
	}
	seed := *fromSeed
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with: go test ./mapping -run '^TestDifferentialGenerated$' -from %d -seeds 1", seed)
		}
	})
	for end := seed + n; seed < end; seed++ {
		rng := rand.New(rand.NewPCG(uint64(seed), 0))
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
