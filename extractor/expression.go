package extractor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/extractor/internal/function"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// Families of references. Each place of a configuration knows some of them. An object that names another family is
// plain data there.
const (
	familyAttr        = "attr"
	familyTime        = "time"
	familyResponse    = "response"
	familyPlaceholder = "placeholder"
	familyUser        = "user"
	familyConsumer    = "consumer"
)

// An expression is a value of the configuration, compiled. Unknown functions, wrong numbers of arguments and attributes
// that do not exist were refused when the configuration was read.
type expression struct {
	path string
	// Exactly one of these: a literal, a reference, a call, an object, a list.
	literal      tree.Node
	family, name string
	function     *function.Function
	members      []member
	form         form
}

type form uint8

const (
	literalForm form = iota
	referenceForm
	callForm
	objectForm
	listForm
)

type member struct {
	key   string
	value *expression
}

// A place says what an expression may refer to.
type place struct {
	p        *problems
	families []string
	// attrs are the attributes of the run, by dotted path.
	attrs map[string]tree.Node
	// granted are the values of the families user and consumer.
	granted granted
	// urlencode may be called in placeholders only.
	placeholders bool
	// signed places come after the signature of a request, and may refer to it.
	signed bool
	// format is the format of jobs without their own.
	format answerFormat
}

// compile reads the value of a header, a parameter or another member whose value may be an expression.
func (pl place) compile(n tree.Node, path string) *expression {
	e := &expression{path: path, literal: n}
	switch {
	case n.Kind() == tree.List && n.Len() > 0:
		e.form = listForm
		for i, m := range n.Members() {
			e.members = append(e.members, member{value: pl.compile(m.Value, index(path, i))})
		}
	case n.Kind() != tree.Object || n.Len() == 0:
		if n.Kind() == tree.Object { // {} and [] are the same in a configuration
			e.literal = tree.OfList()
		}
	default:
		if called, ok := n.Get("function"); ok {
			return pl.call(e, called)
		}
		if n.Len() == 1 && slices.Contains(pl.families, n.Members()[0].Key) {
			return pl.reference(e, n.Members()[0])
		}
		e.form = objectForm
		for _, m := range n.Members() {
			e.members = append(e.members, member{m.Key, pl.compile(m.Value, join(path, m.Key))})
		}
	}
	return e
}

func (pl place) reference(e *expression, m tree.Member) *expression {
	path := join(e.path, m.Key)
	if m.Value.IsCollection() || m.Value.Kind() == tree.Null {
		pl.p.add(path, "must be the name of a value, not %s", m.Value.Kind().Phrase())
		return e
	}
	e.form, e.family, e.name = referenceForm, m.Key, m.Value.Text()
	switch e.family {
	case familyAttr:
		if found, ok := pl.attrs[e.name]; !ok || found.Kind() == tree.Null {
			pl.p.add(path, "there is no attribute %q with a value in config", e.name)
		}
	case familyUser, familyConsumer:
		if n, ok := pl.granted[e.family][e.name]; !ok || n.Kind() == tree.Null {
			pl.p.add(path, "there is no value %q of the %s in authorization.oauth_api.credentials", e.name, e.family)
		}
	case familyTime:
		if e.name != "previousStart" && e.name != "currentStart" {
			pl.p.add(path, "must be previousStart or currentStart")
		}
	case familyIncremental:
		if e.name != "start" {
			pl.p.add(path, "must be start")
		}
	case familyWindow:
		if e.name != "from" && e.name != "to" && e.name != "last" {
			pl.p.add(path, "must be from, to or last")
		}
	case familyRequest:
		if !slices.Contains(requestValues, e.name) && (!pl.signed || e.name != "signature") {
			pl.p.add(path, "unknown value %q of a request; known are %s", e.name, strings.Join(requestValues, ", "))
		}
	}
	return e
}

func (pl place) call(e *expression, called tree.Node) *expression {
	at := join(e.path, "function")
	f, ok := function.Lookup(called.Text())
	switch {
	case called.Kind() != tree.String:
		pl.p.add(at, "must be the name of a function, not %s", called.Kind().Phrase())
		return e
	case !ok:
		pl.p.add(at, "unknown function %q; known are %s", called.Text(), strings.Join(function.Names(), ", "))
		return e
	case f.PlaceholdersOnly && !pl.placeholders:
		pl.p.add(at, "function %s can be called in placeholders only", f.Name)
	}
	e.form, e.function = callForm, f
	args, _ := e.literal.Get("args")
	path := join(e.path, "args")
	if !args.IsCollection() && args.Kind() != tree.Null {
		pl.p.add(path, "must be a list, not %s", args.Kind().Phrase())
	}
	for i, m := range args.Members() {
		e.members = append(e.members, member{value: pl.compile(m.Value, index(path, i))})
	}
	if err := f.CheckArgs(len(e.members)); err != nil {
		pl.p.add(path, "%v", err)
	}
	return e
}

