package realdisk

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/disktest"
)

const (
	module = "github.com/forebay/forebay"
	root   = "../.."
)

// suite is a package whose tests of disks are played, and whose blocks are compared.
type suite struct {
	dir string
	run string // the tests about disks
}

var suites = []suite{
	{"buffer", "Damage|Salvage|Volume|Room|Disk|Kill|Restore|Crash|Cut|Reopen|Upgrade|Format|Checkpoint|Snapshot|Reach|Log|Store|Note|Sector|" +
		"Quarantine|Folder|Inspect|Verify|Forget|Tail|Late|Decision|Receipt|Discard"},
	{"buffer/internal/salvage", "."},
	{"catalog", "Store|Damage|Disk|Checkpoint"},
	{"internal/pebblestore", "."},
}

// skip are tests that play a file system that loses unsynced data, over and over. A real file system does not lose its power here.
const skip = "^(TestPowerCuts.*|TestUpgradeIsCutShort|TestFileIsImportedWithoutRefusedRows)$"

// inMemory are functions with a branch that only a disk in memory takes, and the reason. The test fails when an entry is needed no
// longer.
var inMemory = map[string]string{
	"buffer.(*Buffer).checkUpgradeRoom":         "a disk in memory does not report its free room",
	"internal/pebblestore.(*Opening).checkRoom": "a disk in memory does not report its free room",
	"internal/pebblestore.(*Opening).Claim":     "a disk in memory is no volume that work elsewhere could share",
	"internal/pebblestore.(*Opening).trim":      "a disk in memory has no blocks behind the end of a file",
	"internal/pebblestore.(*room).update":       "a disk in memory does not report blocks, so nothing is measured",
	"internal/pebblestore.lockFolder":           "a disk in memory has no file descriptors",
	"internal/pebblestore.blocksOf":             "a disk in memory does not report blocks",
	"internal/pebblestore.usageOf":              "a disk in memory does not report blocks",
}

// byChance are functions with a block that a run reaches or not, on either disk, because a test damages random bytes or because
// goroutines meet.
var byChance = map[string]string{
	"buffer.(*Buffer).append":                "the committer takes a group between two rows of a call",
	"buffer.(*Buffer).prepare":               "a failure ends a group before it is packed",
	"buffer.(*Buffer).reportDamage":          "two findings of damage meet",
	"buffer.(*Buffer).takeStaged":            "the damage hits the record of an upload by chance, and mostly the record before it",
	"buffer.(*Buffer).verifySink":            "a slice is in staging, or not yet, when an Inspection counts it",
	"buffer.Inspect":                         "damage hits the record of the position",
	"buffer.Ticket.Wait":                     "a commit ends together with the context of its caller",
	"buffer.(*grace).stop":                   "more than a few callers wait for one group",
	"buffer.(*grace).wait":                   "more than a few callers wait for one group",
	"buffer.newReplay":                       "damage hits the record of the format",
	"internal/pebblestore.(*tableScan).scan": "damage hits the last block of a table and a different one",
	"internal/pebblestore.readTable":         "damage hits a block that the head of a table points to",
	"internal/pebblestore.(*files).pause":    "a compaction waits for room when the store is closed",
}

