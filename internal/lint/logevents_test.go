package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logCall is a call of a *slog.Logger.
type logCall struct {
	at, dir, level, text string
	fields               []string
	next                 string
	// problem is why the call cannot be in the reference; empty if it can.
	problem string
}

// logMethods are the methods of *slog.Logger that log, with the number of arguments before the message.
var logMethods = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2,
}

// loggerName is the last name of an expression that is a logger.
var loggerName = regexp.MustCompile(`^(?:l|log|logger|Log|Logger)$`)

// logCalls returns all calls of loggers in the packages that people run: not in tests, examples and tools of this repository.
func (t *tree) logCalls() (calls []logCall) {
	for _, f := range t.files {
		if f.test || f.kit() || f.room() == "examples" || f.room() == "bench" || path.Base(f.dir) == "bench" || strings.HasPrefix(f.dir, "internal/soak") {
			continue
		}
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
			if !ok || !loggerName.MatchString(lastName(method.X)) || len(call.Args) <= first {
				return true
			}
			if id, ok := method.X.(*ast.Ident); ok && id.Name == f.localName("log") {
				return true
			}
			c := logCall{at: t.at(call.Pos()), dir: f.dir, level: strings.TrimSuffix(method.Sel.Name, "Context")}
			if first == 2 {
				c.level = levelOf(call.Args[1])
			}
			c.text, ok = t.constant(f, call.Args[first])
			if !ok {
				c.problem = "the message is no constant"
			}
			t.readFields(f, &c, call.Args[first+1:])
			calls = append(calls, c)
			return true
		})
	}
	slices.SortFunc(calls, func(a, b logCall) int { return cmp.Or(strings.Compare(a.text, b.text), strings.Compare(a.at, b.at)) })
	return calls
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

// levelOf returns the name of a level: slog.LevelError is Error. A variable may be any level.
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

// readFields reads the names of fields: of pairs, and of calls such as slog.Any("cause", err).
func (t *tree) readFields(f *file, c *logCall, args []ast.Expr) {
	for i := 0; i < len(args); i++ {
		if call, ok := args[i].(*ast.CallExpr); ok && len(call.Args) == 2 {
			if name, ok := t.constant(f, call.Args[0]); ok {
				c.fields = append(c.fields, name)
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
			c.next, _ = t.constant(f, args[i])
		}
	}
}

func TestLogEventsList(t *testing.T) {
	tr := loadTree(t)
	for _, c := range tr.logCalls() {
		fmt.Printf("%s\t%s\t%s\t%s\t%s\n", c.at, c.level, c.text, strings.Join(c.fields, " "), c.problem)
	}
}
