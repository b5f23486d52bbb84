package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// logCall is a call of a *slog.Logger.
type logCall struct {
	at, dir, level, text string
	fields               []string
	next                 string
	// final says that a comment tells why there is no next step.
	final bool
	// problem is why the call cannot be in the reference, or is empty if it can.
	problem string
}

// variableNext stands for a next step that the code chooses.
const variableNext = "…"

// logMethods are the methods of *slog.Logger that log, with the number of arguments before the message.
var logMethods = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2,
}

// loggerName is the last name of an expression that is a logger.
var loggerName = regexp.MustCompile(`^(?:l|log|logger|Log|Logger)$`)

// unlisted are folders whose log is not the log of the engine or the server: tools, examples, and components of a platform.
var unlisted = []string{"bench", "examples", "extractor", "storageapi", "internal/soak", "internal/program/extract"}

// foreign are the beginnings of messages that other people's code has written, by the folder of the call.
var foreign = map[string]string{"cluster/natsserver": "nats: ", "internal/pebblestore": "store: "}

// logCalls returns all calls of loggers in the engine and the server, not in tests.
func (t *tree) logCalls() (calls []logCall) {
	for _, f := range t.files {
		if f.test || f.kit() || path.Base(f.dir) == "bench" || slices.ContainsFunc(unlisted, func(dir string) bool { return f.dir == dir || strings.HasPrefix(f.dir, dir+"/") }) {
			continue
		}
		calls = append(calls, t.logCallsOf(f)...)
	}
	slices.SortFunc(calls, func(a, b logCall) int { return cmp.Or(strings.Compare(a.text, b.text), strings.Compare(a.at, b.at)) })
	return calls
}

func (t *tree) logCallsOf(f *file) (calls []logCall) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		first, ok := logMethods[method.Sel.Name]
		if !ok || len(call.Args) <= first {
			return true
		}
		if id, ok := method.X.(*ast.Ident); ok && (id.Name == f.localName("log") || id.Name == f.localName("net/http")) {
			return true
		}
		c := logCall{at: t.at(call.Pos()), dir: f.dir, level: strings.TrimSuffix(method.Sel.Name, "Context")}
		if !loggerName.MatchString(lastName(method.X)) {
			if strings.HasSuffix(method.Sel.Name, "Context") || method.Sel.Name == "Warn" || method.Sel.Name == "LogAttrs" {
				c.problem = "the reference cannot tell whether this is a logger: name it log or Logger"
				calls = append(calls, c)
			}
			return true
		}
		if first == 2 {
			c.level = levelOf(call.Args[1])
		}
		var constant bool
		c.text, constant = t.constant(f, call.Args[first])
		t.readFields(f, &c, call.Args[first+1:])
		t.readNext(f, &c, call)
		c.final = t.comment(f, call, "No next: ") != ""
		if fields := t.comment(f, call, "Fields: "); fields != "" {
			c.fields = []string{fields}
		} else if slices.Contains(c.fields, "…") {
			c.problem = "its fields are in a slice: list them in a comment above the call, // Fields: a, b."
		}
		if constant {
			calls = append(calls, c)
			return true
		}
		if begin := foreign[f.dir]; begin != "" && strings.HasPrefix(c.text, begin) {
			return true
		}
		events := t.comment(f, call, "Events: ")
		for text := range strings.SplitSeq(events, ", ") {
			one := c
			before, after, _ := strings.Cut(c.text, "…")
			if one.text = text; events == "" || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
				one.problem = "the message is no constant: make it one, put the rest into fields, or list the messages in a comment above the call, // Events: a, b."
			}
			calls = append(calls, one)
		}
		return true
	})
	return calls
}

// comment returns the rest of a comment line that begins so and is right above a call.
func (t *tree) comment(f *file, call ast.Node, begin string) string {
	line := t.fset.Position(call.Pos()).Line
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if t.fset.Position(c.End()).Line == line-1 && strings.HasPrefix(c.Text, "// "+begin) {
				return strings.TrimSuffix(strings.TrimPrefix(c.Text, "// "+begin), ".")
			}
		}
	}
	return ""
}

// lastName returns the name of a variable, of a field, or of a method that is called.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "With" || f.Sel.Name == "Or") {
			return "log"
		}
		return lastName(e.Fun)
	}
	return ""
}

// levelOf returns the name of a level, such as Error for slog.LevelError. A variable may be any level.
func levelOf(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return strings.TrimPrefix(s.Sel.Name, "Level")
	}
	return "Info, Warn"
}

// constant returns the text of a constant expression: literals, constants of the package, and their sums.
func (t *tree) constant(f *file, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		x, ok := t.constant(f, e.X)
		y, ok2 := t.constant(f, e.Y)
		return x + y, ok && ok2
	case *ast.ParenExpr:
		return t.constant(f, e.X)
	case *ast.Ident:
		for _, other := range t.files {
			if other.dir != f.dir || other.test {
				continue
			}
			var found ast.Expr
			ast.Inspect(other.ast, func(n ast.Node) bool {
				d, ok := n.(*ast.GenDecl)
				if !ok || d.Tok != token.CONST {
					return true
				}
				for _, s := range d.Specs {
					v := s.(*ast.ValueSpec)
					for i, name := range v.Names {
						if name.Name == e.Name && i < len(v.Values) {
							found = v.Values[i]
						}
					}
				}
				return true
			})
			if found != nil {
				return t.constant(other, found)
			}
		}
		return "…", false
	}
	return "…", false
}

