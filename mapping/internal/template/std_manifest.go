//go:build !forebay_notemplates

package template

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// stdManifest are the functions that write values in other languages.
func stdManifest() map[string]goFunction {
	return map[string]goFunction{
		"manifestJsonEx":  {params: []string{"value", "indent", "newline?", "key_val_sep?"}, run: (*machine).stdManifestJSONEx},
		"manifestYamlDoc": {params: []string{"value", "indent_array_in_object?", "quote_keys?"}, run: (*machine).stdManifestYAMLDoc},
		"manifestTomlEx":  {params: []string{"value", "indent"}, run: (*machine).stdManifestTOMLEx},
	}
}

// printer writes a value with indents. It accounts for its output, since indents grow with the depth.
type printer struct {
	m      *machine
	indent string
	b      []byte
	spent  int
}

func (p *printer) write(parts ...string) {
	for _, s := range parts {
		p.b = append(p.b, s...)
	}
	if n := len(p.b) - p.spent; n >= 256 {
		p.m.alloc(n)
		p.m.step(n >> 6)
		p.spent = len(p.b)
	}
}

// list writes n items with a text between each two of them.
func (p *printer) list(n int, open, between, end string, item func(i int)) {
	p.write(open)
	for i := range n {
		if i > 0 {
			p.write(between)
		}
		item(i)
	}
	p.write(end)
}

func (p *printer) done() value {
	p.m.alloc(len(p.b) - p.spent)
	return text(tape.AsString(p.b))
}

// plainNumber is the form of a number in manifestJsonEx and manifestYamlDoc, never with an exponent.
func (m *machine) plainNumber(v value) string {
	if v.str != "" {
		return v.str
	}
	return strconv.FormatFloat(v.num, 'f', -1, 64)
}

// goJSON is the form of a string in manifestJsonEx, as encoding/json writes it.
func goJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (m *machine) stdManifestJSONEx(a []value) value {
	p := &printer{m: m, indent: m.string(a[1])}
	newline, sep := m.string(a[2]), m.string(a[3])
	between := "," + newline
	var put func(v value, indent string)
	put = func(v value, indent string) {
		m.enter(1)
		defer m.leave(1)
		switch v.kind {
		case kindNumber:
			p.write(m.plainNumber(v))
		case kindString:
			p.write(goJSON(v.str))
		case kindArray:
			elems, inner := m.array(v), indent+p.indent
			p.list(len(elems), "["+newline, between, newline+indent+"]", func(i int) {
				p.write(inner)
				put(m.forceAt(&elems[i]), inner)
			})
		case kindObject:
			o, inner := v.ref.(*object), indent+p.indent
			names := m.fieldNames(o, false)
			p.list(len(names), "{"+newline, between, newline+indent+"}", func(i int) {
				p.write(inner, goJSON(names[i]), sep)
				put(m.get(o, 0, names[i]), inner)
			})
		case kindFunction:
			m.fail("tried to manifest a function")
		default:
			p.write(m.toString(v))
		}
	}
	put(a[0], "")
	return p.done()
}

var (
	yamlReserved = []string{
		"true", "false", "yes", "no", "on", "off", "y", "n", ".nan", "-.inf", "+.inf", ".inf", "null", "-", "---", "''",
	}
	yamlTimestamp = regexp.MustCompile(`^(?:[0-9]*-){2}[0-9]*$`)
	yamlBinary    = regexp.MustCompile(`^[-+]?0b[0-1_]+$`)
	yamlHex       = regexp.MustCompile(`[-+]?0x[0-9a-fA-F_]+`)
)

// yamlBare reports whether a key needs no quotes.
func yamlBare(s string) bool {
	if strings.ContainsFunc(s, func(c rune) bool { return !bareTOML(c) && c != '/' && c != '.' }) ||
		slices.ContainsFunc(yamlReserved, func(r string) bool { return strings.EqualFold(s, r) }) {
		return false
	}
	if s == "" || yamlTimestamp.MatchString(s) || yamlBinary.MatchString(s) || yamlHex.MatchString(s) {
		return false
	}
	if _, err := strconv.Atoi(s); err == nil {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err != nil
}

func (m *machine) stdManifestYAMLDoc(a []value) value {
	const indent = "  "
	p := &printer{m: m}
	indentArrays, quoteKeys := m.boolean(a[1]), m.boolean(a[2])
	var put func(v value, at string)
	put = func(v value, at string) {
		m.enter(1)
		defer m.leave(1)
		switch v.kind {
		case kindNumber:
			p.write(m.plainNumber(v))
		case kindString:
			switch s := v.str; {
			case s == "":
				p.write(`""`)
			case strings.HasSuffix(s, "\n"):
				p.write("|")
				for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
					p.write("\n", at, indent, line)
				}
			default:
				p.write(tape.AsString(appendQuotedText(nil, s)))
			}
		case kindArray:
			elems := m.array(v)
			if len(elems) == 0 {
				p.write("[]")
			}
			p.list(len(elems), "", "\n"+at, "", func(i int) {
				el := m.forceAt(&elems[i])
				inner := at
				if el.kind == kindArray || el.kind == kindObject {
					inner += indent
				}
				if el.kind == kindArray && m.length(el) > 0 {
					p.write("-\n", at, indent)
				} else {
					p.write("- ")
				}
				put(el, inner)
			})
		case kindObject:
			o := v.ref.(*object)
			names := m.fieldNames(o, false)
			if len(names) == 0 {
				p.write("{}")
			}
			p.list(len(names), "", "\n"+at, "", func(i int) {
				name := names[i]
				val := m.get(o, 0, name)
				if quoteKeys || !yamlBare(name) {
					p.write(tape.AsString(appendQuotedText(nil, name)))
				} else {
					p.write(name)
				}
				inner := at
				switch {
				case val.kind == kindArray && m.length(val) > 0:
					p.write(":\n", at)
					if indentArrays {
						p.write(indent)
						inner += indent
					}
				case val.kind == kindObject && len(m.fieldNames(val.ref.(*object), false)) > 0:
					inner += indent
					p.write(":\n", inner)
				default:
					p.write(": ")
				}
				put(val, inner)
			})
		case kindNull, kindBool:
			p.write(m.toString(v))
		}
	}
	put(a[0], "")
	return p.done()
}

