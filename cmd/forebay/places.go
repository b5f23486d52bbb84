package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/server"
	"github.com/forebay/forebay/internal/program/store"
)

// targetKind is a kind of target that -target can name.
type targetKind struct {
	// prefixes begin the texts of this kind.
	prefixes []string
	// form shows how to write such a text, and summary describes the target.
	form, summary string
	// ages is set if the target can remove rows by their age, but for tables in a bucket.
	ages bool
	// addresses is set if the target accepts addresses with "://", and refuses unusable addresses.
	addresses bool
	// local reports whether a text without its prefix is a database of one machine, which the nodes of a cluster cannot all use. Nil means that none
	// is.
	local func(rest string) bool
	// limits is a target that is not open, for its driver.Limiter. Nil means that it has none.
	limits driver.Target
	// keys is a struct of the options for -target-options. Nil means that it has none.
	keys any
	// missing is the build tag without which this program lacks the target. Empty means that it has it.
	missing string
	// prepare checks the text of a target without its prefix, and the options. It opens nothing. The errors have no secret of the text.
	prepare func(rest string, f targetFlags) (opener, []error)
}

// opener opens a target that was checked.
type opener func() (*store.Store, error)

// targetFlags are the flags that only some targets take: the options of tables in folders, and the options of one kind.
type targetFlags struct {
	dir.TablesOptions
	options targetOptions
}

// refuse returns a problem for each flag that is set and not in taken. The message is the flag's name followed by why.
func (f targetFlags) refuse(why string, taken ...string) (problems []error) {
	for _, one := range []struct {
		name string
		set  bool
	}{
		{"partition-by", f.PartitionBy != ""}, {"merge-to", f.MergeTo != 0}, {"keep-for", f.KeepFor != 0}, {"no-header", f.NoHeader}, {"gzip", f.Gzip},
	} {
		if one.set && !slices.Contains(taken, one.name) {
			problems = append(problems, server.WrongFlags(why, one.name, "target"))
		}
	}
	return problems
}

// forFolders refuses the flags that a database does not take.
func (f targetFlags) forFolders() []error {
	return f.refuse("is for tables in folders: leave it out, or use -target dir:FOLDER or parquet:FOLDER", "keep-for")
}

// targetKinds are all kinds, in the order of the help.
func targetKinds() []targetKind {
	return []targetKind{folderTarget(), sqliteTarget(), duckdbTarget(), postgresTarget(), mysqlTarget(), clickhouseTarget(), parquetTarget(), icebergTarget()}
}

// duckdbKind has the parts of the kind that a program without DuckDB contains too.
func duckdbKind() targetKind {
	return targetKind{prefixes: []string{"duckdb:"}, form: "duckdb:FILE", summary: "a DuckDB database", ages: true, local: always, keys: duckdbKeys{}}
}

func always(string) bool { return true }

// duckdbKeys are the options of a DuckDB target.
type duckdbKeys struct {
	MemoryLimit byteSize      `json:"memoryLimit" doc:"memory that DuckDB uses for imports and queries, such as 512MB; default: 80% of the machine's memory"`
	Threads     int           `json:"threads" doc:"number of DuckDB threads; default: one per core"`
	KeepIDs     time.Duration `json:"keepIds" doc:"how long to remember the ids of imported files; must exceed your longest outage; default: 2160h; negative means forever"`
	KeepBy      []string      `json:"keepBy" doc:"columns that determine a row's age; rows older than '-keep-for' are removed"`
}

// icebergKind has the parts of the kind that a program without Iceberg contains too.
func icebergKind() targetKind {
	return targetKind{
		prefixes: []string{"iceberg:"}, form: "iceberg:FOLDER, iceberg:https://CATALOG?warehouse=NAME",
		summary: "Apache Iceberg, with the catalog in the folder or REST", addresses: true, keys: icebergKeys{},
		local: func(rest string) bool { return !isCatalogAddress(rest) },
	}
}

// namespace has the tables of a warehouse, unless the options or the address of the catalog name a different one.
const namespace = "forebay"

// isCatalogAddress reports whether a place is the address of a REST catalog, not a folder with a catalog in it.
func isCatalogAddress(rest string) bool {
	return strings.HasPrefix(rest, "https://") || strings.HasPrefix(rest, "http://")
}

// icebergKeys are the options of an Iceberg target.
type icebergKeys struct {
	Namespace     string        `json:"namespace" doc:"namespace of the tables, which is created if it does not exist; default: forebay"`
	Bloom         []string      `json:"bloom" doc:"'string' columns, such as [trace], with Bloom filters in merged files, which speed up queries for a single value"`
	KeepSnapshots time.Duration `json:"keepSnapshots" doc:"how long a snapshot is kept after it is replaced; the newest 10 are always kept; default: 10m; negative means forever"`
	KeepOrphans   time.Duration `json:"keepOrphans" doc:"how long to keep data files left by processes that were killed; must be longer than any import; default: 72h; negative means forever"`
	KeepIDs       time.Duration `json:"keepIds" doc:"how long to remember the ids of an engine that has stopped importing; default: 2160h; negative means forever"`
}

