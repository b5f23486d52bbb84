package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay/forebay/internal/program/duration"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/trigger"
)

// mistake is one thing that is wrong with a configuration file. It shows no value of an environment variable.
type mistake struct {
	line, col int
	text      string
}

// decoder reads the nodes of a file into structs, by the names of their json tags. It continues after a mistake.
type decoder struct {
	getenv   func(string) (string, bool)
	mistakes []mistake
	// nodes are the values that were read, by their path, such as sources[0].id.
	nodes map[string]*yaml.Node
	// written is the text of scalars with variables, before they were replaced. Keys keep their text.
	written map[*yaml.Node]string
	// values maps the value of a variable, or of a scalar with variables, to the text of the file.
	values map[string]string
	// budget is the cost of the nodes that may still be read. A node costs again for each alias that leads to it.
	budget int
}

// maxAliased is the greatest cost of the nodes that aliases add to a file.
const maxAliased = 100_000

// cost is one for a node, and more for a long text.
func cost(n *yaml.Node) int { return 1 + len(n.Value)/100 }

// spend takes a node from the budget. It reports a mistake when the budget is used up, and returns false from then on.
func (d *decoder) spend(n *yaml.Node) bool {
	before := d.budget
	if d.budget -= cost(n); before >= 0 && d.budget < 0 {
		d.report(n, "the aliases of the file make it too large: write the repeated parts out, or use fewer")
	}
	return d.budget >= 0
}

// spendAll takes n and all nodes below it from the budget. open has the nodes above n.
func (d *decoder) spendAll(n *yaml.Node, open map[*yaml.Node]bool) bool {
	n = follow(n)
	if open[n] { // the aliases go in a circle
		return true
	}
	if !d.spend(n) {
		return false
	}
	open[n] = true
	defer delete(open, n)
	for _, c := range n.Content {
		if !d.spendAll(c, open) {
			return false
		}
	}
	return true
}

// follow returns the node that an alias stands for, or n.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (d *decoder) report(n *yaml.Node, format string, args ...any) {
	d.mistakes = append(d.mistakes, mistake{n.Line, n.Column, fmt.Sprintf(format, args...)})
}

// variable is ${NAME}; $${ is a plain ${.
var variable = regexp.MustCompile(`\$?\$\{[^}]*\}?`)

var variableName = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// substitute replaces the variables in all scalars below n, and adds the nodes to the budget. Variables in keys are mistakes, because
// messages show keys.
func (d *decoder) substitute(n *yaml.Node, isKey bool) {
	defer func() { d.budget += cost(n) }()
	for i, c := range n.Content {
		d.substitute(c, n.Kind == yaml.MappingNode && i%2 == 0)
	}
	if n.Kind != yaml.ScalarNode || !strings.Contains(n.Value, "${") {
		return
	}
	written := n.Value
	if !isKey {
		d.written[n] = written
		defer func() { d.values[n.Value] = written }()
	}
	n.Value = variable.ReplaceAllStringFunc(n.Value, func(text string) string {
		if strings.HasPrefix(text, "$$") {
			return text[1:]
		}
		if isKey {
			if _, reported := d.written[n]; !reported {
				d.written[n] = written
				d.report(n, "a key must not be a variable: write the key itself")
			}
			return text
		}
		m := variableName.FindStringSubmatch(text)
		if m == nil {
			d.report(n, "%s is no variable: write ${NAME}, or $${ for the characters themselves", text)
			return ""
		}
		value, ok := d.getenv(m[1])
		if !ok || value == "" {
			d.report(n, "the environment variable %s is not set: set it before the start, for example with export %[1]s=…", m[1])
		}
		d.values[value] = text
		return value
	})
}

