package otlp

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
)

// JSON stays JSON, and already plain text stays unchanged.
func FuzzPlain(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, text := range []string{
		`null`, `{"a":null,"b":[null,1.0,-0e1],"c":{"d":null}}`, `{"bytesValue":"-_8","intValue":"1e3"}`, `[ {"":null} , 1e-3 , "\"" ]`, ` 1.50e1 `,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if _, err := checkJSON(src, 1<<20); err != nil {
			return
		}
		once := plain(nil, src)
		if !json.Valid(once) {
			t.Fatalf("%s: got %s, want JSON", src, once)
		}
		if again := plain(nil, once); !bytes.Equal(again, once) {
			t.Errorf("%s became %s: got then %s, want the same", src, once, again)
		}
	})
}

func BenchmarkPlain(b *testing.B) {
	src := []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + string(bytes.Repeat([]byte(
		`{"timeUnixNano":"1700000000000000000","severityText":"INFO","body":{"stringValue":"the gate opens when the basin is full"},`+
			`"attributes":[{"key":"order.id","value":{"intValue":"17"}},{"key":"load","value":{"doubleValue":0.25}}]},`), 100)) + `{}]}]}]}`)
	b.SetBytes(int64(len(src)))
	var dst []byte
	b.Run("plain", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			dst = plain(dst[:0], src)
		}
	})
	b.Run("all", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			if _, err := Check("logs", JSON, src, 0, 1<<30); err != nil {
				b.Fatal(err)
			}
			if _, _, err := Decode("logs", JSON, src, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}
