package extractor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// Page is the result of one request of a job.
type Page struct {
	// Job is the id of the job, as in log lines.
	Job string
	// DataType names the table for the records.
	DataType string
	// Bucket is the destination of the run, "" when the configuration has none.
	Bucket string
	// Number counts the pages of the job from 1.
	Number int

	items tree.Node // a list
	skip  map[int]bool
	// sum is the checksum of the items, or nil when it is not known.
	sum   []byte
	extra []tree.Member
	// endpoint names the job in messages, without a password.
	endpoint string
	// origin is the run, and the way through jobs and items to the job.
	origin string
}

// Len returns the number of records.
func (p *Page) Len() int { return p.items.Len() - len(p.skip) }

// ID identifies the page and its records among all pages of all runs. A page that is emitted again, because the run ended before
// its checkpoint was saved and resumes after the last saved one, has the same ID as long as the API responds the same. Receivers use it
// to store a page once. It may take a pass over the records.
func (p *Page) ID() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00", p.origin, p.Number)
	tree.OfObject(p.extra...).WriteSerialized(h, nil)
	if p.sum == nil || len(p.skip) > 0 {
		h.Write(sumOf(p.items, p.skip))
	} else {
		h.Write(p.sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sumOf returns a checksum of the items that are not skipped.
func sumOf(items tree.Node, skip map[int]bool) []byte {
	h := sha256.New()
	i := -1
	var scratch []byte
	for m := range items.Each() {
		if i++; !skip[i] {
			scratch = m.Value.WriteSerialized(h, scratch)
		}
	}
	return h.Sum(nil)
}

// Records yields the items in the order of the response. It can be called again, and yields the same. The records of a
// large page are read from its text one by one, so that they need not be in memory together.
func (p *Page) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		i := -1
		for m := range p.items.Each() {
			if i++; p.skip[i] {
				continue
			}
			if !yield(Record{m.Value, p.extra}) {
				return
			}
		}
	}
}

// Record is one item of a response, an object, or whatever else a list of the API holds. It is immutable.
type Record struct {
	item  tree.Node
	extra []tree.Member
}

// Field is an extra column of a record, user data, or a value of an item of a parent job.
type Field struct {
	Name, Value string
}

// Extra returns the extra columns in order.
func (r Record) Extra() []Field {
	fields := make([]Field, len(r.extra))
	for i, m := range r.extra {
		fields[i] = Field{m.Key, m.Value.Text()}
	}
	return fields
}

// JSON returns the record as a JSON object that the caller owns, the item with the extra columns as further members. An
// item that is no object is the member "data".
func (r Record) JSON() []byte { return r.AppendJSON(nil) }

// AppendJSON appends the record as JSON to dst.
func (r Record) AppendJSON(dst []byte) []byte { return r.row().AppendJSON(dst, tree.Plain) }

// row returns the record as an object. An extra column replaces a member of its name.
func (r Record) row() tree.Node {
	row := r.item
	if row.Kind() != tree.Object {
		row = tree.OfObject(tree.Member{Key: "data", Value: row})
	}
	for _, m := range r.extra {
		row = row.With(m.Key, m.Value)
	}
	return row
}
