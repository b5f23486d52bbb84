package platform

import (
	"bytes"
	"cmp"
	"errors"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// selection selects rows and columns of a table. It is stored in jobs, so relative times of the request are seconds since 1970
// here.
type selection struct {
	Limit        int                 `json:"limit,omitempty"`
	Columns      []string            `json:"columns,omitempty"`
	Filters      []storageapi.Filter `json:"whereFilters,omitempty"`
	Order        []storageapi.Order  `json:"orderBy,omitempty"`
	ChangedSince string              `json:"changedSince,omitempty"`
	ChangedUntil string              `json:"changedUntil,omitempty"`
}

var numberTypes = []string{"INTEGER", "DOUBLE", "BIGINT", "REAL", "DECIMAL"}

// readSelection reads the parameters of a preview, an export or a deletion.
func readSelection(in *input) selection {
	sel := selection{ChangedSince: readMoment(in, "changedSince"), ChangedUntil: readMoment(in, "changedUntil")}
	if n := in.integer("limit"); n != nil {
		if *n < 0 {
			in.fail("limit", "want a whole number from 0")
		}
		sel.Limit = int(*n)
	}
	if in.has("columns") {
		if raw := in.fields["columns"]; raw[0] == '[' {
			sel.Columns, _ = in.texts("columns")
		} else if text := in.textOr("columns", ""); text != "" {
			sel.Columns = strings.Split(text, ",")
		}
	}
	in.decode("whereFilters", &sel.Filters, "an array of objects with column, operator and values")
	in.decode("orderBy", &sel.Order, "an array of objects with column and order")
	for i := range sel.Filters {
		f := &sel.Filters[i]
		f.Operator = cmp.Or(f.Operator, "eq")
		switch {
		case !slices.Contains([]string{"eq", "ne", "gt", "ge", "lt", "le"}, f.Operator):
			in.fail("whereFilters", "operator %q: want eq, ne, gt, ge, lt or le", cut(f.Operator, 20))
		case len(f.Values) == 0:
			in.fail("whereFilters", "column %q: want at least one value", cut(f.Column, 80))
		case len(f.Values) > 1 && f.Operator != "eq" && f.Operator != "ne":
			in.fail("whereFilters", "operator %q takes one value", f.Operator)
		}
		checkDataType(in, f.DataType)
	}
	for i := range sel.Order {
		o := &sel.Order[i]
		if o.Order = strings.ToUpper(o.Order); o.Order != "" && o.Order != "ASC" && o.Order != "DESC" {
			in.fail("orderBy", "order: want ASC or DESC")
		}
		checkDataType(in, o.DataType)
	}
	return sel
}

// readMoment reads a time as seconds since 1970, "" if it was not sent.
func readMoment(in *input, name string) string {
	text := in.textOr(name, "")
	if text == "" {
		return ""
	}
	at, err := parseMoment(text, time.Now())
	if err != nil {
		in.fail(name, "want a time, such as 2026-11-22, 1763769600 or \"-2 days\"")
		return ""
	}
	return strconv.FormatInt(at.Unix(), 10)
}

// inTime returns a function that reports whether rows of a time are selected.
func (sel selection) inTime() func(at storageapi.Time) bool {
	bound := func(text string) (time.Time, bool) {
		seconds, err := strconv.ParseInt(text, 10, 64)
		return time.Unix(seconds, 0), err == nil
	}
	since, hasSince := bound(sel.ChangedSince)
	until, hasUntil := bound(sel.ChangedUntil)
	return func(at storageapi.Time) bool {
		return (!hasSince || !at.Before(since)) && (!hasUntil || at.Before(until))
	}
}

// anyRow reports whether a part has a row whose time is wanted.
func (pt part) anyRow(inTime func(at storageapi.Time) bool) bool {
	if len(pt.Spans) == 0 {
		return inTime(pt.At)
	}
	return slices.ContainsFunc(pt.Spans, func(s span) bool { return inTime(s.At) })
}

func checkDataType(in *input, dataType string) {
	if dataType != "" && dataType != "STRING" && !slices.Contains(numberTypes, dataType) {
		in.fail("dataType", "want one of %s", strings.Join(numberTypes, ", "))
	}
}

const selectionCode = "storage.tables.invalidSelection"

// queryInput reads the parameters that select rows as a form.
func (c *request) queryInput() *input {
	values := url.Values{}
	for name, value := range c.r.URL.Query() {
		switch head, _, _ := strings.Cut(name, "["); head {
		case "limit", "columns", "whereFilters", "orderBy", "changedSince", "changedUntil", "allowTruncate", "format":
			values[name] = value
		}
	}
	in, err := formInput(values)
	return c.reading(in, selectionCode, err)
}

// check refuses columns that the table does not have.
func (sel selection) check(t table) error {
	in := &input{code: selectionCode}
	known := func(field, name string) {
		if t.find(name) < 0 {
			in.fail(field, "the table %q has no column %q", t.ID, cut(name, 80))
		}
	}
	for _, name := range sel.Columns {
		known("columns", name)
	}
	for _, f := range sel.Filters {
		known("whereFilters", f.Column)
	}
	for _, o := range sel.Order {
		known("orderBy", o.Column)
	}
	return in.err()
}

// names are the columns of the result.
func (sel selection) names(t table) []string {
	if len(sel.Columns) > 0 {
		return sel.Columns
	}
	return t.names()
}

// matcher returns the filters as one function over the cells of the table.
func (sel selection) matcher(t table) func(cells [][]byte) bool {
	type test struct {
		at     int
		filter storageapi.Filter
	}
	var tests []test
	for _, f := range sel.Filters {
		tests = append(tests, test{t.find(f.Column), f})
	}
	return func(cells [][]byte) bool {
		for _, t := range tests {
			if !matches(cells[t.at], t.filter) {
				return false
			}
		}
		return true
	}
}

func matches(cell []byte, f storageapi.Filter) bool {
	numeric := slices.Contains(numberTypes, f.DataType)
	equal := slices.ContainsFunc(f.Values, func(v string) bool { n, ok := compareCells(cell, []byte(v), numeric); return ok && n == 0 })
	switch f.Operator {
	case "eq":
		return equal
	case "ne":
		return !equal
	}
	n, ok := compareCells(cell, []byte(f.Values[0]), numeric)
	if !ok {
		return false
	}
	switch f.Operator {
	case "gt":
		return n > 0
	case "ge":
		return n >= 0
	case "lt":
		return n < 0
	}
	return n <= 0
}

// compareCells compares as text or as numbers of any size. What is no number is not comparable.
func compareCells(a, b []byte, numeric bool) (order int, ok bool) {
	if !numeric {
		return bytes.Compare(a, b), true
	}
	x, y := parseNumber(a), parseNumber(b)
	if x == nil || y == nil {
		return 0, false
	}
	return x.Cmp(y), true
}

// maxNumber bounds the digits of a number, and with them the cost of a comparison.
const maxNumber = 400

func parseNumber(text []byte) *big.Float {
	if len(text) == 0 || len(text) > maxNumber {
		return nil
	}
	f, _, err := big.ParseFloat(string(text), 10, 256, big.ToNearestEven)
	if err != nil {
		return nil
	}
	return f
}

// eachSelected calls row with the cells of the wanted columns of every wanted row, good until the next call. Rows are
// sorted in memory when an order is wanted.
func (s *Server) eachSelected(t table, list []part, sel selection, stop func() error, row func(cells [][]byte) error) error {
	places := placesOf(sel.names(t), t.names())
	match, inTime := sel.matcher(t), sel.inTime()
	out := make([][]byte, len(places))
	emit := func(cells [][]byte) error {
		for i, at := range places {
			out[i] = cells[at]
		}
		return row(out)
	}
	n := 0
	full := func() bool { return sel.Limit > 0 && n >= sel.Limit }
	var sorted [][][]byte
	for _, pt := range list {
		if !pt.anyRow(inTime) {
			continue
		}
		proj, times := project(t.ids(), pt), pt.times()
		err := s.parts.read(t.Incarnation, pt, func(cells [][]byte) error {
			if err := stop(); err != nil {
				return err
			}
			cells = proj.row(cells)
			if !inTime(times.next()) || !match(cells) {
				return nil
			}
			if len(sel.Order) > 0 {
				sorted = append(sorted, cloneRow(cells))
				return nil
			}
			if err := emit(cells); err != nil {
				return err
			}
			if n++; full() {
				return errStop
			}
			return nil
		})
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(sorted, func(a, b [][]byte) int {
		for _, o := range sel.Order {
			at := t.find(o.Column)
			order, _ := compareCells(a[at], b[at], slices.Contains(numberTypes, o.DataType))
			if o.Order == "DESC" {
				order = -order
			}
			if order != 0 {
				return order
			}
		}
		return 0
	})
	for _, cells := range sorted {
		if full() {
			return nil
		}
		if err := emit(cells); err != nil {
			return err
		}
		n++
	}
	return nil
}

func cloneRow(cells [][]byte) [][]byte {
	out := make([][]byte, len(cells))
	for i, c := range cells {
		out[i] = bytes.Clone(c)
	}
	return out
}

type deletionParams struct {
	Table string    `json:"tableId"`
	Query selection `json:"query"`
}

func (c *request) deleteRows() (any, error) {
	in := c.queryInput()
	sel := readSelection(in)
	all := len(sel.Filters) == 0 && sel.ChangedSince == "" && sel.ChangedUntil == ""
	if all && !in.flagOr("allowTruncate", false) {
		in.fail("allowTruncate", "must be true to delete every row")
	}
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	if err := sel.check(t); err != nil {
		return nil, err
	}
	return c.tableJob("tableRowsDelete", t.ID, deletionParams{t.ID, sel})
}

func (s *Server) rowsDeleteJob(run *jobRun, p deletionParams) error {
	sel := p.Query
	t, list, release, err := s.parts.acquire(s.store, run.record.Branch, p.Table)
	if err != nil {
		return err
	}
	defer release()
	if err := sel.check(t); err != nil {
		return err
	}
	match, inTime := sel.matcher(t), sel.inTime()
	var added, removed []part
	var deleted int64
	for _, pt := range list {
		if !pt.anyRow(inTime) {
			continue
		}
		rest, err := s.rewrite(run.ctx, t, []part{pt}, func(at storageapi.Time, cells [][]byte) bool { return !inTime(at) || !match(cells) })
		if err != nil {
			return err
		}
		deleted += pt.Rows - rest.Rows
		removed, added = append(removed, pt), append(added, rest)
	}
	err = run.finish(tableLock(t.Branch, t.ID), func(tx *txn) (any, error) {
		now, err := latest(tx, t)
		if err != nil {
			return nil, err
		}
		replaceParts(tx, &now, added, removed)
		putTable(tx, now)
		return map[string]any{"deletedRows": deleted}, nil
	})
	if err == nil {
		s.parts.remove(t.Incarnation, removed)
		s.mergeLater(t.Branch, t.ID)
	}
	return err
}
