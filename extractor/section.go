package extractor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// problems gathers the findings of the parser of a configuration.
type problems struct {
	wrong, unused []Problem
}

func (p *problems) add(path, format string, args ...any) {
	p.wrong = append(p.wrong, Problem{path, fmt.Sprintf(format, args...)})
}

// A section is an object of the configuration that is being read. done reports the keys that were never read.
// null counts as absent, and an empty list as an empty object.
type section struct {
	p    *problems
	node tree.Node
	path string
	used []string
}

func join(path, key string) string {
	if strings.ContainsAny(key, ".[]\" ") || key == "" {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// asSection reads a value as an object. It reports another kind and returns nil.
func asSection(p *problems, n tree.Node, path string) *section {
	if n.Kind() == tree.Object || n.Kind() == tree.List && n.Len() == 0 {
		return &section{p: p, node: n, path: path}
	}
	p.add(path, "must be an object, not %s", n.Kind().Phrase())
	return nil
}

func (s *section) at(key string) string { return join(s.path, key) }

func (s *section) get(key string) (tree.Node, bool) {
	s.used = append(s.used, key)
	n, ok := s.node.Get(key)
	return n, ok && n.Kind() != tree.Null
}

func (s *section) wrong(key, format string, args ...any) { s.p.add(s.at(key), format, args...) }

// section returns an object below, nil when it is absent or no object.
func (s *section) section(key string) *section {
	n, ok := s.get(key)
	if !ok {
		return nil
	}
	return asSection(s.p, n, s.at(key))
}

// object returns the members of an object below as a node, an empty one when it is absent or no object.
func (s *section) object(key string) tree.Node {
	if below := s.section(key); below != nil {
		return below.node.Named()
	}
	return tree.OfObject()
}

// text returns a string. A number is taken as its text.
func (s *section) text(key, byDefault string) string {
	n, ok := s.get(key)
	switch {
	case !ok:
		return byDefault
	case n.Kind() != tree.String && n.Kind() != tree.Int && n.Kind() != tree.Float:
		s.wrong(key, "must be a string, not %s", n.Kind().Phrase())
		return byDefault
	}
	return n.Text()
}

// required is text that must be there and not be empty.
func (s *section) required(key string) string {
	n, ok := s.get(key)
	if !ok || n.Kind() == tree.String && n.Str() == "" {
		s.wrong(key, "is required")
		return ""
	}
	return s.text(key, "")
}

// integer returns an integer, which may be written as a string.
func (s *section) integer(key string, byDefault int64) int64 {
	n, ok := s.get(key)
	if !ok {
		return byDefault
	}
	i, ok := n.Digits()
	if !ok {
		s.wrong(key, "must be an integer")
		return byDefault
	}
	return i
}

// natural is an integer that is not negative.
func (s *section) natural(key string, byDefault int64) int64 {
	i := s.integer(key, byDefault)
	if i < 0 {
		s.wrong(key, "must not be negative")
		return byDefault
	}
	return i
}

// boolean returns a boolean, which may be written as 0 or 1.
func (s *section) boolean(key string, byDefault bool) bool {
	n, ok := s.get(key)
	switch {
	case !ok:
		return byDefault
	case n.Kind() == tree.Bool:
		return n.Bool()
	case n.Kind() == tree.Int || n.Kind() == tree.String:
		switch n.Text() {
		case "0", "":
			return false
		case "1":
			return true
		}
	}
	s.wrong(key, "must be true or false")
	return byDefault
}

// list returns the items of a list, none when it is absent.
func (s *section) list(key string) []tree.Node {
	n, ok := s.get(key)
	if !ok {
		return nil
	}
	if n.Kind() != tree.List && (n.Kind() != tree.Object || n.Len() > 0) {
		s.wrong(key, "must be a list, not %s", n.Kind().Phrase())
		return nil
	}
	return list(n)
}

func (s *section) integers(key string, byDefault []int) []int {
	if _, ok := s.get(key); !ok {
		return byDefault
	}
	var out []int
	for i, item := range s.list(key) {
		n, ok := item.Digits()
		if !ok {
			s.p.add(index(s.at(key), i), "must be an integer")
		}
		out = append(out, int(n))
	}
	return out
}

// unsupported refuses settings of connections and certificates that do not exist here, because a run that ignored them would send
// its requests in another way than the configuration asks for. It looks for the keys with '#' too.
func (s *section) unsupported(keys ...string) {
	for _, key := range keys {
		for _, spelled := range []string{key, "#" + key} {
			if n, ok := s.get(spelled); ok && !n.Empty() && (n.Kind() != tree.Object || n.Len() > 0) {
				s.wrong(spelled, "is not supported: nothing is requested while it is set")
			}
		}
	}
}

// skip marks a key as known where its value does not matter.
func (s *section) skip(keys ...string) { s.used = append(s.used, keys...) }

// done reports the keys that were not asked for.
func (s *section) done() {
	for _, m := range s.node.Named().Members() {
		if !slices.Contains(s.used, m.Key) {
			s.p.unused = append(s.p.unused, Problem{s.at(m.Key), "unknown key, ignored"})
		}
	}
}
