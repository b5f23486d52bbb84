package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/program/server"
	"github.com/forebay/forebay/internal/program/store"
)

// targetKind is a kind of target that -target can name.
type targetKind struct {
	// prefixes begin the texts of this kind.
	prefixes []string
	// form shows how to write such a text, and summary says what it gives.
	form, summary string
	// folders is set if the target has files, which can be removed by age.
	folders bool
	// addresses is set if the target takes addresses with "://", and refuses those that it cannot use.
	addresses bool
	// limits is a target that is not open, for its buffer.Limiter; nil: it has none.
	limits buffer.Target
	// prepare checks the text of a target without its prefix, and the options. It opens nothing. The errors have no secret of the text.
	prepare func(rest string, o tableFlags) (opener, []error)
}

// opener opens a target that was checked.
type opener func() (*store.Store, error)

// tableFlags are the options of tables in folders, which only some targets take.
type tableFlags struct{ dir.TablesOptions }

// refuse returns a problem for each flag that is set and not among those that are taken. why goes on behind its name.
func (o tableFlags) refuse(why string, taken ...string) (problems []error) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"partition-by", o.PartitionBy != ""}, {"merge-to", o.MergeTo != 0}, {"keep-for", o.KeepFor != 0}, {"no-header", o.NoHeader}, {"gzip", o.Gzip},
	} {
		if f.set && !slices.Contains(taken, f.name) {
			problems = append(problems, server.WrongFlags(why, f.name, "target"))
		}
	}
	return problems
}

// targetProblems returns what a driver says about an address. showsValue is set if that may have a part of it.
func targetProblems(err error, showsValue bool) []error {
	if err == nil {
		return nil
	}
	return []error{&server.FlagError{Flags: []string{"target"}, Text: "cannot be used: " + err.Error(), ShowsValue: showsValue}}
}

// forFolders refuses all of them for a target without folders.
func (o tableFlags) forFolders() []error {
	return o.refuse("is for tables in folders: leave it out, or use -target dir:FOLDER or parquet:FOLDER")
}

// targetKinds are all kinds, in the order of the help.
func targetKinds() []targetKind {
	return []targetKind{folderTarget(), sqliteTarget(), duckdbTarget(), postgresTarget(), parquetTarget(), icebergTarget()}
}

// duckdbKind has the parts of the kind that need no cgo.
func duckdbKind() targetKind {
	return targetKind{prefixes: []string{"duckdb:"}, form: "duckdb:FILE", summary: "a DuckDB database"}
}

// stagingKind is a kind of staging that -staging can name.
type stagingKind struct {
	prefixes      []string
	form, summary string
	// check returns what is wrong with a text, with its prefix, and opens nothing. The error has no secret of the text.
	check func(text string) error
	// open opens the staging of a text. closer may be nil. The error has no secret of the text.
	open func(text string) (staging buffer.Staging, closer func() error, err error)
}

func stagingKinds() []stagingKind {
	return []stagingKind{folderStaging(), bucketStaging()}
}

// places are the flags for target and staging.
type places struct {
	target, staging string
	// tables are the options of folder tables.
	tables dir.TablesOptions
}

func (p *places) register(flags *flag.FlagSet) {
	flags.StringVar(&p.target, "target", "", "where the tables are: "+targetForms()+" (default dir: and the folder tables of the data directory)")
	flags.StringVar(&p.staging, "staging", "", "where rows wait between the local disk and their table: "+stagingForms()+" (default dir: and the folder staging of the data directory)")
}

func targetForms() string {
	var forms []string
	for _, k := range targetKinds() {
		forms = append(forms, k.form)
	}
	return strings.Join(forms, ", ")
}

func stagingForms() string {
	var forms []string
	for _, k := range stagingKinds() {
		forms = append(forms, k.form)
	}
	return strings.Join(forms, ", ")
}

func stagingPrefixes() (prefixes []string) {
	for _, k := range stagingKinds() {
		prefixes = append(prefixes, k.prefixes...)
	}
	return prefixes
}

// cutPrefix finds the prefix that a text begins with. The rest must not be empty.
func cutPrefix(text string, prefixes []string) (rest string, ok bool) {
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(text, prefix); ok && rest != "" {
			return rest, true
		}
	}
	return "", false
}

