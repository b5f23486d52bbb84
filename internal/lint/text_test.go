package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

func textRules() []rule {
	return []rule{
		{
			name:  "the project speaks of itself",
			check: checkWords,
			why: "Texts name no brand of the platform (write \"the platform\" or \"the Storage API\") and no tool that was " +
				"used to write them. A literal constant of a wire protocol may stand in a file that is listed in wireFiles.",
		},
		{
			name:  "no machine paths",
			check: checkPaths,
			why:   "A path of one machine helps nobody else. Use a relative path, or a placeholder such as DIR.",
		},
		{
			name:  "nothing is left for later",
			check: checkMarkers,
			why:   "Finish it, or write down as a fact what is not done: a known hole is admitted in words at its line.",
		},
		{
			name:  "files have one subject",
			check: checkLength,
			why:   "A long file usually has two subjects. Split it by noun, or by verb where it is hot.",
		},
	}
}

// forbidden are the first 8 bytes of the SHA-256 of words in lower case, so that this file does not contain them.
var forbidden = []string{
	"25bbd2372aa13b7a", "3ea125d0bff386e6", "487b91042c7cf27a", "553133ea03bb73bd",
	"57de4cf40144bdf7", "5d72436256ada538", "60965168ce762e94", "71886850606fe418",
	"7d3194f79e645c42", "94a168d2da574b00", "c70eca6b0f88f44d", "c857d09db23e6822",
	"c9ad8f2cc1294afa", "d298391b07433318", "e12ce8285efc67c6",
}

// wireFiles may contain forbidden words, as constants that the protocol needs.
var wireFiles = []string{"stream/streamapi/wire.go", "storageapi/platform/wire.go"}

func fingerprint(word string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(word)))
	return hex.EncodeToString(sum[:8])
}

func checkWords(t *tree) []problem {
	known := make(map[string]bool) // most words come back
	isForbidden := func(word string) bool {
		is, ok := known[word]
		if !ok {
			is = slices.Contains(forbidden, fingerprint(word))
			known[word] = is
		}
		return is
	}
	notLetter := func(r rune) bool { return !unicode.IsLetter(r) }
	return eachLine(t, func(name, line string) string {
		if slices.Contains(wireFiles, name) {
			return ""
		}
		for run := range strings.FieldsFuncSeq(line, notLetter) {
			for _, word := range append(camel(run), run) {
				if isForbidden(word) {
					return fmt.Sprintf("the word that begins with %q does not belong here", word[:1])
				}
			}
		}
		return ""
	})
}

// camel splits a name at its capital letters: "anOldWord" gives an, Old, Word.
func camel(s string) []string {
	var words []string
	begin := 0
	var before rune
	for i, r := range s {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			words = append(words, s[begin:i])
			begin = i
		}
		before = r
	}
	return append(words, s[begin:])
}

// machinePath matches absolute paths of home and work folders. It is put together so that it does not match itself.
var machinePath = regexp.MustCompile(`(^|[\s"'=(` + "`" + `])/(` + strings.Join([]string{"home", "Users", "root", "work"}, "|") + `)/[A-Za-z]`)

func checkPaths(t *tree) []problem {
	return eachLine(t, func(_, line string) string {
		if machinePath.MatchString(line) {
			return "contains a path of one machine"
		}
		return ""
	})
}

var marker = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b`)

func checkMarkers(t *tree) []problem {
	return eachLine(t, func(_, line string) string {
		if m := marker.FindString(line); m != "" {
			return "contains " + m
		}
		return ""
	})
}

// maxLines is a little above what fits one subject. Tests have tables.
const (
	maxLines     = 650
	maxTestLines = 900
)

func checkLength(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		limit := maxLines
		if f.test {
			limit = maxTestLines
		}
		if n := strings.Count(t.texts[f.path], "\n"); n > limit {
			problems = append(problems, problem{f.path, fmt.Sprintf("%d lines, at most %d", n, limit)})
		}
	}
	return problems
}

// eachLine calls check for all lines of all texts. A result that is not empty is a problem.
func eachLine(t *tree, check func(name, line string) string) []problem {
	var problems []problem
	for name, text := range t.texts {
		n := 0
		for line := range strings.Lines(text) {
			n++
			if what := check(name, line); what != "" {
				problems = append(problems, problem{fmt.Sprintf("%s:%d", name, n), what})
			}
		}
	}
	slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.at, b.at) })
	return problems
}

func textBreaches() []breach {
	// The word of the first fingerprint is not written out here either. This one stands for the mechanism.
	const word = "forbidden" + "word"
	return []breach{
		{"the project speaks of itself", []string{"README.md", "one\ntwo Forbidden" + "Word three\n"}, []string{"README.md:2: the word"}},
		{"the project speaks of itself", []string{"a.go", "var my" + strings.ToUpper(word[:1]) + word[1:] + " int"}, []string{"a.go:2: the word"}},
		{"the project speaks of itself", []string{"README.md", "forbidden\nword forbidden" + "words\n"}, nil},
		{"no machine paths", []string{"README.md", "see /" + "home/me/x"}, []string{"README.md:1: contains a path"}},
		{"no machine paths", []string{"README.md", "see ./work/x, /var/lib and https://example.com/home/x"}, nil},
		{"nothing is left for later", []string{"a.go", "// TO" + "DO: write\n"}, []string{"a.go:2: contains"}},
		{"files have one subject", []string{"a.go", strings.Repeat("\n", maxLines+1)}, []string{"a.go: 652 lines"}},
		{"files have one subject", []string{"a_test.go", strings.Repeat("\n", maxLines+1)}, nil},
	}
}
