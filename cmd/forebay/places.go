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
	"github.com/forebay/forebay/internal/program/store"
)

// targetKind is a kind of target that -target can name.
type targetKind struct {
	// prefixes begin the texts of this kind.
	prefixes []string
	// form shows how to write such a text, and summary says what it gives.
	form, summary string
	// folders is set if the target takes the options of folder tables.
	folders bool
	// addresses is set if the target takes addresses with "://", and refuses those that it cannot use.
	addresses bool
	// limits is a target that is not open, for its buffer.Limiter; nil: it has none.
	limits buffer.Target
	// open opens the target of a text without its prefix. The error has no secret of the text.
	open func(rest string, o dir.TablesOptions) (*store.Store, error)
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
	// open opens the staging of a text, with its prefix. closer may be nil. The error has no secret of the text.
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
func unknown(name, text, forms string, prefixes []string) error {
	kind, _, ok := strings.Cut(text, ":")
	if !ok || strings.ContainsAny(kind, "@=/ ") {
		return fmt.Errorf("-%s must begin with its kind: write one of %s", name, forms)
	}
	if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(prefix, kind+":") }) {
		return fmt.Errorf("-%s has the kind %q without a place: write one of %s", name, kind, forms)
	}
	return fmt.Errorf("-%s has the kind %q, which does not exist: write one of %s", name, kind, forms)
}

// kindOf returns the kind of the target and the text without its prefix.
func (p *places) kindOf() (targetKind, string, error) {
	for _, k := range targetKinds() {
		rest, ok := cutPrefix(p.target, k.prefixes)
		if !ok {
			continue
		}
		if scheme, _, ok := strings.Cut(rest, "://"); ok && !k.addresses && !strings.ContainsAny(scheme, ":/?@") { // nobody wants a folder with the name s3:
			return targetKind{}, "", fmt.Errorf("-target %s takes no %s:// address: -staging takes a bucket, and so does -target parquet:s3://BUCKET/PREFIX", k.form, scheme)
		}
		return k, rest, nil
	}
	var prefixes []string
	for _, k := range targetKinds() {
		prefixes = append(prefixes, k.prefixes...)
	}
	return targetKind{}, "", unknown("target", p.target, targetForms(), prefixes)
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

// check returns everything that is wrong with the flags, without opening anything.
func (p *places) check() (problems []error) {
	if p.target != "" {
		k, _, err := p.kindOf()
		o := p.tables
		if err == nil && !k.folders && (o.PartitionBy != "" || o.MergeTo != 0 || o.KeepFor != 0 || o.NoHeader || o.Gzip) {
			err = errors.New("-partition-by, -merge-to, -keep-for, -no-header and -gzip are for tables in folders: leave them out, or use -target dir:FOLDER or parquet:FOLDER")
		}
		problems = append(problems, err)
	}
	if p.staging != "" {
		if _, ok := cutPrefix(p.staging, stagingPrefixes()); !ok {
			problems = append(problems, unknown("staging", p.staging, stagingForms(), stagingPrefixes()))
		}
	}
	return problems
}

// open opens what the flags name. folder is the data directory.
func (p *places) open(folder string) (st *store.Store, err error) {
	if p.target == "" {
		if st, err = folderTarget().open(filepath.Join(folder, "tables"), p.tables); err == nil {
			st.Hint = ""
		}
	} else {
		k, rest, unknown := p.kindOf()
		if unknown != nil {
			return nil, unknown
		}
		st, err = k.open(rest, p.tables)
	}
	if err != nil || p.staging == "" {
		return st, err
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
