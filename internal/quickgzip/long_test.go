package quickgzip

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/gziptest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/klauspost/compress/gzip"
)

// checkLong makes a member, reads it with two readers that share no code with the writer and little with each other, and
// returns its length.
func checkLong(t *testing.T, e *LongEncoder, src []byte) int {
	t.Helper()
	const before = "before"
	dst := append(make([]byte, 0, len(before)+Room(len(src))), before...)
	out := e.Append(dst, src)
	member := out[len(before):]
	if string(out[:len(before)]) != before || &out[0] != &dst[0] {
		t.Fatalf("the member of %d bytes is behind %q", len(src), out[:len(before)])
	}
	if most := len(src) + 5*(len(src)/maxBlock+1) + len(gzipHead) + 8; len(member) > most {
		t.Fatalf("%d bytes became %d, at most %d would be stored ones, want at most %v", len(src), len(member), most, most)
	}
	if got := gziptest.Read(t, member); !bytes.Equal(got, src) {
		t.Fatalf("got %d bytes back as %d others, want the same", len(src), len(got))
	}
	zr, err := gzip.NewReader(bytes.NewReader(member))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(zr); err != nil || !bytes.Equal(got, src) {
		t.Fatalf("got %d bytes back as %d others, %v, want the same, no error", len(src), len(got), err)
	}
	return len(member)
}

func noise(rng *rand.Rand, n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(rng.Uint32())
	}
	return text
}

// fibonacci returns a text without matches in which each value is as frequent as the two values before it together. Without
// a limit its codes would have as many bits as there are values.
func fibonacci(rng *rand.Rand, values int) []byte {
	var text []byte
	for v, a, b := 0, 1, 1; v < values; v, a, b = v+1, b, a+b {
		text = append(text, bytes.Repeat([]byte{byte(v * 7)}, a)...)
	}
	rng.Shuffle(len(text), func(i, k int) { text[i], text[k] = text[k], text[i] })
	return text
}

// everySymbol returns a text with all literals, and with matches of every length and many distances.
func everySymbol(rng *rand.Rand) []byte {
	text := noise(rng, window)
	for length := 4; length <= 2*maxMatch; length++ {
		from := len(text) - 1 - rng.IntN(1<<(2+rng.IntN(13)))
		for range length {
			text = append(text, text[from])
			from++
		}
		text = append(text, byte(length), byte(rng.Uint32()))
	}
	return text
}

// csvRows are rows as an engine writes them, with random ids, times, names and numbers between constant ones, and words.
func csvRows(rng *rand.Rand, size, words int) []byte {
	vocabulary := strings.Fields("the gate opens when basin is full and water turns wheel order paid shipped returned customer street")
	var b []byte
	for n := 0; len(b) < size; n++ {
		b = fmt.Appendf(b, `"%08x-0564-7%03x-%04x-%012x","2026-01-02T03:04:05.%03dZ","203.0.113.77","{""Content-Type"":""application/json"",""X-Delivery"":""3f1c9a52-7d0e-4f0b""}",`,
			n/7, rng.IntN(1<<12), rng.IntN(1<<16), rng.Int64N(1<<48), n/3%1000)
		b = fmt.Appendf(b, `"{""id"":""evt_%08d"",""user"":{""id"":%d},""amount"":%d.%02d,""note"":""`, n*16, rng.IntN(9973), n%500, n%100)
		for range words {
			b = append(append(b, vocabulary[rng.IntN(len(vocabulary))]...), ' ')
		}
		b = fmt.Appendf(b, "\"\"}\",\"evt_%08d\"\n", n*16)
	}
	return b[:size]
}

