package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/store"
)

// sinkTable is the table that a sink of the configuration file needs.
type sinkTable struct {
	sink string // SOURCE/SINK
	driver.Table
}

// sinkTables returns the tables of all sinks that are enabled.
func (cfg *serveConfig) sinkTables() (list []sinkTable, err error) {
	opts := cfg.compileOptions()
	for _, source := range cfg.sources {
		d, err := forebay.Compile(source, opts)
		if err != nil {
			return nil, err
		}
		for _, sink := range source.Sinks {
			if !source.Disabled && !sink.Disabled {
				list = append(list, sinkTable{source.ID + "/" + sink.ID, driver.Table{
					ID: sink.Table.ID, Target: sink.Table.Target, Columns: d.Mapper(sink.ID).Columns(), Extend: sink.Table.Extend,
				}})
			}
		}
	}
	return list, nil
}

// hasDay reports whether a table has one of the columns with a type that has a day.
func (t sinkTable) hasDay(names ...string) bool {
	return slices.ContainsFunc(t.Columns, func(c datatype.Column) bool {
		return slices.Contains(names, c.Name) && (c.Type == datatype.Timestamp || c.Type == datatype.Date)
	})
}

func (t sinkTable) has(name string) bool { return slices.Contains(t.Names(), name) }

// misfits says which options do not fit the tables of the sinks, and which sinks do not fit each other. It opens nothing. check fails for
// them, and serve warns of them.
func (cfg *serveConfig) misfits(tables []sinkTable) (texts []string) {
	if len(tables) == 0 {
		return nil
	}
	note := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	own := slices.DeleteFunc(slices.Clone(tables), func(t sinkTable) bool { return t.Target != "" }) // named targets have no options
	if by := cfg.Tables.PartitionBy; by != "" {
		found := false
		for _, t := range own {
			found = found || t.has(by)
			if t.has(by) && !t.hasDay(by) {
				note("partition-by: the column %q of table %q (sink %s) is no date and no timestamp: give it such a dataType, or name a different column", by, t.ID, t.sink)
			}
		}
		if !found {
			note("partition-by: no table has the column %q: name a column of type date or timestamp", by)
		}
	}
	keepBy, keys := cfg.columnOptions()
	if cfg.Tables.KeepFor > 0 && len(keepBy) > 0 {
		for _, t := range own {
			if !t.hasDay(keepBy...) {
				note("keepBy: table %q (sink %s) has none of the columns %s with the type date or timestamp, so its rows are never removed", t.ID, t.sink, strings.Join(keepBy, ", "))
			}
		}
	}
	for table, columns := range keys {
		known := false
		for _, t := range own {
			if t.ID != table {
				continue
			}
			known = true
			for _, name := range columns {
				if !t.has(name) {
					note("keys: table %q (sink %s) has no column %q", t.ID, t.sink, name)
				}
			}
		}
		if !known {
			note("keys: no sink has the table %q", table)
		}
	}
	slices.Sort(texts)
	return append(texts, sharedTables(tables)...)
}

// columnOptions returns the options of the target that name columns.
func (cfg *serveConfig) columnOptions() (keepBy []string, keys map[string][]string) {
	k, _, err := cfg.kindOf()
	if err != nil {
		return nil, nil
	}
	switch k.keys.(type) {
	case postgresKeys:
		var o postgresKeys
		cfg.options.read(&o) // which was checked
		keepBy, keys = o.KeepBy, o.Keys
	case mysqlKeys:
		var o mysqlKeys
		cfg.options.read(&o)
		keepBy, keys = o.KeepBy, o.Keys
	case sqliteKeys:
		var o sqliteKeys
		cfg.options.read(&o)
		keepBy = o.KeepBy
	case duckdbKeys:
		var o duckdbKeys
		cfg.options.read(&o)
		keepBy = o.KeepBy
	}
	if len(keepBy) == 0 {
		keepBy = cfg.options.keepBy
	}
	return keepBy, keys
}

// sharedTables says which sinks cannot share their table.
func sharedTables(tables []sinkTable) (texts []string) {
	first := map[[2]string]sinkTable{} // by target and id
	columns := map[[2]string][]datatype.Column{}
	for _, t := range tables {
		key := [2]string{t.Target, t.ID}
		before, shared := first[key]
		if !shared {
			first[key] = t
		}
		grown, err := t.Fit(columns[key])
		if err == nil && shared && !before.Extend {
			_, err = before.Fit(grown)
		}
		if err != nil {
			texts = append(texts, fmt.Sprintf("the sinks %s and %s do not fit into one table: %v", before.sink, t.sink, err))
			continue
		}
		columns[key] = grown
	}
	return texts
}

