package extractor

import (
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
	extra []tree.Member
}

// Len returns the number of records.
func (p *Page) Len() int { return p.items.Len() }

// Records yields the items in the order of the answer. It can be called again, and yields the same. The records of a
// large page are read from its text one by one, so that they need not be in memory together.
func (p *Page) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for m := range p.items.Each() {
			if !yield(Record{m.Value, p.extra}) {
				return
			}
		}
	}
}

// Record is one item of an answer: an object, or whatever else a list of the API holds. It is immutable.
type Record struct {
	item  tree.Node
	extra []tree.Member
}

// Field is an extra column of a record: user data, or a value of an item of a parent job.
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

// JSON returns the record as a JSON object that the caller owns: the item with the extra columns as further members. An
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