// TestRealDiskCoversWhatMemoryDoes plays the tests of disks once in memory and once on the real file system. Each block of these
// packages that runs in memory must run on the real one as well. Blocks that a run reaches by chance are asked up to three times.
func TestRealDiskCoversWhatMemoryDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("plays the tests of four packages twice")
	}
	bin := t.TempDir()
	build(t, bin)
	var left map[string]bool
	for round := 1; ; round++ {
		ran := play(t, bin, "mem")
		if left == nil {
			left = ran
		}
		for block := range left {
			if !ran[block] {
				delete(left, block)
			}
		}
		for block := range play(t, bin, "real") {
			delete(left, block)
		}
		unexplained := slices.DeleteFunc(slices.Sorted(maps.Keys(left)), func(block string) bool {
			function := functionOf(t, block)
			return inMemory[function] != "" || byChance[function] != ""
		})
		if len(unexplained) == 0 {
			break
		}
		if round == 3 {
			for _, block := range unexplained {
				t.Errorf("%s: %s runs on a disk in memory alone: play a test of it with disktest.Each, or give a reason in inMemory",
					functionOf(t, block), strings.TrimPrefix(block, module+"/"))
			}
			break
		}
		t.Logf("round %d: on disks in memory alone: %s", round, strings.Join(unexplained, " "))
	}
	needed := map[string]bool{}
	for block := range left {
		needed[functionOf(t, block)] = true
	}
	for _, function := range slices.Sorted(maps.Keys(inMemory)) {
		if !needed[function] {
			t.Errorf("%s is in the list of inMemory, and all that runs of it in memory runs on a real disk: remove it", function)
		}
	}
}

// Tests take their disks from package disktest. Others would not be played on a real file system.
func TestDisksComeFromDisktest(t *testing.T) {
	for _, s := range suites {
		files, err := filepath.Glob(filepath.Join(root, s.dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"vfs.NewMem()", "vfs.NewCrashableMem()", "errorfs.Wrap("} {
				if strings.Contains(string(text), call) {
					t.Errorf("%s calls %s: use disktest.New, disktest.Each or disktest.Wrap", file, call)
				}
			}
		}
	}
}

// build builds the tests of all suites with counters in the code of all of them.
func build(t *testing.T, bin string) {
	t.Helper()
	var dirs, measured []string
	for _, s := range suites {
		dirs, measured = append(dirs, "./"+s.dir), append(measured, module+"/"+s.dir)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-c", "-cover", "-coverpkg=" + strings.Join(measured, ","), "-o", bin + "/"}, dirs...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
}

// play runs the tests of all suites and returns the blocks that ran.
func play(t *testing.T, bin, disk string) map[string]bool {
	t.Helper()
	ran := map[string]bool{}
	for _, s := range suites {
		profile := filepath.Join(t.TempDir(), disk+".out")
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, path.Base(s.dir)+".test"), "-test.short", "-test.run="+s.run, "-test.skip="+skip,
			"-test.coverprofile="+profile)
		cmd.Dir, cmd.Env = filepath.Join(root, s.dir), append(os.Environ(), disktest.Env+"="+disk)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("tests of %s, disks %s: %v\n%s", s.dir, disk, err, out)
		}
		f, err := os.Open(profile)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			block, counts, _ := strings.Cut(lines.Text(), " ") // file:from,to statements runs
			if _, runs, ok := strings.Cut(counts, " "); ok && runs != "0" {
				ran[block] = true
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(ran) < 2000 {
		t.Fatalf("disks %s: %d blocks ran, which cannot be all", disk, len(ran))
	}
	return ran
}

// parsed are the files of functionOf.
var parsed = map[string]*ast.File{}

var positions = token.NewFileSet()

// functionOf returns the function that a block is in, with its package and receiver.
func functionOf(t *testing.T, block string) string {
	t.Helper()
	file, place, _ := strings.Cut(strings.TrimPrefix(block, module+"/"), ":")
	start, _, _ := strings.Cut(place, ".")
	line, err := strconv.Atoi(start)
	if err != nil {
		t.Fatalf("block %s: %v", block, err)
	}
	tree := parsed[file]
	if tree == nil {
		if tree, err = parser.ParseFile(positions, filepath.Join(root, file), nil, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
		parsed[file] = tree
	}
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || positions.Position(fn.Pos()).Line > line || positions.Position(fn.End()).Line < line {
			continue
		}
		receiver := ""
		if fn.Recv != nil {
			receiver = receiverOf(fn.Recv.List[0].Type) + "."
		}
		return path.Dir(file) + "." + receiver + fn.Name.Name
	}
	return cmp.Or(path.Dir(file), block)
}

func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return "(*" + receiverOf(e.X) + ")"
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return receiverOf(e.X)
	}
	return fmt.Sprintf("%T", e)
}
