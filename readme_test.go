package forebay_test

import (
	"os"
	"strings"
	"testing"
)

// The README shows the package's example without its temporary folder, so what it shows compiles and prints what it says.
func TestReadmeShowsTheExample(t *testing.T) {
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(code), "func Example() {\n")
	_, body, ok := strings.Cut(body, "defer os.RemoveAll(dir)\n")
	body, _, printed := strings.Cut(body, "\n\t// Output:")
	if !ok || !printed {
		t.Fatal("the example has no folder or no output")
	}
	lines := strings.Split(strings.TrimSpace(body), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "\t")
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(lines, "\n"); !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not show the example; put this into it:\n%s", want)
	}
}
