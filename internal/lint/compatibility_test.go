package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	subtestName  = regexp.MustCompile(`t\.Run\("([^"]+)"`)
	namedTest    = regexp.MustCompile("`(Test[^`]*)`")
	namedPackage = regexp.MustCompile("of `([a-z/]+)`")
)

// testsOf returns the tests below a folder, with the subtests that have a constant name, by the folder they are in.
func testsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(rel)
		functions := testFunction.FindAllSubmatchIndex(text, -1)
		for i, at := range functions {
			name, end := string(text[at[2]:at[3]]), len(text)
			if i+1 < len(functions) {
				end = functions[i+1][0]
			}
			found[name] = append(found[name], folder)
			for _, sub := range subtestName.FindAllSubmatch(text[at[0]:end], -1) {
				full := name + "/" + string(sub[1])
				found[full] = append(found[full], folder)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCompatibilityNamesItsTests checks that every row of the tables of differences names a test that there is.
func TestCompatibilityNamesItsTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/internals/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOf(t, "../..")
	inTable, rows := false, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
			continue
		case strings.HasSuffix(line, "| Test |"):
			inTable = true
			continue
		case !inTable || strings.HasPrefix(line, "|---"):
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			t.Errorf("got %d cells, want 4: %s", len(cells), line)
			continue
		}
		names := namedTest.FindAllStringSubmatch(cells[3], -1)
		if len(names) == 0 {
			t.Errorf("no test is named: %s", line)
		}
		folder := ""
		if m := namedPackage.FindStringSubmatch(cells[3]); m != nil {
			folder = m[1]
		}
		for _, m := range names {
			if where := tests[m[1]]; len(where) == 0 || folder != "" && !slices.Contains(where, folder) {
				t.Errorf("there is no test %s %s (but %q): %s", m[1], folder, where, cells[0])
			}
		}
	}
	if rows < 60 {
		t.Errorf("only %d rows were found", rows)
	}
}
