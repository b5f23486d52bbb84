package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// TestProposedColumnsFit makes records of random values of many kinds. Every one of them must fit the columns that discover proposes.
func TestProposedColumnsFit(t *testing.T) {
	t.Parallel()
	random := seedtest.Rand(t)
	kinds := [][]string{
		{"1", "-7", "0", "9007199254740992"},
		{"9007199254740993", "9223372036854775807", "-9223372036854775808"},
		{"1.5", "0.1", "-2.5e3", "1e300", "4.0", "1E5"},
		{"18446744073709551616", "1e400", "0.1234567890123456789012345"},
		{"true", "false"},
		{`"text"`, `""`, `"7"`, `"ü"`},
		{`"2024-02-29"`, `"0001-01-01"`, `"9999-12-31"`},
		{`"2024-02-29T12:00:00Z"`, `"2024-02-29T12:00:00.123456+02:00"`},
		{`"2024-02-29T12:00:00.123456789Z"`, `"2023-02-29"`, `"2024-01-01T24:00:00Z"`, `"0000-01-01"`},
		{`"123e4567-e89b-12d3-a456-426614174000"`, `"123E4567-E89B-12D3-A456-426614174000"`},
		{"[]", `["x"]`, `[{"a": 1}]`},
		{"{}", `{"a": 1}`, `{"a": {"b": "x"}}`, `{"a.b": 1}`},
		{"null"},
	}
	var answer atomic.Value
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer.Load()) }))
	defer api.Close()
	cfg, err := extractor.ParseAt([]byte(`{"api": {"baseUrl": "http://unused/"}, "config": {"jobs": [{"endpoint": "u"}]}}`), api.URL)
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		var records []string
		var ofField [8][]int // one kind, or two that are mixed
		for i := range ofField {
			ofField[i] = []int{random.IntN(len(kinds)), random.IntN(len(kinds))}[:1+random.IntN(2)]
		}
		for range 1 + random.IntN(6) {
			var members []string
			for i, mixed := range ofField {
				if values := kinds[mixed[random.IntN(len(mixed))]]; random.IntN(8) > 0 {
					members = append(members, fmt.Sprintf(`"f%d": %s`, i, values[random.IntN(len(values))]))
				}
			}
			records = append(records, "{"+strings.Join(members, ", ")+"}")
		}
		answer.Store("[" + strings.Join(records, ",") + "]")
		samples, err := extractor.Preview(t.Context(), cfg, extractor.State{}, 100, extractor.Options{})
		if err != nil || samples[0].Err != nil {
			t.Fatal(err, samples)
		}
		tables := extractor.Discover(samples)
		columns := proposed(tables[0])
		if len(columns) == 0 {
			continue // no record has a value
		}
		// A column more, because a row of empty cells alone is refused.
		m, err := mapping.Compile(append(columns, mapping.UUID("row")), mapping.Options{})
		if err != nil {
			t.Fatalf("got %v: %s, want no error", err, answer)
		}
		for _, text := range records {
			rec := mapping.Record{Body: []byte(text), Format: mapping.FormatJSON}
			if _, err := m.AppendRow(nil, &rec); err != nil {
				shown, _ := json.Marshal(columns)
				t.Errorf("%s does not fit: %v\nof %s\ncolumns %s", text, err, answer, shown)
			}
		}
	}
}
