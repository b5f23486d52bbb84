package driver_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/forebay/forebay/driver"
)

// readRows returns copies of all rows.
func readRows(r io.Reader) (rows [][]string, err error) {
	in := driver.NewRowReader(r)
	for in.Next() {
		var row []string
		for _, c := range in.Cells() {
			row = append(row, string(c))
		}
		rows = append(rows, row)
	}
	return rows, in.Err()
}

func TestRowReader(t *testing.T) {
	long := strings.Repeat("a\r\n\"b\",", 40_000)
	for name, tt := range map[string]struct {
		text string
		want [][]string
		err  string
	}{
		"nothing":                {"", nil, ""},
		"two rows":               {"\"a\",\"b\"\n\"\",\"c\"\n", [][]string{{"a", "b"}, {"", "c"}}, ""},
		"every kind of line end": {"\"\r\n\",\"\n\",\"\r\"\n", [][]string{{"\r\n", "\n", "\r"}}, ""},
		"quotes":                 {"\"\"\"\",\"a\"\"b\"\n", [][]string{{`"`, `a"b`}}, ""},
		"bytes that are no text": {"\"\x00\xff\"\n", [][]string{{"\x00\xff"}}, ""},
		"a long cell":            {`"` + strings.ReplaceAll(long, `"`, `""`) + "\"\n", [][]string{{long}}, ""},
		"cells without quotes":   {"a,,\"b\"\n\n,\n", [][]string{{"a", "", "b"}, {""}, {"", ""}}, ""},
		"torn cell":              {"\"a\"\n\"b", [][]string{{"a"}}, "row 1: the data ends within the row"},
		"torn row":               {"\"a\",\"b\"", nil, "row 0: the data ends within the row"},
		"text behind a cell":     {"\"a\"b\n", nil, "row 0: 'b' follows a quoted cell"},
		"quote in a bare cell":   {"a\"b\"\n", nil, "row 0: a quote stands inside"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
				rows, err := readRows(r)
				if !slices.EqualFunc(rows, tt.want, slices.Equal[[]string]) {
					t.Errorf("got %.300q", rows)
				}
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
			}
		})
	}
	broken := errors.New("broken")
	if _, err := readRows(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the reader", err)
	}
}

func TestRowReaderTellsAnEmptyTextFromNothing(t *testing.T) {
	r := driver.NewRowReader(strings.NewReader("\"\",\n"))
	if !r.Next() || r.Cells()[0] == nil || r.Cells()[1] != nil || r.Rows() != 1 {
		t.Errorf("got %#v, %v, want one row, a value and null", r.Cells(), r.Err())
	}
}

func TestRowReaderDoesNotAllocatePerRow(t *testing.T) {
	data := bytes.Repeat([]byte("\"one\",\"t\"\"wo\",\"\"\n"), 2000)
	in := bytes.NewReader(data)
	r := driver.NewRowReader(in)
	if !r.Next() {
		t.Fatal(r.Err())
	}
	if n := testing.AllocsPerRun(1000, func() {
		if !r.Next() {
			t.Fatal(r.Err())
		}
	}); n != 0 {
		t.Errorf("got %v allocations a row, want 0", n)
	}
}
