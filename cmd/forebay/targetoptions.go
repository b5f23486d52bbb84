package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay/forebay/internal/program/server"
)

// targetOptions are options that one kind of target has, the value of -target-options, or the key of the file.
type targetOptions struct {
	// keepBy is the default of the option keepBy of a database.
	keepBy []string
	// indexes is the default of the option indexes of a database.
	indexes [][]string
	// orderBy is the default of the option orderBy of ClickHouse.
	orderBy []string
	// bloom is the default of the option bloom of Parquet and Iceberg.
	bloom []string
	// text is the value of the flag or of its variable.
	text string
	// node is the value of the file, and decoder has read it. They are nil if the file has none, or if a flag wins.
	node    *yaml.Node
	decoder *decoder
}

// targetOptions reads the key target-options of a file. Its keys are known once the target is.
func (d *decoder) targetOptions(n *yaml.Node, given map[string]bool, cfg *serveConfig) {
	const name = "target-options"
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		d.report(n, "%s must have keys with values, it is %s", name, kindOfNode(n))
		return
	}
	d.nodes[name] = n
	if given[name] || !d.spendAll(n, map[*yaml.Node]bool{}) {
		return
	}
	var value any
	_ = n.Decode(&value)                   // read reports errors
	cfg.fromFile[name] = fmt.Sprint(value) // in the order of the keys
	cfg.options.node, cfg.options.decoder = n, d
}

// read reads the options into a struct of keys. Nil means that the target has none. What is wrong in a file becomes a mistake of the file.
func (o targetOptions) read(keys any) (problems []error) {
	d, n := o.decoder, o.node
	if n == nil {
		if o.text == "" {
			return nil
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(o.text), &doc); err != nil || len(doc.Content) != 1 {
			return []error{server.WrongFlags("cannot be read: write YAML or JSON, such as '{lockTimeout: 5s}'", "target-options")}
		}
		d = &decoder{nodes: map[string]*yaml.Node{}, written: map[*yaml.Node]string{}, values: map[string]string{}, budget: maxAliased}
		n = doc.Content[0]
		defer func() {
			for _, m := range d.mistakes {
				problems = append(problems, server.WrongFlags("has a mistake: "+m.text, "target-options"))
			}
		}()
	}
	if keys == nil {
		if len(n.Content) > 0 {
			problems = append(problems, server.WrongFlags("has keys, but this target has no options: leave it out", "target-options"))
		}
		return problems
	}
	d.into(n, reflect.ValueOf(keys).Elem(), "target-options", 0)
	return problems
}

// wrong returns the problem with a key, or makes it a mistake of the file.
func (o targetOptions) wrong(key, format string, args ...any) []error {
	text := fmt.Sprintf(format, args...)
	if o.node == nil {
		return []error{server.WrongFlags("has a mistake: "+key+" "+text, "target-options")}
	}
	d := o.decoder
	n := d.near("target-options." + key)
	if d.hasVariable(n) {
		text = fmt.Sprintf("is %q: the value of the variable cannot be used", d.shown(n))
	}
	d.report(n, "%s %s", key, d.hide(text))
	return nil
}

// explain returns a driver's findings about an address and options. Its text names the field of an option first, after the name of the
// driver. showsValue is set if it may contain a part of the address.
func (f targetFlags) explain(err error, keys any, showsValue bool) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []error
		for _, err := range joined.Unwrap() {
			problems = append(problems, f.explain(err, keys, showsValue)...)
		}
		return problems
	}
	_, text, _ := strings.Cut(err.Error(), ": ")
	field, rest, _ := strings.Cut(text, " ")
	for _, key := range keysOf(reflect.TypeOf(keys).Elem()) {
		if strings.EqualFold(key, strings.TrimSuffix(field, ":")) {
			return f.options.wrong(key, "%s", rest)
		}
	}
	return []error{&server.FlagError{Flags: []string{"target"}, Text: "cannot be used: " + err.Error(), ShowsValue: showsValue}}
}

// indexesOr returns the indexes of a database, which are the indexes that its option names, else the default.
func (f targetFlags) indexesOr(named [][]string) [][]string {
	if named == nil {
		return f.options.indexes
	}
	return named
}

// bloomOr returns the columns with Bloom filters, which are the columns that the option names, else the default.
func (f targetFlags) bloomOr(named []string) []string {
	if named == nil {
		return f.options.bloom
	}
	return named
}

// retention returns how long a database keeps rows, and by which columns.
func (f targetFlags) retention(keepBy []string) (time.Duration, []string, []error) {
	if f.KeepFor > 0 && len(keepBy) == 0 {
		keepBy = f.options.keepBy
	}
	switch {
	case f.KeepFor > 0 && len(keepBy) == 0:
		return 0, nil, []error{server.WrongFlags("needs the option keepBy of this target: the columns that tell the time of a row", "keep-for", "target")}
	case f.KeepFor == 0 && len(keepBy) > 0:
		return 0, nil, f.options.wrong("keepBy", "has no effect without keep-for, the age at which rows are removed")
	}
	return max(f.KeepFor, 0), keepBy, nil
}