// askingTime bounds the questions to a target.
const askingTime = 15 * time.Second

// askTarget asks the target whether it can have the tables of the sinks. It creates and changes nothing. exist are the tables that are there
// and fit. unreachable is the only error of a target that does not respond.
func (cfg *serveConfig) askTarget(ctx context.Context, tables []sinkTable) (exist []string, problems []error, unreachable error) {
	ctx, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	st, absent, err := cfg.openToAsk()
	if err != nil {
		return nil, nil, err
	}
	defer st.Close()
	for _, t := range tables {
		if t.Target != "" {
			continue // only the server asks the other targets
		}
		if err := checkNames(st.Target, t.Table); err != nil {
			problems = append(problems, fmt.Errorf("sink %s: %w", t.sink, err))
			continue
		}
		if absent {
			continue
		}
		found, err := hasTable(ctx, st.Tables, t.ID)
		if err != nil {
			return exist, problems, err
		}
		if !found {
			continue
		}
		err = fits(ctx, st.Target, t.Table)
		switch {
		case err == nil && !slices.Contains(exist, t.ID):
			exist = append(exist, t.ID)
		case err == nil:
		case driver.IsPermanent(err):
			problems = append(problems, fmt.Errorf("sink %s: %w", t.sink, err))
		default:
			return exist, problems, err
		}
	}
	return exist, problems, nil
}

// openToAsk opens the target. absent says that it is a database of this machine whose file does not exist. Then the target is a database in
// a temporary folder, which knows the names that the database takes.
func (cfg *serveConfig) openToAsk() (st *store.Store, absent bool, err error) {
	asked := cfg.places
	asked.tables = cfg.Tables
	temporary := ""
	if k, rest, err := cfg.kindOf(); err == nil && k.local != nil && k.local(rest) {
		path, _, _ := strings.Cut(rest, "?")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			folder := filepath.Dir(path)
			if !isFolder(folder) {
				return nil, false, fmt.Errorf("the folder %s does not exist", folder)
			}
			if temporary, err = os.MkdirTemp("", "forebay-check"); err != nil {
				return nil, false, err
			}
			asked.target = strings.Replace(cfg.target, path, filepath.Join(temporary, "check.db"), 1)
			absent = true
		}
	}
	open, _ := asked.prepare(cfg.Dir) // the problems were reported
	if st, err = open(); err != nil {
		return nil, absent, errors.Join(err, os.RemoveAll(temporary))
	}
	if temporary != "" {
		target := *st
		st.Closer = func() error { return errors.Join(target.Close(), os.RemoveAll(temporary)) }
	}
	return st, absent, nil
}

// checkNames returns why the target cannot have a table of these names. A target looks at names before it does anything, so a call whose
// context has ended does nothing else.
func checkNames(target driver.Target, t driver.Table) error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := target.Ensure(ended, t); driver.IsPermanent(err) && !errors.As(err, new(*driver.SchemaError)) {
		return err
	}
	return nil
}

// hasTable reports whether the target has the table.
func hasTable(ctx context.Context, tables store.Reader, id string) (bool, error) {
	if r, ok := tables.(interface {
		Exists(ctx context.Context, table string) (bool, error)
	}); ok {
		return r.Exists(ctx, id)
	}
	columns, err := tables.Columns(id)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(columns) > 0, err
}

// fits compares an existing table with the columns of a sink, and changes nothing. If a target has no Check, its Ensure changes no existing table.
func fits(ctx context.Context, target driver.Target, t driver.Table) error {
	if c, ok := target.(interface {
		Check(ctx context.Context, t driver.Table) error
	}); ok {
		return t.HintExtend(target, c.Check(ctx, t))
	}
	exact := t
	exact.Extend = false
	err := target.Ensure(ctx, exact)
	var schema *driver.SchemaError
	if t.Extend && errors.As(err, &schema) {
		_, err = t.Fit(schema.Got)
	}
	return t.HintExtend(target, err)
}

// refusedLogin returns the message of a server that refused the login, or nil. A PostgreSQL client tries several ways to connect, and its error
// repeats the message for each.
func refusedLogin(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "28P01" || refused.Code == "28000") {
		return errors.New("the server refuses the login: " + refused.Message)
	}
	return nil
}

// oneLine is the text of an error of a target.
func oneLine(err error) string {
	if refused := refusedLogin(err); refused != nil {
		return refused.Error()
	}
	return strings.Join(strings.Fields(driver.HintUnreachable(err).Error()), " ")
}