func (m *machine) stdManifestTOMLEx(a []value) value {
	p := &printer{m: m, indent: m.string(a[1])}
	if a[0].kind != kindObject {
		m.fail("TOML body must be an object, got %s", kindNames[a[0].kind])
	}
	p.tomlTable(a[0].ref.(*object), nil, "")
	return p.done()
}

func bareTOML(c rune) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func tomlKey(s string) string {
	if s == "" {
		return "''"
	}
	for _, c := range s {
		if !bareTOML(c) {
			return string(appendQuotedText(nil, s))
		}
	}
	return s
}

// tomlSection reports whether a value is a table, or an array of tables.
func (p *printer) tomlSection(v value) bool {
	if v.kind != kindArray {
		return v.kind == kindObject
	}
	elems := p.m.array(v)
	for i := range elems {
		if p.m.forceAt(&elems[i]).kind != kindObject {
			return false
		}
	}
	return len(elems) > 0
}

// tomlTable writes a table in two passes, first its values, then its sections.
func (p *printer) tomlTable(o *object, path []string, indent string) {
	m := p.m
	m.enter(1)
	names := m.fieldNames(o, false)
	first := true
	for _, name := range names {
		v := m.get(o, 0, name)
		if p.tomlSection(v) {
			continue
		}
		if !first {
			p.write("\n")
		}
		first = false
		p.write(indent, tomlKey(name), " = ")
		p.tomlInline(v, indent, false)
	}
	for _, name := range names {
		v := m.get(o, 0, name)
		if !p.tomlSection(v) {
			continue
		}
		inner := append(slices.Clip(path), name)
		if v.kind == kindObject {
			p.write("\n\n", indent, "[", joinKeys(inner), "]")
			p.tomlBody(v.ref.(*object), inner, indent)
			continue
		}
		elems := m.array(v)
		for i := range elems {
			p.write("\n\n", indent, "[[", joinKeys(inner), "]]")
			p.tomlBody(elems[i].ref.(*object), inner, indent)
		}
	}
	m.leave(1)
}

func (p *printer) tomlBody(o *object, path []string, indent string) {
	if len(p.m.fieldNames(o, false)) > 0 {
		p.write("\n")
	}
	p.tomlTable(o, path, indent+p.indent)
}

func joinKeys(path []string) string {
	keys := make([]string, len(path))
	for i, k := range path {
		keys[i] = tomlKey(k)
	}
	return strings.Join(keys, ".")
}

// tomlInline writes a value after its key. An array that is not inside another value takes a line for each element.
func (p *printer) tomlInline(v value, indent string, nested bool) {
	m := p.m
	m.enter(1)
	switch v.kind {
	case kindBool, kindNumber:
		if v.str == "" && math.IsInf(v.num, 0) {
			m.fail("overflow")
		}
		p.write(m.toString(v))
	case kindString:
		p.write(tape.AsString(appendQuotedText(nil, v.str)))
	case kindArray:
		elems := m.array(v)
		if len(elems) == 0 {
			p.write("[]")
			break
		}
		open, between, end := "[\n", ",\n", "\n"+indent+"]"
		lead := indent + p.indent
		if nested {
			open, between, end, lead = "[ ", ", ", " ]", ""
		}
		p.list(len(elems), open, between, end, func(i int) {
			p.write(lead)
			p.tomlInline(m.forceAt(&elems[i]), "", true)
		})
	case kindObject:
		o := v.ref.(*object)
		names := m.fieldNames(o, false)
		p.list(len(names), "{ ", ", ", " }", func(i int) {
			p.write(tomlKey(names[i]), " = ")
			p.tomlInline(m.get(o, 0, names[i]), "", true)
		})
	default:
		m.fail("a value of type %s cannot be written as TOML", kindNames[v.kind])
	}
	m.leave(1)
}
