package sim

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// mutantEnv chooses the mutant of a build that has them all.
const mutantEnv = "FOREBAY_MUTANT"

// mutant is one defect, of testdata/mutants/NAME.txt. The first line of the file describes the defect. Then come
// the changes, each like a hunk of a diff whose line numbers are replaced by the folder of the package:
//
//	Rows are acknowledged before the commit.
//
//	@@ buffer
//	+	if MUTANT {
//	+		return Ticket{b: b}, nil
//	+	}
//	 	ticket.g = last
//
// The lines without + must stand exactly once in the package, tests aside. MUTANT is true when the mutant was chosen. All
// mutants are in one build, so a change must do nothing while MUTANT is false.
//
// A mutant fails TestSimulation, unless a second line of its file names another test, as in "caught by DIR PATTERN". If the first seeds
// do not find it, the line is "caught by seed NUMBER", so that no run has to search.
type mutant struct {
	name    string
	dir     string // folder of the tests
	pattern string // for -test.run
	seed    int    // the first to play
	hunks   []hunk
}

type hunk struct{ dir, find, put string }

func parseMutant(name, text string) (mutant, error) {
	m := mutant{name: name, dir: "internal/sim", pattern: "^TestSimulation$"}
	about, changes, _ := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	why, caught, named := strings.Cut(strings.TrimSpace(about), "\n")
	if named {
		_, err := fmt.Sscanf(caught, "caught by seed %d", &m.seed)
		if err != nil {
			_, err = fmt.Sscanf(caught, "caught by %s %s", &m.dir, &m.pattern)
		}
		if err != nil {
			return m, fmt.Errorf("mutant %s: line %q: %w", name, caught, err)
		}
	}
	if why == "" || changes == "" {
		return m, fmt.Errorf("mutant %s: want a line that says what is wrong, an empty line, and changes", name)
	}
	chosen := fmt.Sprintf("(mutantChosen == %q)", name)
	var h *hunk
	for _, line := range strings.SplitAfter(strings.TrimRight(changes, "\n")+"\n", "\n") {
		kind, rest := line[:min(1, len(line))], line[min(1, len(line)):]
		switch {
		case kind == "":
		case kind == "@":
			m.hunks = append(m.hunks, hunk{dir: strings.TrimSpace(strings.TrimLeft(line, "@"))})
			h = &m.hunks[len(m.hunks)-1]
		case h == nil:
			return m, fmt.Errorf("mutant %s: line %q stands before the first @@", name, line)
		case kind == "+":
			h.put += regexp.MustCompile(`\bMUTANT\b`).ReplaceAllString(rest, chosen)
		case kind == "-":
			h.find += rest
		case kind == " ":
			h.find += rest
			h.put += rest
		default:
			return m, fmt.Errorf("mutant %s: line %q begins with none of + - space @", name, line)
		}
	}
	if !slices.ContainsFunc(m.hunks, func(h hunk) bool { return strings.Contains(h.put, chosen) }) {
		return m, fmt.Errorf("mutant %s: no change depends on MUTANT", name)
	}
	return m, nil
}

// mutate returns the changed and the new files, by path, of the module at root with all mutants in it.
func mutate(root string, mutants []mutant) (map[string]string, error) {
	type edit struct {
		mutant     string
		begin, end int
		put        string
	}
	sources := map[string]map[string]string{} // by folder and path
	edits := map[string][]edit{}              // by path
	out := map[string]string{}
	for _, m := range mutants {
		for _, h := range m.hunks {
			if sources[h.dir] == nil {
				files, err := packageFiles(filepath.Join(root, filepath.FromSlash(h.dir)))
				if err != nil {
					return nil, fmt.Errorf("mutant %s: %w", m.name, err)
				}
				sources[h.dir] = files
			}
			places := 0
			for path, text := range sources[h.dir] {
				if n := strings.Count("\n"+text, "\n"+h.find); n > 0 {
					places += n
					begin := strings.Index("\n"+text, "\n"+h.find)
					edits[path] = append(edits[path], edit{m.name, begin, begin + len(h.find), h.put})
				}
			}
			if places != 1 || h.find == "" {
				return nil, fmt.Errorf("mutant %s: the lines that it changes stand %d times in %s, not once:\n%s", m.name, places, h.dir, h.find)
			}
		}
	}
	for dir, files := range sources {
		for path, text := range files {
			list := edits[path]
			slices.SortFunc(list, func(a, b edit) int { return cmp.Compare(b.begin, a.begin) }) // the last first
			for i, e := range list {
				if i > 0 && list[i-1].begin < e.end {
					return nil, fmt.Errorf("mutants %s and %s change the same lines", e.mutant, list[i-1].mutant)
				}
				text = text[:e.begin] + e.put + text[e.end:]
			}
			if len(list) > 0 {
				out[path] = text
			}
			clause := regexp.MustCompile(`(?m)^package \w+$`).FindString(text)
			out[filepath.Join(root, filepath.FromSlash(dir), "mutant_chosen.go")] = clause + "\n\nimport \"os\"\n\nvar mutantChosen = os.Getenv(\"" + mutantEnv + "\")\n"
		}
	}
	return out, nil
}

