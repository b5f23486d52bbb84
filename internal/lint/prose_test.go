package lint

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

func proseRules() []rule {
	return []rule{
		{
			name:  "plain words",
			check: checkPlainWords,
			why:   "Comments and docs are written in plain, idiomatic English: one idea a sentence, the terms of the field.",
		},
		{
			name:  "links lead somewhere",
			check: checkLinks,
			why: "A relative link names a file or folder of the repository, and a heading of it behind the #. A link of a doc comment " +
				"needs a space or punctuation behind it, and does not work in a code block.",
		},
		{
			name:  "names in texts exist",
			check: checkNames,
			why:   "Docs and comments name files, tests and exported identifiers as they are now. Rename them there too.",
		},
		{
			name:  "exactly once is explained once",
			check: checkOnce,
			why:   "The other pages for users claim it at most, with a link to " + oncePage + "#exactly-once.",
		},
	}
}

// plainer has phrases that readers stumble over, and what to write in their place.
var plainer = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\bbe had\b`), "is missing, is available"},
	{regexp.MustCompile(`(?i)\b(is|are) not to be\b`), "must not, cannot"},
	{regexp.MustCompile(`(?i)\bwhat is of\b`), "the parts of"},
	{regexp.MustCompile(`(?i)\bbeen told\b`), "knows, was informed"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) (that|those) of\b`), "name it again, or: comes from, is the same as"},
	{regexp.MustCompile(`(?i)\bbegin of\b|\bthe begin\b`), "start"},
	{regexp.MustCompile(`(?i)\bso it is with\b`), "the same holds for"},
	{regexp.MustCompile(`(?i)\bthat are at least once\b`), "at-least-once"},
	{regexp.MustCompile(`(?i)\btwo thirds of the CPU\b`), "a third less CPU"},
	{regexp.MustCompile(`(?i)\bis really stored\b`), "the stored rows"},
	{regexp.MustCompile(`(?i)\ba retry alone (cannot|does not)\b`), "non-retryable"},
	{regexp.MustCompile(`(?i)\bis how many\b.*\bare very many\b`), "the limit, as a number"},
	{regexp.MustCompile(`(?i)\bfor ever\b`), "forever, for good"},
	{regexp.MustCompile(`(?i)\bbut for the\b`), "except for the"},
	{regexp.MustCompile(`(?i)\banew\b`), "again"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix, repair"},
	{regexp.MustCompile(`(?i)\bof its own accord\b`), "by itself"},
	{regexp.MustCompile(`(?i)\bnot any more\b`), "no longer"},
}

// checkPlainWords looks at texts and at the comments of Go files. A phrase may span two lines. Code spans are names.
func checkPlainWords(t *tree) []problem {
	var problems []problem
	eachProse(t, func(at, text string) {
		text = codeSpan.ReplaceAllString(strings.Join(strings.Fields(text), " "), "`")
		for _, p := range plainer {
			if found := p.phrase.FindString(text); found != "" {
				problems = append(problems, problem{at, fmt.Sprintf("%q: say it plainly (%s)", found, p.instead)})
			}
		}
	})
	return sorted(problems)
}

// eachProse calls yield for each paragraph that people read, in comments without their markers and in Markdown files.
func eachProse(t *tree, yield func(at, text string)) {
	for _, f := range t.files {
		for _, group := range f.ast.Comments {
			yield(t.at(group.Pos()), group.Text())
		}
	}
	for name, text := range t.texts {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		line := 1
		for paragraph := range strings.SplitAfterSeq(text, "\n\n") {
			yield(fmt.Sprintf("%s:%d", name, line), paragraph)
			line += strings.Count(paragraph, "\n")
		}
	}
}

func sorted(problems []problem) []problem {
	slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.String(), b.String()) })
	return problems
}

var (
	markdownLink = regexp.MustCompile(`(?:\]\(| (?:src|srcset|href)=")([^)"\s]+)[)"]`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	codeBlock    = regexp.MustCompile("(?ms)^```.*?^```$")
	deadDocLink  = regexp.MustCompile(`^//(?:\t(?:.*[^\w\]])?(\[\*?(?:\w+\.)*[A-Z]\w*\])| (?:.*[^\w\]])?(\[\*?(?:\w+\.)*[A-Z]\w*\]\w))`)
)

func checkLinks(t *tree) []problem {
	anchors := make(map[string][]string)
	for name, text := range t.texts {
		if strings.HasSuffix(name, ".md") {
			for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
				anchors[name] = append(anchors[name], anchor(m[1]))
			}
		}
	}
	var problems []problem
	for name := range anchors {
		for _, m := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(t.texts[name], ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, section, _ := strings.Cut(m[1], "#")
			target := path.Join(path.Dir(name), file)
			if file == "" {
				target = name
			}
			switch {
			case !t.paths[target]:
				problems = append(problems, problem{name, "the link to " + m[1] + " leads nowhere"})
			case section != "" && !slices.Contains(anchors[target], section):
				problems = append(problems, problem{name, "the link to " + m[1] + " names no heading"})
			}
		}
	}
	for _, f := range t.files {
		if f.test {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if m := deadDocLink.FindStringSubmatch(c.Text); m != nil {
					problems = append(problems, problem{t.at(c.Pos()), m[1] + m[2] + " is shown with its brackets"})
				}
			}
		}
	}
	return sorted(problems)
}

