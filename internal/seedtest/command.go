package seedtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// place says from where the command runs. It has the folder of the module, relative to the repository, and the package, relative to the module.
// The tests of a package start in its folder, and may change it later.
var place = sync.OnceValues(func() (module, pkg string) {
	folder, err := os.Getwd()
	if err != nil {
		return "", "."
	}
	return placeOf(folder)
})

// placeOf returns the place of the package in a folder. The repository begins at the folder that has .git, or at the outermost module.
func placeOf(folder string) (module, pkg string) {
	var inner, outer string
	for at := folder; ; at = filepath.Dir(at) {
		if exists(at, "go.mod") {
			if outer = at; inner == "" {
				inner = at
			}
		}
		if exists(at, ".git") || at == filepath.Dir(at) {
			break
		}
	}
	if inner == "" {
		return "", "."
	}
	return relative(outer, inner), relative(inner, folder)
}

func exists(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}

func relative(from, to string) string {
	rel, err := filepath.Rel(from, to)
	if err != nil || rel == "." {
		return "."
	}
	return "./" + filepath.ToSlash(rel)
}

// command repeats the test of that name with the number n. It says what else decides which cases the test plays, which are the variables for cases
// and kills, -short, the race detector, and the flags that the package defines.
func command(n uint64, name string) string {
	var words []string
	module, pkg := place()
	if module != "" && module != "." {
		words = append(words, "cd", quote(strings.TrimPrefix(module, "./")), "&&")
	}
	words = append(words, fmt.Sprintf("%s=%d", numberEnv, n))
	for _, variable := range []string{"FOREBAY_CASES", "FOREBAY_KILLS"} {
		if value := os.Getenv(variable); value != "" {
			words = append(words, variable+"="+quote(value))
		}
	}
	words = append(words, "go test -count=1")
	if testing.Short() {
		words = append(words, "-short")
	}
	if underRace() {
		words = append(words, "-race")
	}
	words = append(words, "-run", pattern(name), quote(pkg))
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			words = append(words, quote("-"+f.Name+"="+f.Value.String()))
		}
	})
	return strings.Join(words, " ")
}

// pattern matches one test, or one subtest, alone.
func pattern(name string) string {
	elements := strings.Split(name, "/")
	for i, e := range elements {
		elements[i] = "^" + regexp.QuoteMeta(e) + "$"
	}
	return quoted(strings.Join(elements, "/"))
}

// plain needs no quotes in a shell.
var plain = regexp.MustCompile(`^[-A-Za-z0-9_./=:,+]+$`)

func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return quoted(word)
}

func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

var underRace = sync.OnceValue(func() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
})