// secret reports whether the value is, or is computed from, an attribute whose name begins with '#', the response of a login, or
// a value that a user granted.
func (e *expression) secret() bool {
	if e.form == referenceForm {
		switch e.family {
		case familyResponse, familyUser:
			return true
		case familyConsumer:
			return e.name == clientSecret
		}
		return e.family == familyAttr && secretPath(e.name)
	}
	return slices.ContainsFunc(e.members, func(m member) bool { return m.value.secret() })
}

// secretPath reports whether a key on a dotted path begins with '#'.
func secretPath(path string) bool {
	return strings.HasPrefix(path, "#") || strings.Contains(path, ".#")
}

// scope holds the values that expressions can refer to.
type scope struct {
	now    time.Time
	values map[string]map[string]tree.Node // by family and dotted path
	// found learns every value that is secret.
	found *redactor
}

// leaves returns the leaves of a value by their dotted paths.
func leaves(n tree.Node) map[string]tree.Node {
	found := make(map[string]tree.Node)
	n.Leaves(func(path string, leaf tree.Node) { found[path] = leaf })
	return found
}

var errNotFound = errors.New("not found")

// eval computes the value. Errors are of type *ValueError.
func (e *expression) eval(s *scope) (tree.Node, error) {
	n, err := e.evaluate(s)
	if err == nil && s.found != nil && e.secret() {
		s.found.addNode(n)
	}
	return n, err
}

func (e *expression) evaluate(s *scope) (tree.Node, error) {
	switch e.form {
	case literalForm:
		return e.literal, nil
	case referenceForm:
		n, ok := s.values[e.family][e.name]
		if !ok || n.Kind() == tree.Null {
			return n, &ValueError{e.path, fmt.Errorf("no value %q in %s: %w", e.name, e.family, errNotFound)}
		}
		return n, nil
	}
	values := make([]tree.Node, 0, len(e.members))
	for _, m := range e.members {
		v, err := m.value.evaluate(s)
		if err != nil {
			return v, err
		}
		values = append(values, v)
	}
	switch e.form {
	case callForm:
		n, err := e.function.Call(values, s.now)
		if err != nil {
			return n, &ValueError{e.path, err}
		}
		return n, nil
	case listForm:
		return tree.OfList(values...), nil
	}
	members := make([]tree.Member, len(values))
	for i, v := range values {
		members[i] = tree.Member{Key: e.members[i].key, Value: v}
	}
	return tree.OfObject(members...), nil
}

// An expressionMap is a set of named values: headers or parameters.
type expressionMap []member

// compileMap reads an object of named expressions.
func (pl place) compileMap(s *section, key string) expressionMap {
	below := s.section(key)
	if below == nil {
		return nil
	}
	var out expressionMap
	for _, m := range below.node.Named().Members() {
		out = append(out, member{m.Key, pl.compile(m.Value, below.at(m.Key))})
	}
	return out
}

// compileHeaders is compileMap for values that must become text.
func (pl place) compileHeaders(s *section, key string) expressionMap {
	out := pl.compileMap(s, key)
	for _, m := range out {
		literal := m.value.form == literalForm
		if m.value.form == objectForm || m.value.form == listForm || literal && m.value.literal.IsCollection() {
			pl.p.add(m.value.path, "the value of a header must be text, or an expression of %s",
				strings.Join(pl.families, ", "))
		}
	}
	return out
}

// eval computes all values in order.
func (em expressionMap) eval(s *scope) (tree.Node, error) {
	members := make([]tree.Member, 0, len(em))
	for _, m := range em {
		v, err := m.value.eval(s)
		if err != nil {
			return v, err
		}
		members = append(members, tree.Member{Key: m.key, Value: v})
	}
	return tree.OfObject(members...), nil
}

// headers computes all values as texts of headers.
func (em expressionMap) headers(s *scope) ([]header, error) {
	values, err := em.eval(s)
	if err != nil {
		return nil, err
	}
	out := make([]header, 0, len(em))
	for i, m := range values.Members() {
		if m.Value.IsCollection() {
			return nil, &ValueError{em[i].value.path, fmt.Errorf("the value of a header became %s", m.Value.Kind().Phrase())}
		}
		// A login whose response is a line of text leaves the line's end in the value.
		text := strings.TrimRight(m.Value.Text(), "\r\n")
		if strings.ContainsAny(text, "\r\n\x00") {
			return nil, &ValueError{em[i].value.path, errors.New("the value of a header contains a line break")}
		}
		out = append(out, header{m.Key, text})
	}
	return out, nil
}
