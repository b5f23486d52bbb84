package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
)

const (
	// tailRows is how many rows are shown, tailTime how long they may take, tailSlots how many users read a table at once. A bucket takes a request
	// for each MiB, and 16 MiB of memory.
	tailRows  = 20
	tailTime  = 2 * time.Second
	tailSlots = 2
	// maxCellShown bounds the bytes sent of a cell because a page has up to 2,000 of them.
	maxCellShown = 2 << 10
)

func (c *Console) tablesPage() page {
	return page{name: "tables", title: "Tables", key: "l", right: Records, endpoints: []endpoint{
		{name: "tables.list", method: http.MethodGet, right: Records, run: (*request).trySinks},
		{name: "tables.open", method: http.MethodGet, right: Records, run: (*request).tablesOpen},
	}}
}

// shownCell is a cell of a table, which is a text, nil for NULL. Cut says that there is more of it.
type shownCell struct {
	Text *string `json:"t"`
	Cut  bool    `json:"cut,omitempty"`
}

// shownTable is the end of a table and how to read more of it.
type shownTable struct {
	Source string `json:"source"`
	Sink   string `json:"sink"`
	Table  string `json:"table"`
	// Target names the target of the table if the engine has several.
	Target string `json:"target"`
	tableQuery
	// Columns are names and types.
	Columns [][2]string   `json:"columns"`
	Rows    [][]shownCell `json:"rows"`
	// Imported is when the last row came into the table, nil if unknown.
	Imported *moment `json:"imported"`
	// Why there are no rows, or fewer. A sentence, empty if there are all.
	Note string `json:"note"`
	// Stored counts the rows that this sink ever stored in its tables, Waiting the rows that will come.
	Stored  cell `json:"stored"`
	Waiting cell `json:"waiting"`
}

// tablesOpen shows the table of a sink.
func (c *request) tablesOpen() (any, error) {
	source, sink, _, err := c.sinkNamed(c.query.Get("source"), c.query.Get("sink"))
	if err != nil {
		return nil, err
	}
	out := shownTable{Source: source.ID, Sink: sink.ID, Table: sink.Table.ID, Target: c.targetName(sink.Table.Target), Columns: [][2]string{}, Rows: [][]shownCell{}, Stored: cell{Text: unknown}, Waiting: cell{Text: unknown}}
	table := driver.Table{ID: sink.Table.ID, Target: sink.Table.Target}
	if s := c.sampler.current(); s != nil {
		for i := range s.stats.Sinks {
			if k := &s.stats.Sinks[i]; k.Source == source.ID && k.Sink == sink.ID {
				out.Stored, out.Waiting = count(k.Target.Rows), count(k.Local.Rows+k.Staging.Rows)
				table.Columns = k.Table.Columns
			}
		}
	}
	out.tableQuery = c.queryOf(table)
	t, ok := c.eng.Options().TargetNamed(sink.Table.Target).(driver.Tailer)
	if !ok {
		out.Note = "This target shows no rows here. Read the table with a client of the target."
		if out.Query != "" {
			out.Note = "This target shows no rows here. Use the query."
		}
		return out, nil
	}
	select {
	case c.tailing <- struct{}{}:
		defer func() { <-c.tailing }()
	default:
		return nil, refuse(http.StatusServiceUnavailable, "%d tables are being read already. Try again.", tailSlots)
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.tailWithin)
	defer cancel()
	tail, err := t.Tail(ctx, table.ID, tailRows)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		out.Note = "The table is not there yet: the first import makes it."
		return out, nil
	case errors.Is(err, driver.ErrTailTooLarge):
		out.Note = "The newest rows are too large to show. Use the query."
		return out, nil
	case c.ctx.Err() != nil:
		return nil, err
	case errors.Is(err, context.DeadlineExceeded):
		out.Note = fmt.Sprintf("The target has not returned the rows within %v. It may be away, or the rows are too large to show. Waiting rows are safe. Refresh, or use the query.", tailTime)
		return out, nil
	case err != nil: // the target is away, say, but the query and the counts still help
		c.opts.Logger.Warn("console request failed", "action", "tables.open", "cause", err, "next", "fix the cause, and reload the page")
		out.Note = "The rows cannot be read: " + strings.TrimSuffix(visible(err.Error()), ".") + ". Waiting rows are safe. Refresh when the target is back, or use the query."
		return out, nil
	}
	secret := c.secretColumns(table.ID)
	for _, k := range tail.Columns {
		out.Columns = append(out.Columns, [2]string{k.Name, cmp.Or(string(k.Type), "untyped")})
	}
	for _, row := range tail.Rows {
		shown := make([]shownCell, len(row))
		for i, value := range row {
			if value == nil {
				continue
			}
			text := string(value)
			if slices.ContainsFunc(secret, func(name string) bool { return strings.EqualFold(name, tail.Columns[i].Name) }) {
				text = "***"
			}
			text, shown[i].Cut = headOf(text, maxCellShown)
			shown[i].Text = &text
		}
		out.Rows = append(out.Rows, shown)
	}
	if !tail.Imported.IsZero() {
		at := moment(tail.Imported)
		out.Imported = &at
	}
	if len(out.Rows) == 0 {
		out.Note = "The table has no rows."
	}
	return out, nil
}

// secretColumns are the columns of a table that are secret in the definition of a sink, as the engine or the catalog has it. The target does not
// count, because a sink that moves to another target leaves rows in the previous one. A sink that was
// removed does not count, so keep the mark while the table has the values.
func (c *request) secretColumns(table string) (names []string) {
	add := func(t forebay.Table) {
		for _, k := range t.Columns {
			if k.Secret && t.ID == table {
				names = append(names, k.Name)
			}
		}
	}
	for _, source := range c.eng.Sources() {
		for _, s := range source.Sinks {
			add(s.Table)
		}
	}
	if cat := c.opts.Catalog; cat != nil {
		for _, source := range cat.Sources(false) {
			_, sinks, err := cat.Sinks(source.ID, false)
			if err != nil {
				continue // it was deleted meanwhile
			}
			for _, s := range sinks {
				add(forebay.Table{ID: s.TableID, Columns: s.Columns})
			}
		}
	}
	return names
}