// anchor is the name under which a heading can be linked.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

var (
	codeSpan     = regexp.MustCompile("`([^`\n]+)`")
	filePath     = regexp.MustCompile(`^(?:[\w.-]+/)*[\w-]+\.(?:go|md|svg)$`)
	qualified    = regexp.MustCompile(`^\*?([A-Za-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*\))?$`)
	testName     = regexp.MustCompile(`\b((?:Test|Benchmark|Fuzz)[A-Z]\w*)\b`)
	namedInProse = regexp.MustCompile(`(?:^|[\s(])((?:docs|internal|buffer|mapping|stream|catalog|storageapi|extractor|trigger)/[\w/-]+\.(?:go|md)|[a-z][a-z_0-9]*\.go)\b`)
)

// checkNames looks up what texts put into code spans and what comments say of files. The changelog speaks of names that
// are gone.
func checkNames(t *tree) []problem {
	known := exportedNames(t)
	bases, tests := make(map[string]bool), make(map[string]bool)
	for name := range t.paths {
		bases[path.Base(name)] = true
	}
	for _, f := range t.files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test {
				tests[fn.Name.Name] = true
			}
		}
	}
	exists := func(dir, name string) bool {
		return t.paths[name] || t.paths[path.Join(dir, name)] || !strings.Contains(name, "/") && bases[name]
	}
	var problems []problem
	for name, text := range t.texts {
		if !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md" {
			continue
		}
		report := func(what string) { problems = append(problems, problem{name, what + " does not exist"}) }
		text = codeBlock.ReplaceAllString(text, "")
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			if filePath.MatchString(m[1]) && !exists(path.Dir(name), m[1]) {
				report(m[1])
			}
			if q := qualified.FindStringSubmatch(m[1]); q != nil && !known.has(q[1], q[2], q[3]) {
				report(m[1])
			}
		}
		for _, m := range testName.FindAllString(text, -1) {
			found := tests[m] || known.anywhere[m]
			for test := range tests {
				found = found || strings.HasPrefix(test, m) && strings.Contains(text, m+"…")
			}
			if !found {
				report(m)
			}
		}
	}
	for _, f := range t.files {
		for _, group := range f.ast.Comments {
			for _, m := range namedInProse.FindAllStringSubmatch(group.Text(), -1) {
				if !exists(f.dir, m[1]) {
					problems = append(problems, problem{t.at(group.Pos()), m[1] + " does not exist"})
				}
			}
		}
	}
	return sorted(problems)
}

// oncePage explains the promise that the pages for users mention most.
const oncePage = "docs/reliability.md"

var (
	onceLink = regexp.MustCompile(`\[[^\]]*\]\([^)]*reliability\.md#exactly-once\)`)
	once     = regexp.MustCompile(`(?i)\bexactly\s+once\b`)
)

// checkOnce looks at the pages for users. The lines of the index are sentences of the pages that they link.
func checkOnce(t *tree) []problem {
	var problems []problem
	for name, text := range proseParts(t)[0] {
		text = indexLine.ReplaceAllString(onceLink.ReplaceAllString(text, ""), "")
		if found := once.FindString(text); found != "" && name != oncePage {
			problems = append(problems, problem{name, fmt.Sprintf("%q is no link to %s#exactly-once", found, oncePage)})
		}
	}
	return sorted(problems)
}

// A namesOf knows the exported declarations by package name, and the members of types by type name.
type namesOf struct {
	packages, members map[string]map[string]bool
	anywhere          map[string]bool
}

// has reports whether a.b, or a.b.c, is declared here. A name of another repository counts as known.
func (n namesOf) has(a, b, c string) bool {
	if names, ok := n.packages[a]; ok && !names[b] {
		return false
	}
	if members, ok := n.members[a]; ok && !members[b] && !members[embedded] {
		return false
	}
	members, ok := n.members[b]
	return c == "" || !ok || members[c] || members[embedded]
}

