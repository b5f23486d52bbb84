package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// compressing stores events whose fields differ as in real services: random ids, amounts and addresses, and a
// text of words. (The text of the other scenarios repeats itself, so any compression halves it many times.) It compares
// the cost of the compressions at ingestion and the size of their output.
func compressing(c forebay.Compression) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		const callers, batch = 16, 100
		measure := func(eng *forebay.Engine) (*sample, error) {
			s, err := measure(ctx, e, load{
				callers: callers, rowBytes: 0, every: 1,
				start: func(caller int) operation {
					records := make([]*mapping.Record, batch)
					for i := range records {
						records[i] = again(&mapping.Record{Body: variedBody(uint64(caller*batch + i)), Header: sharedHeader})
					}
					return func() (int, error) {
						for _, r := range records {
							again(r)
						}
						results, err := eng.IngestBatch(ctx, sourceID, records)
						return len(results), err
					}
				},
			})
			if err != nil {
				return nil, err
			}
			stats := eng.Stats().Sinks[0].Local
			// All rows have passed through the same sink, so the mean is exact over the run.
			s.Bytes = s.Rows * stats.RawBytes / max(1, stats.Rows)
			s.Figures = map[string]float64{
				"stored_per_byte": float64(stats.StoredBytes) / float64(stats.RawBytes),
				"stored_per_row":  float64(stats.StoredBytes) / float64(stats.Rows),
			}
			return s, nil
		}
		return setup{source: forebay.Source{Settings: forebay.Settings{Compression: c}}}.measured(ctx, e, measure)
	}
}

// variedBody is a JSON event of about one kilobyte, different for each number.
func variedBody(n uint64) []byte {
	rng := rand.New(rand.NewPCG(n, 1))
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":"evt_%016x","type":"order.%s","user":{"id":%d,"plan":"team","email":"%s%d@example.com"},"amount":%d.%02d,`,
		rng.Uint64(), variedWords[rng.IntN(len(variedWords))], rng.IntN(1e6), variedWords[rng.IntN(len(variedWords))], rng.IntN(1e4),
		rng.IntN(500), rng.IntN(100))
	fmt.Fprintf(&b, `"trace":"%016x%016x","session":"%016x","items":[`, rng.Uint64(), rng.Uint64(), rng.Uint64())
	for i := range 1 + rng.IntN(4) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"%08X","quantity":%d,"price":%d.%02d}`, rng.Uint32(), 1+rng.IntN(5), rng.IntN(200), rng.IntN(100))
	}
	b.WriteString(`],"note":"`)
	for b.Len() < 1010 {
		b.WriteString(variedWords[rng.IntN(len(variedWords))])
		b.WriteByte(' ')
	}
	b.WriteString(`"}`)
	return []byte(b.String())
}

var variedWords = strings.Fields(`created paid shipped returned cancelled the a of to in for on with at by from order customer
	address street door left right bell call before delivery please leave parcel neighbour window weekend morning evening
	afternoon after nine ten between two three red blue green large small medium size exchange voucher gift wrap card
	message happy birthday thanks regards phone number invoice company department floor building entrance gate code`)
