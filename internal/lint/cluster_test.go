package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testsOfFolder = regexp.MustCompile("((?:`Test\\w+`(?:, )?)+) of `([a-z/]+)`")
	mutantName    = regexp.MustCompile("`([a-z]+(?:-[a-z]+)+)`")
	mutantFolder  = regexp.MustCompile(`(?m)^@@ cluster\b`)
)

// TestClusterNamesItsTests checks the tables of docs/internals/cluster.md that say which test proves a step of the protocol and which one finds a
// defect. Each row names something, each test and each defect is there, and each defect of a log or of a cluster is in the table.
func TestClusterNamesItsTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/internals/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, steps := strings.Cut(string(text), "\n| step | tests |\n")
	rest, defects, found := strings.Cut(rest, "\n| defect | found as |\n")
	if !steps || !found {
		t.Fatal("docs/internals/cluster.md does not have the two tables")
	}
	tests := testsOf(t, "../..")
	const mutants = "../sim/testdata/mutants"
	named := map[string]bool{}
	rows := 0
	for _, table := range []string{rest, defects} {
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "|") {
				break
			}
			if strings.HasPrefix(line, "|---") {
				continue
			}
			rows++
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if len(cells) != 2 {
				t.Errorf("got %d cells, want 2: %s", len(cells), line)
				continue
			}
			proofs := 0
			for _, part := range testsOfFolder.FindAllStringSubmatch(cells[1], -1) {
				for name := range strings.SplitSeq(part[1], ", ") {
					proofs++
					if name = strings.Trim(name, "`"); !slices.Contains(tests[name], part[2]) {
						t.Errorf("there is no %s in %s: %s", name, part[2], cells[0])
					}
				}
			}
			if all := strings.Count(cells[1], "`Test"); all != proofs {
				t.Errorf("%d of %d tests do not say which package they are of: %s", all-proofs, all, cells[0])
			}
			for _, m := range mutantName.FindAllStringSubmatch(cells[1], -1) {
				proofs++
				named[m[1]] = true
				if _, err := os.Stat(filepath.Join(mutants, m[1]+".txt")); err != nil {
					t.Errorf("%s: got %v, want no error", cells[0], err)
				}
			}
			if proofs == 0 {
				t.Errorf("nothing proves: %s", cells[0])
			}
		}
	}
	if rows < 30 {
		t.Errorf("the tables have %d rows", rows)
	}
	paths, err := filepath.Glob(filepath.Join(mutants, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimSuffix(filepath.Base(path), ".txt"); mutantFolder.Match(text) && !named[name] {
			t.Errorf("the defect %s is not in the table", name)
		}
	}
}