// packageFiles reads the files of a package, tests aside, by path.
func packageFiles(dir string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[path] = string(text)
	}
	return files, nil
}

// readMutants reads the mutants of testdata, and returns the files of the module with all of them in it.
func readMutants(t *testing.T, root string) ([]mutant, map[string]string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/mutants/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("mutants %v, %v", paths, err)
	}
	var list []mutant
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseMutant(strings.TrimSuffix(filepath.Base(path), ".txt"), string(text))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	files, err := mutate(root, list)
	if err != nil {
		t.Fatal(err)
	}
	return list, files
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// Each mutant must still fit the code. The code contains its lines, and the code with all mutants compiles.
func TestMutantsFitTheCode(t *testing.T) {
	root := moduleRoot(t)
	mutants, files := readMutants(t, root)
	if testing.Short() {
		t.Skip("compiles packages")
	}
	overlay := writeOverlay(t, t.TempDir(), files)
	modules := map[string][]string{"": {}} // the packages by the folder of their module
	for _, m := range mutants {
		for _, h := range m.hunks {
			module, dir := "", "./"+h.dir
			if rest, ok := strings.CutPrefix(h.dir, "cluster/"); ok {
				module, dir = "cluster", "./"+rest
			}
			if !slices.Contains(modules[module], dir) {
				modules[module] = append(modules[module], dir)
			}
		}
	}
	if os.Getenv("FOREBAY_HEAVY") == "" { // the stage heavy sets it, because a user who runs the tests need not download what a cluster needs
		delete(modules, "cluster")
	}
	for module, packages := range modules {
		build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", overlay}, packages...)...)
		build.Dir = filepath.Join(root, module)
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("the code of module %q with all mutants: %v\n%s", module, err, out)
		}
	}
}