// hide replaces the values of variables in a message by the text of the file. Values of less than four characters are replaced in
// quotes only because they are parts of other words.
func (d *decoder) hide(text string) string {
	values := slices.SortedFunc(maps.Keys(d.values), func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	var pairs []string // the longest first, because it may have others in it
	for _, value := range values {
		quoted, written := strconv.Quote(value), d.values[value]
		if value == "" {
			continue
		}
		pairs = append(pairs, quoted, strconv.Quote(written))
		if len(value) >= 4 {
			pairs = append(pairs, value, written, quoted[1:len(quoted)-1], written)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// hasVariable reports whether a single value, or one of a list, had a variable.
func (d *decoder) hasVariable(n *yaml.Node) bool {
	_, ok := d.written[n]
	return ok || slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return d.written[follow(c)] != "" })
}

// shown is the text of a scalar for a message.
func (d *decoder) shown(n *yaml.Node) string {
	if text, ok := d.written[n]; ok {
		return text
	}
	return n.Value
}

// kindOfNode describes a node in the words of a user.
func kindOfNode(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a list of keys"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return "a single value"
}

// pairs yields the keys of a mapping, and reports duplicate keys.
func (d *decoder) pairs(n *yaml.Node, at string, visit func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.report(n, "%s must have keys with values, it is %s", cmp.Or(last(at), "the file"), kindOfNode(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := follow(n.Content[i]), n.Content[i+1]
		if !d.spend(key) {
			return
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			d.report(n.Content[i], "a key must be a single value, it is %s", kindOfNode(key))
			continue
		case d.hasVariable(key):
			if key != n.Content[i] { // others were reported
				d.report(n.Content[i], "a key must not be a variable: write the key itself")
			}
			continue
		case key.Tag == "!!merge":
			d.report(key, "<< is not supported: write out the keys that it would merge, or give an alias to a whole value")
			continue
		}
		if line, ok := seen[key.Value]; ok {
			d.report(key, "%q comes twice, first in line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, value)
	}
}

// restOfDecimal matches the end of {dataType: decimal(10,2)}, which YAML takes for a key.
var restOfDecimal = regexp.MustCompile(`^\s*\d+\s*\)$`)

// unknownKey reports a key that does not exist, with the likely intended key if there is one.
func (d *decoder) unknownKey(key *yaml.Node, known []string) {
	if restOfDecimal.MatchString(key.Value) {
		d.report(key, "a comma inside { } ends a value: quote it, as in dataType: \"decimal(10,2)\"")
		return
	}
	if near := flagtext.Nearest(key.Value, known); near != "" {
		d.report(key, "unknown key %q; do you mean %q?", key.Value, near)
		return
	}
	slices.Sort(known)
	d.report(key, "unknown key %q; there are %s", key.Value, strings.Join(known, ", "))
}

// byteSize is a size such as 5MB.
type byteSize int64

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
	sizeType     = reflect.TypeFor[byteSize]()
	rawType      = reflect.TypeFor[json.RawMessage]()
)

// maxDepth ends the reading of a file whose aliases go in circles.
const maxDepth = 20

// into reads a node into v, whose path is at.
func (d *decoder) into(n *yaml.Node, v reflect.Value, at string, depth int) {
	n = follow(n)
	if depth >= maxDepth {
		d.report(n, "%s is nested too deep", last(at))
		return
	}
	switch {
	case v.Kind() == reflect.Pointer: // its target is counted
	case v.Type() == rawType && !d.spendAll(n, map[*yaml.Node]bool{}), v.Type() != rawType && !d.spend(n):
		return
	}
	d.nodes[at] = n
	switch v.Type() {
	case rawType:
		var value any
		err := n.Decode(&value)
		if err == nil {
			var text []byte
			if text, err = json.Marshal(value); err == nil {
				v.SetBytes(text)
			}
		}
		if err != nil {
			d.report(n, "%s has no form in JSON", last(at))
		}
		return
	case durationType, timeType, sizeType:
		d.scalar(n, v, at)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		fields := map[string][]int{}
		for _, f := range reflect.VisibleFields(v.Type()) {
			if name := keyOf(f); name != "" {
				fields[name] = f.Index
			}
		}
		d.pairs(n, at, func(key, value *yaml.Node) {
			index, ok := fields[key.Value]
			if !ok {
				d.unknownKey(key, keysOf(v.Type()))
				return
			}
			d.into(value, v.FieldByIndex(index), join(at, key.Value), depth+1)
		})
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.into(n, v.Elem(), at, depth)
	case reflect.Map: // of texts as keys
		v.Set(reflect.MakeMap(v.Type()))
		d.pairs(n, at, func(key, value *yaml.Node) {
			element := reflect.New(v.Type().Elem()).Elem()
			d.into(value, element, join(at, key.Value), depth+1)
			v.SetMapIndex(reflect.ValueOf(key.Value), element)
		})
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.report(n, "%s must be a list, it is %s", last(at), kindOfNode(n))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, c := range n.Content {
			d.into(c, v.Index(i), fmt.Sprintf("%s[%d]", at, i), depth+1)
		}
	default:
		d.scalar(n, v, at)
	}
}

// scalar reads a single value.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, at string) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.report(n, "%s must be a single value, it is %s", last(at), kindOfNode(n))
		return
	}
	var err error
	want := ""
	switch v.Interface().(type) {
	case time.Duration:
		var value time.Duration
		want = "a duration such as 30s, 5m or 30d"
		value, err = duration.Parse(n.Value)
		v.SetInt(int64(value))
	case time.Time:
		var value time.Time
		want = "a time such as 2026-11-22T12:00:00Z"
		value, err = time.Parse(time.RFC3339, n.Value)
		v.Set(reflect.ValueOf(value))
	case byteSize:
		var value int64
		want = "a size such as 5MB"
		value, err = trigger.ParseSize(n.Value)
		v.SetInt(value)
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(n.Value)
		case reflect.Bool:
			var value bool
			want = "true or false"
			value, err = strconv.ParseBool(n.Value)
			v.SetBool(value)
		case reflect.Int, reflect.Int64:
			var value int64
			want = "a whole number"
			value, err = strconv.ParseInt(n.Value, 10, 64)
			v.SetInt(value)
		default:
			err, want = fmt.Errorf("type %s", v.Type()), "something else" // a field that the decoder does not know
		}
	}
	switch {
	case err != nil:
		d.report(n, "%s must be %s, it is %q", last(at), want, d.shown(n))
	case v.CanInt() && v.IsZero():
		d.report(n, "%s is %q, which would mean the default: leave it out, or give a different value", last(at), d.shown(n))
	}
}

// keyOf is the key of a field; "" if it has none.
func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// keysOf are the keys of a struct, in order.
func keysOf(t reflect.Type) (keys []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name := keyOf(f); name != "" {
			keys = append(keys, name)
		}
	}
	return keys
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// last is the end of a path, such as interval, or columns[2].
func last(at string) string { return at[strings.LastIndexByte(at, '.')+1:] }
