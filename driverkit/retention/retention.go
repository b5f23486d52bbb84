// Package retention is for drivers of SQL databases that remove rows by age. A [Rule] says which rows of a table are too old, and when the
// driver looks for them.
package retention

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// sweeps is how often the rows of a table are looked through while one of them is young enough to stay. More sweeps remove rows more
// punctually, fewer ones read less.
const sweeps = 24

// retryAfter is the longest time from a sweep that has failed to the next one.
const retryAfter = time.Minute

// Rule says which rows are removed. It is safe for concurrent use.
type Rule struct {
	keepFor time.Duration
	by      []string

	mu   sync.Mutex
	next map[string]time.Time // when the rows of a table are looked through again
}

// New returns the rule of a target. Rows are kept for a time since the first of the columns by that they have. A keepFor of 0 keeps all rows.
func New(keepFor time.Duration, by []string) (*Rule, error) {
	switch {
	case keepFor < 0:
		return nil, fmt.Errorf("KeepFor is %s, must not be negative", keepFor)
	case keepFor > 0 && len(by) == 0:
		return nil, errors.New("KeepFor needs KeepBy: the columns that tell the time of a row")
	case keepFor == 0 && len(by) > 0:
		return nil, errors.New("KeepBy is for KeepFor, which is 0")
	}
	return &Rule{keepFor: keepFor, by: slices.Clone(by), next: make(map[string]time.Time)}, nil
}

// Sweep calls remove with a condition in SQL that is true for the rows whose time has passed. It does nothing if the rule keeps all rows of the
// table, or if it has called remove for the table a short while ago. quote writes the name of a column.
func (r *Rule) Sweep(table driver.Table, quote func(name string) string, remove func(condition string) error) error {
	if r.keepFor == 0 {
		return nil
	}
	now := time.Now()
	condition := r.condition(table.Columns, now.Add(-r.keepFor), quote)
	if condition == "" || !r.claim(table.ID, now) {
		return nil
	}
	err := remove(condition)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.next[table.ID] = time.Now().Add(min(r.keepFor/sweeps, retryAfter))
	}
	return err
}

// claim reports whether a sweep is due. Of several callers only one gets it.
func (r *Rule) claim(table string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next[table]) {
		return false
	}
	r.next[table] = now.Add(r.keepFor / sweeps)
	return true
}

// condition is true for rows whose time is before a moment. A date is over at its end. It compares each column with a literal, so that a
// database can use an index or the bounds of a block. "" if the table has none of the columns.
func (r *Rule) condition(columns []datatype.Column, before time.Time, quote func(string) string) string {
	var terms, unset []string
	before = before.UTC()
	for _, name := range r.by {
		i := slices.IndexFunc(columns, func(c datatype.Column) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 {
			continue
		}
		bound := ""
		switch columns[i].Type {
		case datatype.Timestamp:
			bound = before.Format("2006-01-02T15:04:05.000000Z")
		case datatype.Date:
			bound = before.Format(time.DateOnly)
		default:
			continue
		}
		column := quote(columns[i].Name)
		terms = append(terms, strings.Join(append(slices.Clone(unset), fmt.Sprintf("%s < '%s'", column, bound)), " AND "))
		if columns[i].Required {
			break // its rows have no other time
		}
		unset = append(unset, column+" IS NULL")
	}
	if len(terms) == 0 {
		return ""
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}
