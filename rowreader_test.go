package forebay_test

import (
	"bytes"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/mapping"
)

// What the mapper writes comes back byte for byte, and no input makes the reader panic or lose bytes of a whole row.
func FuzzRowReader(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add("plain", "a\r\nb", []byte("\"a\",\"b\"\n"))
	f.Add("", `"`, []byte("\"a"))
	f.Add("\x00\xff", ",\n", []byte("a,b\n\"\"\"\"\n"))
	mapper, err := mapping.Compile(mapping.Columns{mapping.Body("x"), mapping.Headers("h"), mapping.Body("y")}, mapping.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, one, two string, any []byte) {
		var data []byte
		for _, text := range []string{one, two} {
			var err error
			if data, err = mapper.AppendRow(data, &mapping.Record{Body: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
		var rows [][]string
		in := driver.NewRowReader(bytes.NewReader(data))
		for in.Next() {
			rows = append(rows, []string{string(in.Cells()[0]), string(in.Cells()[2])})
		}
		err := in.Err()
		if err != nil || len(rows) != 2 || rows[0][0] != one || rows[0][1] != one || rows[1][0] != two || rows[1][1] != two {
			t.Errorf("got %q, %v, want %q and %q in both columns, no error", rows, err, one, two)
		}
		for in = driver.NewRowReader(bytes.NewReader(any)); in.Next(); {
			if len(in.Cells()) == 0 {
				t.Error("a row without cells")
			}
		}
	})
}