func longTexts(rng *rand.Rand) map[string][]byte {
	texts := map[string][]byte{
		"fibonacci, 20 values": fibonacci(rng, 20),
		"every symbol":         everySymbol(rng),
		"two values":           []byte("ab"),
		"no match":             []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!?#+*-_.:,;<>|(){}[]/&%$=`~^\\ äöüÄÖÜß"),
		"one distance":         bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), 200),
		"noise, then rows":     append(noise(rng, maxBlock), csvRows(rng, maxBlock, 9)...),
		"rows, then noise":     append(csvRows(rng, maxBlock, 9), noise(rng, maxBlock)...),
		"far away":             append(append(noise(rng, window+300), noise(rng, 0)...), "at the end"...),
	}
	far := noise(rng, 1000)
	for distance := window - 1; distance <= window+1; distance++ {
		texts[fmt.Sprintf("a match %d away", distance)] = append(append(far[:len(far):len(far)], make([]byte, distance-len(far))...), far...)
	}
	for _, n := range []int{
		0, 1, 2, 3, 7, 8, 47, 48, 49, 55, 56, 57, 64, 100, 255, 256, 257, shortBlock - 1, shortBlock, 4 << 10, window - 1,
		window, window + 1, maxBlock - 1, maxBlock, maxBlock + 1, 2*maxBlock - 1, 2 * maxBlock, 2*maxBlock + 1, 256 << 10, 700_001,
	} {
		all := make([]byte, n)
		for i := range all {
			all[i] = byte(i)
		}
		texts[fmt.Sprintf("%d bytes of noise", n)] = noise(rng, n)
		texts[fmt.Sprintf("%d bytes of one value", n)] = bytes.Repeat([]byte{'a'}, n)
		texts[fmt.Sprintf("%d bytes of all values", n)] = all
		texts[fmt.Sprintf("%d bytes of rows", n)] = csvRows(rng, n, 9)
	}
	return texts
}

func TestLongMembersAreGzip(t *testing.T) {
	rng := seedtest.Rand(t)
	var e LongEncoder
	for name, text := range longTexts(rng) {
		t.Run(name, func(t *testing.T) { checkLong(t, &e, text) })
	}
	for range 400 {
		var text []byte
		size, values := rng.IntN(1<<(1+rng.IntN(18))), 1+rng.IntN(1<<rng.IntN(9))
		for len(text) < size {
			switch back := 1 + rng.IntN(1<<(1+rng.IntN(17))); {
			case back <= len(text) && rng.IntN(4) > 0:
				from := len(text) - back
				for range 1 + rng.IntN(1<<(1+rng.IntN(10))) {
					text = append(text, text[from])
					from++
				}
			default:
				for range rng.IntN(1 << (1 + rng.IntN(9))) {
					text = append(text, byte(rng.IntN(values)))
				}
			}
		}
		checkLong(t, &e, text)
	}
}

// The gzip program reads concatenated members as one file.
func TestLongMembersForGzip(t *testing.T) {
	program, err := exec.LookPath("gzip")
	if err != nil {
		t.Skip("no gzip here")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var (
		e           LongEncoder
		file, plain []byte
	)
	for _, text := range longTexts(rng) {
		file = e.Append(append(make([]byte, 0, len(file)+Room(len(text))), file...), text)
		plain = append(plain, text...)
	}
	cmd := exec.Command(program, "-dc")
	cmd.Stdin = bytes.NewReader(file)
	if got, err := cmd.Output(); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("got %d bytes back as %d, %v, want the same, no error", len(plain), len(got), err)
	}
}

func TestTheSameTextBecomesTheSameMember(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var used LongEncoder
	for range 20 {
		text := csvRows(rng, rng.IntN(200_000), 9)
		var fresh LongEncoder
		if want, got := fresh.Append(make([]byte, 0, Room(len(text))), text), used.Append(make([]byte, 0, Room(len(text))), text); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: got %d from a new compressor and %d from a used one, want the same bytes", len(text), len(want), len(got))
		}
	}
}

// Members of rows are hardly longer than the library's at its fastest level, and mostly shorter.
func TestLongMembersAreShort(t *testing.T) {
	var (
		e   LongEncoder
		buf bytes.Buffer
	)
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []int{0, 10, 100} {
		for _, size := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10} {
			text := csvRows(rand.New(rand.NewPCG(4, 4)), size, words)
			buf.Reset()
			zw.Reset(&buf)
			_, _ = zw.Write(text)
			_ = zw.Close()
			got, usual := checkLong(t, &e, text), buf.Len()
			t.Logf("%d bytes with %d words: %d, of level 1 %d (%.3f)", size, words, got, usual, float64(got)/float64(usual))
			if float64(got) > 1.07*float64(usual) {
				t.Errorf("%d bytes with %d words: got %d, want at most 1.07 of level 1, %d", size, words, got, usual)
			}
		}
	}
}

func TestLongMembersNeedNoMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	texts := [][]byte{csvRows(rng, 300_000, 9), csvRows(rng, 5000, 9), noise(rng, 100_000)}
	dst := make([]byte, 0, Room(300_000))
	var e LongEncoder
	all := func() {
		for _, text := range texts {
			e.Append(dst, text)
		}
	}
	all()
	if n := testing.AllocsPerRun(5, all); n > 0 {
		t.Errorf("got %.0f allocations, want 0", n)
	}
}

// Codes respect their limit, leave none unused, and are as short as possible where the limit allows it.
func TestLengthsOfCodes(t *testing.T) {
	rng := seedtest.Rand(t)
	var h huffman
	limited := 0
	for round := range 3000 {
		counts := make([]uint32, 2+rng.IntN(literalSymbols-1))
		limit := maxCode
		if len(counts) <= runSymbols && rng.IntN(2) > 0 {
			limit = maxRunCode
		}
		a, b := uint32(1), uint32(1)
		for i := range counts {
			switch round % 4 {
			case 0:
				counts[i] = rng.Uint32N(100)
			case 1:
				counts[i] = rng.Uint32N(1 << (1 + rng.IntN(16)))
			case 2:
				counts[i] = a
				a, b = b, min(a+b, maxBlock)
			case 3:
				if rng.IntN(10) == 0 {
					counts[i] = rng.Uint32N(5)
				}
			}
		}
		lengths := make([]uint8, len(counts))
		h.lengths(lengths, counts, limit)
		used, size, longest := 0, 0, uint8(0)
		for symbol, length := range lengths {
			if counts[symbol] > 0 && length == 0 {
				t.Fatalf("symbol %d of %d has no code", symbol, counts)
			}
			if length > 0 {
				used += 1 << (16 - length)
				size += int(counts[symbol]) * int(length)
			}
			longest = max(longest, length)
		}
		if used != 1<<16 || int(longest) > limit {
			t.Fatalf("codes up to %d bits use %d of %d: %d", longest, used, 1<<16, counts)
		}
		shortest, depth := optimal(counts)
		switch {
		case depth > limit:
			limited++
		case size != shortest:
			t.Fatalf("got %d bits, want %d: %d", size, shortest, counts)
		}
	}
	if limited < 300 {
		t.Errorf("the limit mattered %d times", limited)
	}
}

// optimal returns the bits that codes without a limit need, and how long one may become. It joins the two rarest symbols
// until one is left.
func optimal(counts []uint32) (size, depth int) {
	type node struct{ count, depth int }
	var nodes []node
	for _, c := range counts {
		if c > 0 {
			nodes = append(nodes, node{int(c), 0})
		}
	}
	if len(nodes) == 1 {
		return nodes[0].count, 1
	}
	take := func() node {
		best := 0
		for i, n := range nodes {
			if n.count < nodes[best].count || n.count == nodes[best].count && n.depth < nodes[best].depth {
				best = i
			}
		}
		n := nodes[best]
		nodes[best] = nodes[len(nodes)-1]
		nodes = nodes[:len(nodes)-1]
		return n
	}
	for len(nodes) > 1 {
		a, b := take(), take()
		size += a.count + b.count
		nodes = append(nodes, node{a.count + b.count, max(a.depth, b.depth) + 1})
	}
	if len(nodes) > 0 {
		depth = nodes[0].depth
	}
	return size, depth
}

func FuzzLongMember(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add([]byte("the gate opens when the basin is full and the water turns the wheel"), uint16(3), uint16(0), uint64(1))
	f.Add([]byte{0, 255, 144, 143}, uint16(2000), uint16(300), uint64(2))
	f.Add([]byte("a"), uint16(65535), uint16(0), uint64(3))
	var e LongEncoder
	f.Fuzz(func(t *testing.T, part []byte, times, between uint16, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var text []byte
		for range int(times) + 1 {
			text = append(text, part...)
			if between > 0 {
				text = append(text, noise(rng, rng.IntN(int(between)))...)
			}
			if len(text) > 300_000 {
				break
			}
		}
		checkLong(t, &e, text)
	})
}
