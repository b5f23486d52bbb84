package buffer_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

func TestSizeConditionsCountStoredBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(t, mem))
		s := define(t, b, "a", func(c *buffer.SinkConfig) {
			c.Upload.Size, c.Import.Size = 2000, 5000
		})
		// 100 KB of one letter are a few hundred bytes as they are stored.
		mustStore(t, b, buffer.Rows{Sink: s, Data: row(0, strings.Repeat("x", 100<<10)), Count: 1})
		synctest.Wait()
		if st, _ := b.Sink("a").Stats(); st.Local.Rows != 1 || st.Local.RawBytes < 100<<10 || st.Local.StoredBytes >= 2000 {
			t.Fatalf("local %+v", st.Local)
		}
		random, rng := make([]byte, 1200), rand.New(rand.NewPCG(1, 0))
		for i := range 5 {
			for k := range random {
				random[k] = "0123456789abcdef"[rng.IntN(16)]
			}
			put1(t, b, s, i+1, string(random))
		}
		synctest.Wait()
		st, _ := b.Sink("a").Stats()
		if st.Target.Rows == 0 || len(st.Files) == 0 || st.Files[0].Reason != trigger.BySize.String() {
			t.Fatalf("got %s, want an import by size", state(b, "a"))
		}
	})
}
