package kept

import (
	"bytes"
	"encoding/csv"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// A record comes back from the row of an archive with every byte, even in texts that JSON would alter.
func TestArchivedRow(t *testing.T) {
	rec := &mapping.Record{
		Header: http.Header{"X-Name": {"caf\xe9", "a\"b"}, "X-\xff": {"v"}}, Host: "h\xfe", Body: []byte("body \"\xff"),
		Request: mapping.RequestLine{Method: "POST", Path: "/p\xfd", Query: "q=\xfc"}, Received: time.Date(2026, 11, 23, 1, 2, 3, 4000, time.UTC),
	}
	row, err := new(Encoder).AppendRow(nil, rec, "", NewRedactor(nil, []string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	texts, err := csv.NewReader(strings.NewReader(string(row))).Read()
	if err != nil {
		t.Fatal(err)
	}
	var cells [][]byte
	for _, text := range texts {
		cells = append(cells, []byte(text))
	}
	if got, _, err := ParseRow(cells); err != nil || !reflect.DeepEqual(got, rec) {
		t.Errorf("got %+v, %v, want %+v", got, err, rec)
	}

	rec.Received = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := new(Encoder).AppendRow(nil, rec, "", NewRedactor(nil, []string{"*"})); err == nil || !strings.Contains(err.Error(), "the year 10000") {
		t.Errorf("a record of the year 10000: %v", err)
	}
}

// Quotes are doubled wherever they stand in a text, and nothing else changes.
func TestQuotesAreDoubled(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Of(t), 0))
	for range 5_000 {
		text := make([]byte, r.IntN(60)+r.IntN(2)*r.IntN(9000))
		alphabet := "\"ab!#\xa2\x21\x23\x00\xff\n"[:1+r.IntN(11)]
		for i := range text {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
		want := append([]byte("before"), bytes.ReplaceAll(text, []byte(`"`), []byte(`""`))...)
		if got := appendQuoted([]byte("before"), text); !bytes.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	}
}

// The arrival time of a row has six digits of the second, rounded down.
func TestArrivalTimes(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(0, 1, 1, 0, 0, 0, 999, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(2026, 11, 30, 1, 2, 3, 40_506_078, time.FixedZone("", 3600)),
	} {
		if got, want := string(appendArrival(nil, at)), at.UTC().Format("2006-01-02T15:04:05.000000Z"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
