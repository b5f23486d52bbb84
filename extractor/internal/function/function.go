// Package function has the functions that a configuration may call in value expressions.
package function

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/extractor/internal/datetext"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// A Function is one function. Call it only with a number of arguments that CheckArgs takes.
type Function struct {
	// Name as it is written in a configuration.
	Name string
	// PlaceholdersOnly functions may be called for placeholders of child jobs alone.
	PlaceholdersOnly bool

	least, most int // arguments, and most is -1 when there is no bound
	call        func(c *evaluation) tree.Node
}

// Lookup finds a function by its name.
func Lookup(name string) (*Function, bool) {
	f, ok := functions[name]
	return f, ok
}

// Names returns the names of all functions, sorted.
func Names() []string { return slices.Sorted(maps.Keys(functions)) }

// CheckArgs reports a wrong number of arguments.
func (f *Function) CheckArgs(n int) error {
	switch {
	case n >= f.least && (f.most < 0 || n <= f.most):
		return nil
	case f.least == f.most:
		return fmt.Errorf("function %s takes exactly %d arguments, not %d", f.Name, f.least, n)
	case f.most < 0:
		return fmt.Errorf("function %s takes at least %d arguments, not %d", f.Name, f.least, n)
	}
	return fmt.Errorf("function %s takes %d to %d arguments, not %d", f.Name, f.least, f.most, n)
}

// Call computes the function at a time. Errors name the function and the argument, and never show a value.
func (f *Function) Call(args []tree.Node, now time.Time) (tree.Node, error) {
	if err := f.CheckArgs(len(args)); err != nil {
		return tree.Node{}, err
	}
	c := &evaluation{args: args, now: now}
	result := f.call(c)
	if c.err != nil {
		return tree.Node{}, fmt.Errorf("function %s: %w", f.Name, c.err)
	}
	return result, nil
}

// An evaluation is one call of a function. The first error stays.
type evaluation struct {
	args []tree.Node
	now  time.Time
	err  error
}

func (c *evaluation) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// text returns argument i as text.
func (c *evaluation) text(i int) string {
	if c.args[i].IsCollection() {
		c.fail("argument %d must be text, not %s", i+1, c.args[i].Kind().Phrase())
	}
	return c.args[i].Text()
}

// time returns argument i, Unix seconds, as a time. Without it that is the time of the call. The false of a date that was
// not understood is 0.
func (c *evaluation) time(i int) time.Time {
	if i >= len(c.args) {
		return c.now
	}
	arg := c.args[i]
	if n, ok := arg.Number(); ok {
		arg = n
	} else if arg.Kind() != tree.Bool {
		c.fail("argument %d must be a number of seconds", i+1)
	}
	return time.Unix(arg.Cut(), 0)
}

func hexText(sum []byte) tree.Node { return tree.OfString(hex.EncodeToString(sum)) }

var functions = index(
	&Function{Name: "md5", least: 1, most: 1, call: func(c *evaluation) tree.Node {
		sum := md5.Sum([]byte(c.text(0)))
		return hexText(sum[:])
	}},
	&Function{Name: "sha1", least: 1, most: 1, call: func(c *evaluation) tree.Node {
		sum := sha1.Sum([]byte(c.text(0)))
		return hexText(sum[:])
	}},
	&Function{Name: "hash", least: 2, most: 2, call: hashOf},
	&Function{Name: "hash_hmac", least: 3, most: 3, call: hmacOf},
	&Function{Name: "base64_encode", least: 1, most: 1, call: func(c *evaluation) tree.Node {
		return tree.OfString(base64.StdEncoding.EncodeToString([]byte(c.text(0))))
	}},
	&Function{Name: "time", call: func(c *evaluation) tree.Node { return tree.OfInt(c.now.Unix()) }},
	&Function{Name: "date", least: 1, most: 2, call: func(c *evaluation) tree.Node {
		return tree.OfString(datetext.Format(c.time(1), c.text(0)))
	}},
	&Function{Name: "strtotime", least: 1, most: 2, call: func(c *evaluation) tree.Node {
		at, ok := datetext.Parse(c.text(0), c.time(1))
		if !ok {
			return tree.OfBool(false)
		}
		return tree.OfInt(at.Unix())
	}},
	&Function{Name: "sprintf", least: 1, most: -1, call: sprintf},
	&Function{Name: "concat", most: -1, call: func(c *evaluation) tree.Node {
		var b strings.Builder
		for i := range c.args {
			b.WriteString(c.text(i))
		}
		return tree.OfString(b.String())
	}},
	&Function{Name: "implode", least: 2, most: 2, call: implode},
	&Function{Name: "ifempty", least: 2, most: 2, call: func(c *evaluation) tree.Node {
		if c.args[0].Empty() {
			return c.args[1]
		}
		return c.args[0]
	}},
	&Function{Name: "urlencode", least: 1, most: 1, PlaceholdersOnly: true, call: func(c *evaluation) tree.Node {
		return tree.OfString(EncodeForm(c.text(0)))
	}},
)

func index(all ...*Function) map[string]*Function {
	m := make(map[string]*Function, len(all))
	for _, f := range all {
		m[f.Name] = f
	}
	return m
}

func implode(c *evaluation) tree.Node {
	list := c.args[1]
	if list.Kind() != tree.List {
		c.fail("argument 2 must be a list, not %s", list.Kind().Phrase())
		return tree.Node{}
	}
	texts := make([]string, 0, list.Len())
	for i, m := range list.Members() {
		if m.Value.IsCollection() {
			c.fail("item %d of the list must be text, not %s", i, m.Value.Kind().Phrase())
		}
		texts = append(texts, m.Value.Text())
	}
	return tree.OfString(strings.Join(texts, c.text(0)))
}

// EncodeForm encodes a name or value of a form or query: everything but letters, digits, "-", "_" and ".", and "+" for
// a space.
func EncodeForm(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "~", "%7E") }