// nextOf is the text of a next step.
func (t *tree) nextOf(f *file, e ast.Expr) string {
	text, constant := t.constant(f, e)
	if !constant {
		return variableNext
	}
	return text
}

// readFields reads the names of fields, from pairs and from calls such as slog.Any("cause", err).
func (t *tree) readFields(f *file, c *logCall, args []ast.Expr) {
	for i := 0; i < len(args); i++ {
		if call, ok := args[i].(*ast.CallExpr); ok && len(call.Args) == 2 {
			if name, ok := t.constant(f, call.Args[0]); ok {
				c.fields = append(c.fields, name)
				if name == "next" {
					c.next = t.nextOf(f, call.Args[1])
				}
				continue
			}
		}
		name, ok := t.constant(f, args[i])
		if !ok || i+1 == len(args) {
			c.fields = append(c.fields, "…") // fields of a slice
			continue
		}
		i++
		c.fields = append(c.fields, name)
		if name == "next" {
			c.next = t.nextOf(f, args[i])
		}
	}
}

// readNext reads the next step of fields that are appended to a slice, in the call, or in the function around it.
func (t *tree) readNext(f *file, c *logCall, call *ast.CallExpr) {
	if !call.Ellipsis.IsValid() || c.next != "" {
		return
	}
	slice := call.Args[len(call.Args)-1]
	appended := func(n ast.Node) {
		if a, ok := n.(*ast.CallExpr); ok && lastName(a) == "append" && len(a.Args) > 1 {
			own := &logCall{}
			if t.readFields(f, own, a.Args[1:]); own.next != "" {
				c.next = own.next
			}
		}
	}
	appended(slice)
	if name, ok := slice.(*ast.Ident); ok {
		for _, d := range f.ast.Decls {
			if d.Pos() > call.Pos() || d.End() < call.End() {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.AssignStmt); ok && s.Pos() < call.Pos() && lastName(s.Lhs[0]) == name.Name {
					appended(s.Rhs[0])
				}
				return true
			})
		}
	}
}

// Limits of an event, so that it is a name and not a sentence. Reasons go into cause, and what to do into next.
const (
	eventWords = 9
	eventRunes = 60
)

// breach describes the fault in the message of a call, and how to fix it.
func (c *logCall) breach() string {
	const rewrite = ": write a short event, such as \"import failed\", with the fields cause and next"
	switch {
	case c.problem != "":
		return c.problem
	case strings.ContainsAny(c.text, ":;,…") || len(strings.Fields(c.text)) > eventWords || utf8.RuneCountInString(c.text) > eventRunes:
		return fmt.Sprintf("%q is a sentence", c.text) + rewrite
	case c.text == "" || c.text != strings.TrimSpace(c.text) || unicode.IsUpper([]rune(c.text)[0]) && !unicode.IsUpper([]rune(c.text + "  ")[1]):
		return fmt.Sprintf("%q must begin with a small letter", c.text)
	case (strings.Contains(c.level, "Warn") || c.level == "Error") && c.next == "" && !c.final:
		return fmt.Sprintf("%q has no field next: say what happens next or what to do, or why there is nothing in a comment above the call, // No next: the reason.", c.text)
	case slices.Contains(c.fields, "error") && !slices.Contains(c.fields, "cause"):
		return fmt.Sprintf("%q has the field error: an error is the field cause", c.text)
	}
	return ""
}

// eventPage has the reference of all events, between two comments.
const eventPage, eventsBegin, eventsEnd = "docs/metrics.md", "<!-- log events -->\n", "<!-- end of log events -->\n"

// eventParts are the tables of the reference. The first folder that fits decides.
var eventParts = []struct {
	title string
	dirs  []string
}{
	{"Events of the cluster", []string{"cluster"}},
	{"Events of the server", []string{"cmd", "internal/program", "stream", "console"}},
	{"Events of sources, tasks and definitions", []string{"catalog"}},
	{"Events of the engine", []string{""}},
}