// unknown is the error for a text of no kind, or without a place. The text may have a password, so the error shows only its first word.
func unknown(flag, text, forms string, prefixes []string) error {
	kind, _, ok := strings.Cut(text, ":")
	if !ok || strings.ContainsAny(kind, "@=/ ") {
		return server.WrongFlags("must begin with its kind: write one of "+forms, flag)
	}
	if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(prefix, kind+":") }) {
		return server.WrongValue(flag, "has the kind %q without a place: write one of %s", kind, forms)
	}
	return server.WrongValue(flag, "has the kind %q, which does not exist: write one of %s", kind, forms)
}

// kindOf returns the kind of the target and the text without its prefix.
func (p *places) kindOf() (targetKind, string, error) {
	for _, k := range targetKinds() {
		rest, ok := cutPrefix(p.target, k.prefixes)
		if !ok {
			continue
		}
		if scheme, _, ok := strings.Cut(rest, "://"); ok && !k.addresses && !strings.ContainsAny(scheme, ":/?@") { // nobody wants a folder with the name s3:
			return targetKind{}, "", server.WrongValue("target", "%s takes no %s:// address: -staging takes a bucket, and so does -target parquet:s3://BUCKET/PREFIX", k.form, scheme)
		}
		return k, rest, nil
	}
	var prefixes []string
	for _, k := range targetKinds() {
		prefixes = append(prefixes, k.prefixes...)
	}
	return targetKind{}, "", unknown("target", p.target, targetForms(), prefixes)
}

// prepare checks the target. folder is the data directory.
func (p *places) prepare(folder string) (opener, []error) {
	o := tableFlags{p.tables}
	if p.target == "" {
		return folderTarget().prepare(filepath.Join(folder, "tables"), o)
	}
	k, rest, err := p.kindOf()
	if err != nil {
		return nil, []error{err}
	}
	return k.prepare(rest, o)
}

// checkStaging returns what is wrong with the place of a flag that takes the forms of -staging, without opening it.
func checkStaging(flag, text string) error {
	for _, k := range stagingKinds() {
		if _, ok := cutPrefix(text, k.prefixes); ok {
			if err := k.check(text); err != nil {
				return server.WrongValue(flag, "cannot be used: %v", err)
			}
			return nil
		}
	}
	return unknown(flag, text, stagingForms(), stagingPrefixes())
}

// stagingOf opens a staging.
func stagingOf(text string) (buffer.Staging, func() error, error) {
	for _, k := range stagingKinds() {
		if _, ok := cutPrefix(text, k.prefixes); ok {
			return k.open(text)
		}
	}
	return nil, nil, unknown("staging", text, stagingForms(), stagingPrefixes())
}

// openInspected opens the staging that inspect reads. text is a value of -staging of serve, or a folder.
func openInspected(text string) (buffer.Staging, error) {
	if !strings.Contains(text, ":") {
		return dir.Staging(text), nil
	}
	staging, _, err := stagingOf(text) // closed by the end of the process
	return staging, err
}

// check returns everything that is wrong with the flags, without opening anything. Each problem is a [*server.FlagError]. folder is the data
// directory.
func (p *places) check(folder string) (problems []error) {
	_, problems = p.prepare(folder)
	if p.staging != "" {
		if err := checkStaging("staging", p.staging); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// open opens what the flags name. folder is the data directory.
func (p *places) open(folder string) (*store.Store, error) {
	if err := errors.Join(p.check(folder)...); err != nil {
		return nil, err
	}
	open, _ := p.prepare(folder)
	st, err := open()
	if err != nil {
		return nil, fmt.Errorf("-target: %w", err)
	}
	if p.target == "" {
		st.Hint = ""
	}
	if p.staging == "" {
		return st, nil
	}
	staging, closer, err := stagingOf(p.staging)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	st.Staging = staging
	if closer != nil {
		target := *st
		st.Closer = func() error { return errors.Join(target.Close(), closer()) }
	}
	return st, nil
}

// kindName is the kind of the target, for logs.
func (p *places) kindName() string {
	kind, _, _ := strings.Cut(p.target, ":")
	if kind == "" {
		return "dir"
	}
	return kind
}