// stagingKind is a kind of staging that -staging can name.
type stagingKind struct {
	prefixes      []string
	form, summary string
	// check returns the fault of a text, with its prefix, and opens nothing. The error contains no secret of the text.
	check func(text string) error
	// open opens the staging of a text. closer may be nil. The error contains no secret of the text.
	open func(text string) (staging driver.Staging, closer func() error, err error)
}

func stagingKinds() []stagingKind {
	return []stagingKind{folderStaging(), bucketStaging()}
}

// places are the flags for target and staging.
type places struct {
	target, staging string
	// tables are the options of folder tables.
	tables dir.TablesOptions
	// options belong to one kind of target.
	options targetOptions
	// targets are the additional targets of the file, by name.
	targets map[string]string
}

func (p *places) register(flags *flag.FlagSet) {
	flags.StringVar(&p.target, "target", "", "where the tables are; \"forebay help targets\" lists the forms (default dir:DIR/tables; e.g. sqlite:events.db)")
	flags.StringVar(&p.options.text, "target-options", "", "options of the target as YAML or JSON; in the configuration file, a mapping (default none; e.g. '{lockTimeout: 5s}')")
	flags.StringVar(&p.staging, "staging", "", "where rows wait for their table; \"forebay help targets\" lists the forms (default dir:DIR/staging; e.g. s3://bucket/wait)")
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
		if scheme, _, ok := strings.Cut(rest, "://"); ok && !k.addresses && !strings.ContainsAny(scheme, ":/?@") { // a folder with the name s3: is surely a mistake
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
	f := targetFlags{p.tables, p.options}
	if p.target == "" {
		return folderTarget().prepare(filepath.Join(folder, "tables"), f)
	}
	k, rest, err := p.kindOf()
	if err != nil {
		return nil, []error{err}
	}
	return k.prepare(rest, f)
}

// checkStaging returns the fault in the place of a flag that takes the forms of -staging, without opening it.
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
func stagingOf(text string) (driver.Staging, func() error, error) {
	for _, k := range stagingKinds() {
		if _, ok := cutPrefix(text, k.prefixes); ok {
			return k.open(text)
		}
	}
	return nil, nil, unknown("staging", text, stagingForms(), stagingPrefixes())
}

// openInspected opens the staging that inspect reads. text is a value of -staging of serve, or a folder.
func openInspected(text string) (driver.Staging, error) {
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

// open opens the places that the flags name. folder is the data directory.
func (p *places) open(folder string) (*store.Store, error) {
	if err := errors.Join(p.check(folder)...); err != nil {
		return nil, err
	}
	open, _ := p.prepare(folder)
	st, err := open()
	if err != nil {
		return nil, fmt.Errorf("-target: %w", driver.HintUnreachable(err))
	}
	if p.target == "" {
		st.Hint = ""
	}
	if err := p.openNamed(st); err != nil {
		return nil, errors.Join(err, st.Close())
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

// named returns the place of an additional target, with the default options of its kind.
func (p *places) named(target string) *places { return &places{target: target} }

// openNamed opens the additional targets of a store.
func (p *places) openNamed(st *store.Store) error {
	for _, name := range slices.Sorted(maps.Keys(p.targets)) {
		open, problems := p.named(p.targets[name]).prepare("")
		if err := errors.Join(problems...); err != nil {
			return fmt.Errorf("target %q: %w", name, err)
		}
		one, err := open()
		if err != nil {
			return fmt.Errorf("target %q: %w", name, driver.HintUnreachable(err))
		}
		if st.Targets == nil {
			st.Targets, st.Drops = map[string]driver.Target{}, map[string]func(context.Context, string) error{}
		}
		st.Targets[name] = one.Target
		if one.Drop != nil {
			st.Drops[name] = one.Drop
		}
		before := *st
		st.Closer = func() error { return errors.Join(before.Close(), one.Close()) }
	}
	return nil
}

// compileOptions are the options that definitions are checked with. Their targets only have limits.
func (cfg *serveConfig) compileOptions() forebay.Options {
	opts := forebay.Options{Buffer: cfg.Tuning}
	if k, _, err := cfg.kindOf(); err == nil {
		opts.Target = k.limits
	}
	for name, text := range cfg.targets {
		k, _, err := cfg.named(text).kindOf()
		if opts.Targets == nil {
			opts.Targets = map[string]driver.Target{}
		}
		if opts.Targets[name] = k.limits; err != nil || k.limits == nil {
			opts.Targets[name] = dir.Tables("") // of a kind without limits
		}
	}
	return opts
}