// eventTable writes the reference. Calls with the same event, level and next are one row, with the fields of all. Events that differ in
// their names only share a row.
func eventTable(calls []logCall) string {
	type row struct {
		level, text, next string
		fields            []string
	}
	parts := make([][]row, len(eventParts))
	for _, c := range calls {
		part := slices.IndexFunc(eventParts, func(p struct {
			title string
			dirs  []string
		},
		) bool {
			return slices.ContainsFunc(p.dirs, func(dir string) bool { return dir == "" || c.dir == dir || strings.HasPrefix(c.dir, dir+"/") })
		})
		rows := parts[part]
		at := slices.IndexFunc(rows, func(r row) bool { return r.text == c.text && r.level == c.level && r.next == c.next })
		if at < 0 {
			at, rows = len(rows), append(rows, row{level: c.level, text: c.text, next: c.next})
		}
		for _, field := range c.fields {
			if field != "next" && !slices.Contains(rows[at].fields, field) {
				rows[at].fields = append(rows[at].fields, field)
			}
		}
		parts[part] = rows
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "### %s\n\n| event | level | fields | `next` |\n|---|---|---|---|\n", eventParts[i].title)
		var rows []row
		for _, r := range parts[i] {
			at := slices.IndexFunc(rows, func(o row) bool { return o.level == r.level && o.next == r.next && slices.Equal(o.fields, r.fields) })
			if at < 0 {
				rows = append(rows, r)
			} else if !slices.Contains(strings.Split(rows[at].text, "`, `"), r.text) {
				rows[at].text += "`, `" + r.text
			}
		}
		for _, r := range rows {
			next := cmp.Or(r.next, "–")
			if r.next == variableNext {
				next = "depends on the cause"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.text, r.level, cmp.Or(strings.Join(r.fields, ", "), "–"), next)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The events of the engine and the server are short, and the reference lists exactly them. To write it again:
//
//	go test ./internal/lint -run TestLogEvents -update
func TestLogEvents(t *testing.T) {
	tr := loadTree(t)
	calls := tr.logCalls()
	for _, c := range calls {
		if text := c.breach(); text != "" {
			t.Errorf("%s: got %s, want \"\"", c.at, text)
		}
	}
	if len(calls) < 150 {
		t.Errorf("only %d calls of loggers were found", len(calls))
	}
	before, rest, ok := strings.Cut(tr.texts[eventPage], eventsBegin)
	_, after, ok2 := strings.Cut(rest, eventsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the reference", eventPage)
	}
	want := before + eventsBegin + eventTable(calls) + eventsEnd + after
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", filepath.FromSlash(eventPage)), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if tr.texts[eventPage] != want {
		t.Errorf("%s differs from the code; if the change is meant, run: go test ./internal/lint -run TestLogEvents -update", eventPage)
	}
}

// The test of events finds each forbidden form.
func TestLogEventsAreFound(t *testing.T) {
	for _, tt := range []struct{ code, event, fields, problem string }{
		{`log.Warn("import failed", "sink", s, "cause", err, "next", "wait")`, "import failed", "sink cause next", ""},
		{`o.opts.Logger.InfoContext(ctx, "file " + "imported", slog.Int("rows", 1))`, "file imported", "rows", ""},
		{`b.log.LogAttrs(ctx, slog.LevelError, "request failed", slog.Any("cause", err), slog.String("next", "wait"))`, "request failed", "cause next", ""},
		{`log.Warn("request failed", "cause", err)`, "request failed", "cause", "no field next"},
		{`log.Error("request failed", "cause", err, "next", "")`, "request failed", "cause next", "no field next"},
		{`log.Log(ctx, level, "request failed")`, "request failed", "", "no field next"},
		{"// No next: it is over.\n\tlog.Error(\"request failed\")", "request failed", "", ""},
		{"// Fields: a.\n\tlog.Warn(\"request failed\", append(list, \"a\", 1)...)", "request failed", "a", "no field next"},
		{"// Fields: a.\n\tlog.Warn(\"request failed\", append(list, \"next\", \"wait\")...)", "request failed", "a", ""},
		{"list = append(list, \"next\", \"wait\")\n\t// Fields: a.\n\tlog.Warn(\"request failed\", list...)", "request failed", "a", ""},
		{`log.Warn("import failed: the rows wait")`, "import failed: the rows wait", "", "is a sentence"},
		{`log.Warn("a very long event that says all that there is to say about it")`, "a very long event that says all that there is to say about it", "", "is a sentence"},
		{`log.Info("import failed", "error", err)`, "import failed", "error", "field cause"},
		{`log.Error("Import failed")`, "Import failed", "", "small letter"},
		{`log.Warn(text)`, "", "", "no constant"},
		{"// Events: upload failed, import failed.\n\tlog.Info(step + \" failed\")", "upload failed", "", ""},
		{"// Events: upload ended.\n\tlog.Warn(step + \" failed\")", "upload ended", "", "no constant"},
		{`log.Warn("import failed", list...)`, "import failed", "…", "in a slice"},
		{`w.Warn("import failed")`, "", "", "cannot tell"},
	} {
		tr := &tree{fset: token.NewFileSet(), texts: map[string]string{}, paths: map[string]bool{}}
		parsed, err := parser.ParseFile(tr.fset, "a.go", "package a\n\nimport \"log/slog\"\n\nfunc f() {\n\t"+tt.code+"\n}\n", parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		tr.files = []*file{{path: "a.go", dir: ".", ast: parsed}}
		calls := tr.logCalls()
		if len(calls) == 0 {
			t.Errorf("%s is not found", tt.code)
			continue
		}
		c := calls[len(calls)-1]
		got := c.breach()
		if c.text != tt.event || strings.Join(c.fields, " ") != tt.fields || (got == "") != (tt.problem == "") || !strings.Contains(got, tt.problem) {
			t.Errorf("%s is %q with %v: %q, want %q", tt.code, c.text, c.fields, got, tt.problem)
		}
	}
}
