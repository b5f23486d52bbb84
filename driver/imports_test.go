package driver_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A driver compiles the contract without the engine and its store. In addition to the standard library, the contract needs package datatype, its own
// readers for compressed rows, and the decoder of Zstandard.
func TestContractImportsNoEngine(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOWORK=off")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/forebay/forebay/"
	ours := []string{"datatype", "driver", "driverkit/buildversion", "driverkit/celltype", "driverkit/quotes", "driverkit/textcut", "driverkit/uuidtext", "internal/gunzip"}
	var got []string
	for path := range strings.FieldsSeq(string(out)) {
		if name, found := strings.CutPrefix(path, module); found {
			got = append(got, name)
		} else if !strings.HasPrefix(path+"/", "github.com/klauspost/compress/") {
			t.Errorf("got %s among the imports of package driver, want the standard library, datatype and klauspost/compress alone", path)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, ours) {
		t.Errorf("got the packages %q of this module, want %q", got, ours)
	}
}