// writeOverlay writes changed files and returns the file for the flag -overlay.
func writeOverlay(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	overlay := map[string]string{}
	for path, text := range files {
		overlay[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay)))
		if err := os.WriteFile(overlay[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A simulation that finds nothing proves nothing, so each mutant must fail its test, the simulation within a part of the seeds that
// CI plays.
func TestMutantsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs many variants")
	}
	if os.Getenv(mutantEnv) != "" {
		t.Skip("this is a mutant")
	}
	root, dir := moduleRoot(t), t.TempDir()
	mutants, files := readMutants(t, root)
	if _, pattern, only := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); only { // the others need no build
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !regexp.MustCompile(pattern).MatchString(m.name) })
	}
	overlay := writeOverlay(t, dir, files)
	binary := func(m mutant) string {
		name := filepath.Join(dir, strings.ReplaceAll(m.dir, "/", "_")+".test")
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		return name
	}
	run := func(t *testing.T, m mutant, chosen string, from, seeds int) (string, error) {
		cmd := exec.CommandContext(t.Context(), binary(m), "-test.run", m.pattern, "-test.timeout", "5m", "-test.failfast")
		if m.dir == "internal/sim" {
			// On one processor a seed goes the same way each time.
			cmd.Args = append(cmd.Args, "-test.cpu", "1", "-test.parallel", "1", "-from", fmt.Sprint(from), "-seeds", fmt.Sprint(seeds))
		} else if chosen != "" {
			cmd.Args = append(cmd.Args, "-test.count", "5") // some defects need a certain order of goroutines
		}
		cmd.Dir = filepath.Join(root, filepath.FromSlash(m.dir))
		cmd.Env = append(os.Environ(), mutantEnv+"="+chosen)
		if chosen != "" {
			cmd.Env = append(cmd.Env, "FOREBAY_CASES=all") // a sample of the cases may lack the one that finds it
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	healthy := map[string]bool{} // tests that pass without a mutant, by folder and pattern
	for _, m := range mutants {
		if _, err := os.Stat(binary(m)); err != nil {
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary(m), ".")
			build.Dir = filepath.Join(root, filepath.FromSlash(m.dir)) // which may be of another module
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
		}
		// A test that cannot run at all, or that always fails, would look like a caught defect.
		if key := m.dir + " " + m.pattern; !healthy[key] {
			out, err := run(t, m, "", 0, 3)
			if err != nil || strings.Contains(out, "no tests to run") {
				t.Fatalf("%s without a defect: %v\n%s", key, err, out)
			}
			healthy[key] = true
		}
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, m, m.name, m.seed, 20)
			if err == nil && m.dir == "internal/sim" {
				out, err = run(t, m, m.name, 0, 300)
				t.Logf("seeds %d to %d do not find it: change \"caught by seed\" of the mutant; found by: %s", m.seed, m.seed+19,
					regexp.MustCompile(`-seed \d+`).FindString(out))
			}
			if err == nil {
				t.Fatalf("%s %s did not find the defect", m.dir, m.pattern)
			}
			t.Logf("found: %s", firstComplaint(out))
		})
	}
}

// firstComplaint returns the first line of a test's output that describes a failure.
func firstComplaint(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") {
			return strings.TrimSpace(line)
		}
	}
	return out
}

func TestMutantFilesAreChecked(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no reason", "\n\n@@ a\n+	MUTANT\n 	x\n", "want a line that says what is wrong"},
		{"no change", "why\n", "want a line that says what is wrong"},
		{"unknown line", "why\nfound by luck\n\n@@ a\n", `line "found by luck"`},
		{"no folder", "why\n\n 	x\n", "before the first @@"},
		{"bad line", "why\n\n@@ a\nx\n", "begins with none of"},
		{"no choice", "why\n\n@@ a\n+	y()\n 	x\n", "no change depends on MUTANT"},
	} {
		if _, err := parseMutant("m", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	m, err := parseMutant("m", "why\ncaught by a/b ^TestX$\n\n@@ a\n-	x := 1\n+	x := 1\n+	if MUTANT {\n+		x = 2\n+	}\n 	return x\n")
	if err != nil {
		t.Fatal(err)
	}
	if m.dir != "a/b" || m.pattern != "^TestX$" {
		t.Errorf("tests %s %s", m.dir, m.pattern)
	}
	const source = "package a\n\nfunc f() int {\n\tx := 1\n\treturn x\n}\n"
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, "a", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("f.go", source)
	write("f_test.go", source)
	write("g.go", "package a\n")
	files, err := mutate(root, []mutant{m})
	if err != nil {
		t.Fatal(err)
	}
	const want = "package a\n\nfunc f() int {\n\tx := 1\n\tif (mutantChosen == \"m\") {\n\t\tx = 2\n\t}\n\treturn x\n}\n"
	if got := files[filepath.Join(root, "a", "f.go")]; got != want || len(files) != 2 {
		t.Errorf("got %d files, want 2, and with f.go as\n%s", len(files), got)
	}
	if _, err := mutate(root, []mutant{m, m}); err == nil || !strings.Contains(err.Error(), "change the same lines") {
		t.Errorf("twice: %v", err)
	}
	write("h.go", strings.ReplaceAll(source, "f()", "h()"))
	if _, err := mutate(root, []mutant{m}); err == nil || !strings.Contains(err.Error(), "stand 2 times") {
		t.Errorf("two places: %v", err)
	}
	write("f.go", "package a\n")
	write("h.go", "package a\n")
	if _, err := mutate(root, []mutant{m}); err == nil || !strings.Contains(err.Error(), "stand 0 times") {
		t.Errorf("no place: %v", err)
	}
}