func exportedNames(t *tree) namesOf {
	n := namesOf{make(map[string]map[string]bool), make(map[string]map[string]bool), make(map[string]bool)}
	add := func(m map[string]map[string]bool, in, name string) {
		if m[in] == nil {
			m[in] = make(map[string]bool)
		}
		m[in][name] = true
		n.anywhere[name] = true
	}
	for _, f := range t.files {
		if f.test || f.program() {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					add(n.packages, f.ast.Name.Name, decl.Name.Name)
				} else if id := base(receiver(decl)); id != nil && id.IsExported() {
					add(n.members, id.Name, decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							add(n.packages, f.ast.Name.Name, id.Name)
						}
					case *ast.TypeSpec:
						add(n.packages, f.ast.Name.Name, spec.Name.Name)
						if spec.Name.IsExported() {
							for _, member := range membersOf(spec) {
								add(n.members, spec.Name.Name, member)
							}
						}
					}
				}
			}
		}
	}
	return n
}

// embedded stands for the members that a type has from others.
const embedded = "*"

// membersOf names the fields of a struct and the methods of an interface.
func membersOf(spec *ast.TypeSpec) (names []string) {
	var list *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, id := range field.Names {
			names = append(names, id.Name)
		}
		if len(field.Names) == 0 {
			names = append(names, embedded)
		}
	}
	return names
}

func proseBreaches() []breach {
	link := func(to string) string { return "# A b\n\n[x](" + to + ")\n" }
	return []breach{
		{"plain words", []string{"a.md", "One.\n\nIt cannot be\nhad here.\n"}, []string{`a.md:3: "be had"`}},
		{"plain words", []string{"a.go", "// Once, and for\n// ever.\nvar a int // be had"}, []string{`a.go:2: "for ever"`, `a.go:4: "be had"`}},
		{"plain words", []string{"a.md", "It behaves: `opened anew`.\n", "a.go", "var a = `be had`"}, nil},
		{"links lead somewhere", []string{"a.md", link("b.md")}, []string{"b.md leads nowhere"}},
		{"links lead somewhere", []string{"a.md", "# A\n\n<source srcset=\"b.png\"><img src=\"c.png\" alt=\"d\">\n"}, []string{"b.png leads nowhere", "c.png leads nowhere"}},
		{"links lead somewhere", []string{"a.md", link("docs/b.md#c-d"), "docs/b.md", "# A\n"}, []string{"names no heading"}},
		{"links lead somewhere", []string{"docs/a.md", link("../b/c.go") + link("#a-b") + link("https://example.com/x#y"), "b/c.go", ""}, nil},
		{
			"links lead somewhere",
			[]string{"a.go", "// A is [A], not m[A]x.\n//\n//\tm[A]\nvar A int\n\n// [A]s.\nvar b int\n\n// C:\n//\n//\ta [p.C]\nvar C int"},
			[]string{"a.go:12: [p.C] is", "a.go:7: [A]s is"},
		},
		{"names in texts exist", []string{"a.md", "See `x/b.go`, `c.go` and TestB.", "x/c.go", "func F() {}"}, []string{"TestB does", "x/b.go does"}},
		{"names in texts exist", []string{
			"a.md", "`p.G`, `p.T.B`, `T.C` and `Other.D`, `q.x`", "x/c.go", "func F() {}\ntype T struct { A int }\nfunc (T) M() {}",
		}, []string{"T.C does", "p.G does", "p.T.B does"}},
		{"names in texts exist", []string{
			"a.md", "`p.F`, `p.T.A`, `T.M(x)`, TestC, TestAll… and `c.go`\n\n```go\np.Gone()\n```\n", "CHANGELOG.md", "`p.Gone` is `p.F`",
			"x/c.go", "// F is in c.go, not in time.go2.\nfunc F() {}\ntype T struct { A int }\nfunc (T) M() {}",
			"x/c_test.go", "func TestC() {}\nfunc TestAllOfIt() {}",
		}, nil},
		{"exactly once is explained once", []string{
			"docs/a.md", "Rows are stored exactly\nonce.\n", "docs/b.md", "[Exactly once](c.md#exactly-once)\n", "docs/reliability.md", "# Exactly once\n",
		}, []string{`docs/a.md: "exactly`, `docs/b.md: "Exactly`}},
		{"exactly once is explained once", []string{
			"README.md", "[exactly once](docs/reliability.md#exactly-once)\n", "docs/README.md", "- [R](reliability.md): Exactly once.\n", "docs/internals/a.md", "exactly once\n",
		}, nil},
		{"names in texts exist", []string{"x/c.go", "// F is below docs/y.md and (z.go).\nfunc F() {}"}, []string{"docs/y.md does", "z.go does"}},
	}
}

// pathsOf returns the file and the folders that contain it.
func pathsOf(name string) map[string]bool {
	paths := map[string]bool{name: true}
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		paths[dir] = true
		if dir == "." {
			return paths
		}
	}
}

// addPath registers a file whose text no test reads.
func (t *tree) addPath(name string) { maps.Copy(t.paths, pathsOf(name)) }
