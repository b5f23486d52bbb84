package kept

import (
	"encoding/csv"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

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
