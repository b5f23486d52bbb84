package dir_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// The buffer calls Import. A program only reads the table back.
func ExampleTableDir_Rows() {
	root, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	tables := dir.Tables(filepath.Join(root, "tables"))
	file := &driver.File{
		ID:     "file-1",
		Table:  driver.Table{ID: "in.c-web.events", Columns: datatype.UntypedColumns("id", "kind")},
		Slices: []driver.Object{{ID: "slice-1", Rows: 2}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader([]byte("\"1\",\"click\"\n\"2\",\"view\"\n"))), nil
		},
	}
	for range 2 { // an import may be repeated
		if err := tables.Import(context.Background(), file); err != nil {
			fmt.Println(err)
		}
	}
	for row, err := range tables.Rows("in.c-web.events") {
		fmt.Println(row, err)
	}
	// Output:
	// [1 click] <nil>
	// [2 view] <nil>
}
