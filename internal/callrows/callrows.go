// Package callrows keeps the rows that a call has mapped and that the buffer does not have yet.
package callrows

import "github.com/forebay/forebay/buffer"

// Large is the size from which the memory of rows serves the next sink once they are in the buffer.
const Large = 16 << 10

// Rows are the rows and rejected records of a call, by sink. Each sink has a mark. Everything before the marks is handed over together, and the rest
// stays. The memory is used again, so that rows cost no allocation once it is large enough. The zero value is empty. Only one goroutine may use it.
type Rows struct {
	data    [][]byte          // rows
	n       []int             // number of rows in data
	rejects [][]buffer.Reject // records for the quarantine, as data
	aside   []int             // bytes of rejects
	marks   []mark
	size    int      // bytes of all rows in data, and of all rejects
	spare   [][]byte // large and empty, for the rows of any sink
	memory  int      // capacity of data and spare
}

// mark is a place in the rows of a sink.
type mark struct{ bytes, rows, rejects int }

// Fit makes room for the rows of so many sinks.
func (r *Rows) Fit(sinks int) {
	for len(r.data) < sinks {
		r.data, r.n, r.marks = append(r.data, nil), append(r.n, 0), append(r.marks, mark{})
		r.rejects, r.aside = append(r.rejects, nil), append(r.aside, 0)
	}
}

// Reset drops all rows and records, and keeps the memory of rows.
func (r *Rows) Reset() {
	for k := range r.data {
		r.data[k], r.n[k], r.rejects[k], r.aside[k], r.marks[k] = r.data[k][:0], 0, nil, 0, mark{}
	}
	r.size = 0
}

// Size returns the bytes of all rows and records.
func (r *Rows) Size() int { return r.size }

// Memory returns the memory of rows, whether it is in use or not.
func (r *Rows) Memory() int { return r.memory }

// Next returns the rows of sink k, to which the caller appends a row of about so many bytes. Then it calls Mapped.
func (r *Rows) Next(k, about int) []byte {
	if last := len(r.spare) - 1; last >= 0 && len(r.data[k]) == 0 && cap(r.data[k]) <= about { // a value has no body, and about is 0
		r.memory -= cap(r.data[k])
		r.data[k], r.spare = r.spare[last][:0], r.spare[:last]
	}
	return r.data[k]
}

// Mapped takes the memory back that Next gave, and returns the size of the row that was appended. The row is not kept unless Keep is called next.
func (r *Rows) Mapped(k int, data []byte) (size int) {
	before := len(r.data[k])
	r.memory += cap(data) - cap(r.data[k])
	r.data[k] = data[:before]
	return len(data) - before
}

// Keep keeps the row of the last call of Mapped, which has returned its size.
func (r *Rows) Keep(k, size int) {
	r.data[k] = r.data[k][:len(r.data[k])+size]
	r.n[k]++
	r.size += size
}

// Reject adds a record for the quarantine of sink k.
func (r *Rows) Reject(k int, reject buffer.Reject) {
	r.rejects[k] = append(r.rejects[k], reject)
	size := bytes(reject)
	r.aside[k] += size
	r.size += size
}

// Rejects returns how many records there are for the quarantine of sink k, and their bytes.
func (r *Rows) Rejects(k int) (records, bytes int) { return len(r.rejects[k]), r.aside[k] }

func bytes(r buffer.Reject) int { return len(r.Info) + len(r.Data) }

// Mark moves the marks of the first sinks to the end of their rows and rejected records.
func (r *Rows) Mark(sinks int) {
	for k := range sinks {
		r.marks[k] = mark{len(r.data[k]), r.n[k], len(r.rejects[k])}
	}
}

// Marked returns the rows and rejected records of sink k before its mark, or false if there are none. They stay valid until Drop. The caller sets
// the field Sink.
func (r *Rows) Marked(k int) (buffer.Rows, bool) {
	m := r.marks[k]
	return buffer.Rows{Data: r.data[k][:m.bytes], Count: m.rows, Rejects: r.rejects[k][:m.rejects]}, m.rows > 0 || m.rejects > 0
}

// Drop removes the rows and rejected records of sink k before its mark, and moves the mark to the start.
func (r *Rows) Drop(k int) {
	m := r.marks[k]
	stay := copy(r.data[k], r.data[k][m.bytes:])
	r.data[k] = r.data[k][:stay]
	if stay == 0 && cap(r.data[k]) >= Large {
		r.spare, r.data[k] = append(r.spare, r.data[k]), nil
	}
	r.n[k] -= m.rows
	r.size -= m.bytes
	for _, reject := range r.rejects[k][:m.rejects] {
		size := bytes(reject)
		r.aside[k] -= size
		r.size -= size
	}
	r.rejects[k] = r.rejects[k][m.rejects:]
	r.marks[k] = mark{}
}

// DropSpare gives up the large memory that no row uses.
func (r *Rows) DropSpare() {
	for i, data := range r.spare {
		r.memory -= cap(data)
		r.spare[i] = nil
	}
	r.spare = r.spare[:0]
}
