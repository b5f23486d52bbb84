package tape

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// kilobyte is a JSON object of 1 KB with 20 named fields and some structure.
func kilobyte() []byte {
	var b bytes.Buffer
	b.WriteString(`{"meta":{"source":"web","version":3,"tags":["alpha","beta","gamma"]},"items":[{"sku":"A-1","qty":2},{"sku":"B-2","qty":5}]`)
	for i := range 20 {
		fmt.Fprintf(&b, `,"field_%02d":`, i)
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, `"the value of %d is text"`, i)
		case 1:
			fmt.Fprintf(&b, `%d.%d`, i*1234567, i)
		case 2:
			fmt.Fprintf(&b, `{"name":"inner %d","flag":true}`, i)
		case 3:
			fmt.Fprintf(&b, `[%d,%d,"%d"]`, i, i*2, i*3)
		}
	}
	n := 1024 - b.Len() - len(`,"pad":""}`)
	fmt.Fprintf(&b, `,"pad":"%s"}`, strings.Repeat("x", max(n, 0)))
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	body := kilobyte()
	var t Tape
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := t.Parse(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendCSV(b *testing.B) {
	body := kilobyte()
	var buf []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendCSV(buf[:0], body)
	}
}
