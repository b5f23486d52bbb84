package seedtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/seedtest"
)

// noted is a test whose messages and failures are kept.
type noted struct {
	testing.TB
	name           string
	logged, failed []string
	ended          []func()
}

func (n *noted) Name() string { return n.name }
func (n *noted) Helper()      {}
func (n *noted) Logf(format string, args ...any) {
	n.logged = append(n.logged, fmt.Sprintf(format, args...))
}

func (n *noted) Errorf(format string, args ...any) {
	n.failed = append(n.failed, fmt.Sprintf(format, args...))
}
func (n *noted) Cleanup(f func()) { n.ended = append(n.ended, f) }

func (n *noted) end() {
	for _, f := range n.ended {
		f()
	}
}

var number = regexp.MustCompile(`FOREBAY_SEED=(\d+) `)

func (n *noted) number(t *testing.T) string {
	t.Helper()
	m := number.FindStringSubmatch(strings.Join(n.logged, "\n"))
	if m == nil {
		t.Fatalf("no command with FOREBAY_SEED is in %q", n.logged)
	}
	return m[1]
}

// The stable seeds are a promise. The command of an old failure still repeats it.
func TestVariableFixesTheSeeds(t *testing.T) {
	t.Setenv("FOREBAY_SEED", "7")
	a, b := &noted{name: "TestA"}, &noted{name: "TestB/x"}
	if got, want := seedtest.Of(a), uint64(12375547528728529145); got != want {
		t.Errorf("the seed of TestA with 7 is %d, want %d", got, want)
	}
	if seedtest.Of(a) == seedtest.Of(b) {
		t.Error("two tests have the same seed")
	}
	if a.number(t) != "7" || b.number(t) != "7" {
		t.Errorf("the commands are %q and %q, want FOREBAY_SEED=7 in each", a.logged, b.logged)
	}
	if r, s := seedtest.Rand(a), seedtest.Rand(a); r.Uint64() != s.Uint64() {
		t.Error("the generators of one test differ")
	}
}

func TestSubtestsShareTheNumberOfARun(t *testing.T) {
	t.Setenv("FOREBAY_SEED", "")
	numbers := map[string]bool{}
	for range 5 { // two of five numbers are equal in one of 400 million runs
		test, sub := &noted{name: "TestShared"}, &noted{name: "TestShared/sub"}
		if seedtest.Of(test) == seedtest.Of(sub) {
			t.Fatal("the test and its subtest have the same seed")
		}
		if test.number(t) != sub.number(t) {
			t.Fatalf("the test has the number %s, its subtest %s: no command repeats both", test.number(t), sub.number(t))
		}
		numbers[test.number(t)] = true
		sub.end()
		test.end()
	}
	if len(numbers) < 4 {
		t.Errorf("5 runs had the numbers %v, want a new number in each", numbers)
	}
}

// failing makes TestCommandRepeatsTheFailure fail in the process that it starts.
const failing = "SEEDTEST_FAILS"

var value = regexp.MustCompile(`the value is (\d+)`)

func TestCommandRepeatsTheFailure(t *testing.T) {
	t.Run("a 'strange' [name]/below", func(t *testing.T) {
		if os.Getenv(failing) != "" {
			t.Fatalf("the value is %d", seedtest.Rand(t).Uint64())
		}
		fail := func(env ...string) string {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCommandRepeatsTheFailure$")
			cmd.Env = append(os.Environ(), append(env, failing+"=1")...)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the test passes: %s", out)
			}
			return string(out)
		}
		first := fail("FOREBAY_SEED=", "FOREBAY_CASES=", "FOREBAY_KILLS=9")
		_, command, found := strings.Cut(first, "repeat with: ")
		command, _, _ = strings.Cut(command, "\n")
		want := regexp.MustCompile(`^FOREBAY_SEED=\d+ FOREBAY_KILLS=9 go test -count=1 (-short )?(-race )?-run '\^TestCommandRepeatsTheFailure\$/\^a_'\\''strange'\\''_\\\[name\\\]\$/\^below\$' ./internal/seedtest$`)
		if !found || !want.MatchString(command) {
			t.Fatalf("the command is %q, want %s; the output is %s", command, want, first)
		}
		if got, want := value.FindString(fail("FOREBAY_SEED="+number.FindStringSubmatch(command)[1])), value.FindString(first); got != want || want == "" {
			t.Errorf("repeated, %q; want %q", got, want)
		}
	})
}

func TestMissedCasesFailTheNightlyRunAlone(t *testing.T) {
	for _, nightly := range []bool{false, true} {
		t.Setenv("FOREBAY_NIGHTLY", map[bool]string{true: "1"}[nightly])
		test := &noted{name: "TestA"}
		seedtest.Missed(test, "it never happened: %s", "rain")
		if failed := len(test.failed) == 1; failed != nightly {
			t.Errorf("nightly %v: failed %v, want %v", nightly, failed, nightly)
		}
		if text := strings.Join(append(test.failed, test.logged...), "\n"); !strings.Contains(text, "it never happened: rain") {
			t.Errorf("nightly %v: the message is %q", nightly, text)
		}
	}
}

func TestPlaceOfACommand(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"repo/.git/config", "repo/go.mod", "repo/a/b/x.go", "repo/drivers/d/go.mod", "repo/drivers/d/e/x.go", "go.mod"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for folder, want := range map[string][2]string{
		"repo":             {".", "."},
		"repo/a/b":         {".", "./a/b"},
		"repo/drivers/d":   {"./drivers/d", "."},
		"repo/drivers/d/e": {"./drivers/d", "./e"},
	} {
		if module, pkg := seedtest.PlaceOf(filepath.Join(root, folder)); [2]string{module, pkg} != want {
			t.Errorf("the command of %s runs in %q, with package %q; want %q", folder, module, pkg, want)
		}
	}
}
