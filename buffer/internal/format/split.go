package format

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"slices"

	"github.com/forebay/forebay/datatype"
)

// Split is how far a file is whose target refuses some of its rows. It is never changed. Each step replaces it.
//
// The parts are ascending and have every row of the file. A part is imported under its own id, without its Skip. One that the target refuses
// gets Refused. Then the target rules out its id. Then it is replaced by other parts, or by one with more rows in Skip. So at each
// moment at most one id can bring a row into the table, and each id is on disk before it is used. When no part has anything
// left to import, the rows of all Skip go to the quarantine, and the file ends.
//
// Erased rows leave a file in the same way, but go nowhere. If no import under the id of a part has stored anything, the part keeps its id (see
// [Part.Omit]).
type Split struct {
	// Parts are as above. After the end of the file they are the imported parts, and have no Skip.
	Parts []Part `json:"parts"`
	// Imports counts the results of the target since the last pause, and Took the milliseconds of these calls.
	Imports int   `json:"imports,omitempty"`
	Took    int64 `json:"took,omitempty"`
	// Kept is how many of the rows of [Split.Poison], in their order, are in the quarantine. After the end of the file it is their number.
	Kept int `json:"kept,omitempty"`
	// Erased is how many of them were not put into the quarantine, because they were erased. Releases that do not know it count them as
	// refused rows.
	Erased int `json:"erased,omitempty"`
	// Asked is above 0 if an operator has asked to split the file although it was held, or if its retention has passed. Earlier releases stored how
	// many refused rows the file may then have.
	Asked int `json:"most,omitempty"`
	// Last is set when the retention of the file has passed and it is imported without its refused rows. If that import fails, the rows that
	// are not imported yet expire.
	Last bool `json:"last,omitempty"`
	// Rest is set when the caller has asked that all rows which are not in the table go to the quarantine. It has the words for the rows
	// that the target has not named.
	Rest *RefusedRow `json:"rest,omitempty"`
}

// Part is a range of rows of a file.
type Part struct {
	// ID is the id for the target.
	ID string `json:"id"`
	// From and To bound the rows; To is outside. They count from 0 over all slices of the file.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Skip are the rows in it that the target refuses, or that were erased.
	Skip RefusedRows `json:"skip,omitzero"`
	// Imported is set when the target has the rows.
	Imported bool `json:"imported,omitempty"`
	// Refused are the refused rows of the last import, or nil if the target has not refused any. While it is set, the id is not ruled out for
	// sure.
	Refused []RefusedRow `json:"refused,omitempty"`
	// Rows is how many rows were imported. It is set after the end of the file.
	Rows int64 `json:"rows,omitempty"`
	// Gone is the number of refused rows that have left Skip. They are in the quarantine.
	Gone int64 `json:"gone,omitempty"`
	// GivenUp is set when the id is ruled out and nothing takes its place. All rows go to the quarantine, with the words of [Split.Rest] unless
	// they are in Skip.
	GivenUp bool `json:"givenUp,omitempty"`
}

// ReasonErased is the reason of a row that was erased and that no target has refused. It leaves the file like a refused row, and goes nowhere.
const ReasonErased = "forebay.erased"

// RefusedRow is a target's description of a row.
type RefusedRow struct {
	// Row is its number in the file, -1 if the target does not say which.
	Row int64 `json:"row"`
	// Column, Reason and Message are as in driver.RowError.
	Column  string `json:"column,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Poison says of a [Reject] that it was a row. Its record is the row as CSV.
type Poison struct {
	// File is the id of the file that had the row, RefusedRow its place and the words of the target.
	File string `json:"file"`
	RefusedRow
	// Columns are the columns of the row.
	Columns []datatype.Column `json:"columns"`
	// Label is the label of the definition of the file.
	Label string `json:"label,omitempty"`
}

// size is its size in bounds.
func (p *Poison) size() int64 {
	if p == nil {
		return 0
	}
	n := len(p.File) + len(p.Label) + len(p.Column) + len(p.Reason) + len(p.Message)
	for _, c := range p.Columns {
		n += len(c.Name) + len(c.Type) + 32
	}
	return int64(n)
}

// NewPart returns a part of a file. Its id is made of the file's id and of the rows, so that it never stands for others.
func NewPart(fileID string, from, to int64, skip RefusedRows) Part {
	sum := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(from)), uint64(to))
	for r := range skip.All() {
		sum = binary.BigEndian.AppendUint64(sum, uint64(r.Row))
	}
	hash := sha256.Sum256(sum)
	return Part{ID: fileID + "-p" + hex.EncodeToString(hash[:8]), From: from, To: to, Skip: skip}
}

// Left returns how many rows there are to import.
func (p *Part) Left() int64 { return p.To - p.From - p.refused() }

func (p *Part) refused() int64 { return p.Skip.Len() + p.Gone }

// Done reports whether nothing is left to import.
func (p *Part) Done() bool { return p.Imported || p.GivenUp || p.Refused == nil && p.Left() == 0 }

// Row returns the number in the file of the nth row that is left.
func (p *Part) Row(nth int64) int64 {
	row := p.From + nth
	for s := range p.Skip.All() {
		if s.Row > row {
			break
		}
		row++
	}
	return row
}

// Clone returns a copy whose parts may be replaced.
func (s *Split) Clone() *Split {
	c := *s
	c.Parts = slices.Clone(s.Parts)
	return &c
}

// Find returns the place of the part with an id, -1 if there is none.
func (s *Split) Find(id string) int {
	return slices.IndexFunc(s.Parts, func(p Part) bool { return p.ID == id })
}

// Next returns the place of the part whose turn it is, -1 if all are done. The first and the last row of the file, if they are parts, come
// before the others (see [Split.Replace]).
func (s *Split) Next() int {
	for _, i := range []int{0, len(s.Parts) - 1} {
		if p := &s.Parts[i]; p.To-p.From == 1 && !p.Done() {
			return i
		}
	}
	return slices.IndexFunc(s.Parts, func(p Part) bool { return !p.Done() })
}

// Whole returns the split of a file of which nothing was ruled out yet.
func Whole(fileID string, rows int64) *Split {
	return &Split{Parts: []Part{{ID: fileID, To: rows}}}
}

// Untouched reports whether no id of the file was ruled out, so that it may still be imported whole, and with other rows if some are lost.
func (s *Split) Untouched(fileID string) bool {
	p := &s.Parts[0]
	return len(s.Parts) == 1 && p.ID == fileID && p.Refused == nil && !p.GivenUp && !p.Imported && p.refused() == 0
}

// MayLose reports whether rows can be taken out of the file, because no target and no quarantine has rows of it. While the target has yet to say
// whether it has stored the part with its refused or erased rows, no row may go.
func (s *Split) MayLose() bool {
	p := &s.Parts[0]
	return len(s.Parts) == 1 && p.Refused == nil && !p.Imported && !p.GivenUp && p.Gone == 0 && s.Kept == 0
}

// Lose returns a split without n rows, which the file has lost. The rows after them get lower numbers. The part keeps its id, under which a target
// stores rows once. See [Split.MayLose].
func (s *Split) Lose(from, n int64) *Split {
	left := func(rows iter.Seq[RefusedRow]) iter.Seq[RefusedRow] {
		return func(yield func(RefusedRow) bool) {
			for r := range rows {
				switch {
				case r.Row >= from+n:
					r.Row -= n
				case r.Row >= from:
					continue
				}
				if !yield(r) {
					return
				}
			}
		}
	}
	after := s.Clone()
	p := &after.Parts[0]
	p.To -= n
	p.Skip = collect(left(p.Skip.All()))
	return after
}

// Poison returns how many rows go to the quarantine.
func (s *Split) Poison() (rows int64) {
	for i := range s.Parts {
		if p := &s.Parts[i]; p.GivenUp {
			rows += p.To - p.From
		} else {
			rows += p.refused()
		}
	}
	return rows
}

// Refused returns how many of the rows of Poison the target has refused. Of parts that are given up, these are all.
func (s *Split) Refused() int64 {
	rows, kept := max(s.Poison(), int64(s.Kept))-int64(s.Erased), int64(s.Kept)
	for i := range s.Parts {
		p := &s.Parts[i]
		if p.GivenUp {
			kept -= min(kept, p.To-p.From)
			continue
		}
		left, before := p.poison(s.Rest, kept)
		kept -= before
		for r := range left {
			if r.Reason == ReasonErased {
				rows--
			}
		}
	}
	return rows
}

// PoisonFrom returns rows that go to the quarantine, ascending. They are the rows after the first n, at most so many.
func (s *Split) PoisonFrom(n int64, most int) (rows []RefusedRow) {
	for i := range s.Parts {
		p := &s.Parts[i]
		all, before := p.poison(s.Rest, n)
		n -= before
		for r := range all {
			if len(rows) == most {
				return rows
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// poison returns the rows of the part that go to the quarantine, and leaves out the first n, which are so many. rest has the words for rows that the
// target has not named.
func (p *Part) poison(rest *RefusedRow, n int64) (rows iter.Seq[RefusedRow], left int64) {
	if !p.GivenUp {
		left = min(n, p.refused())
		return p.Skip.after(max(0, left-p.Gone)), left
	}
	left = min(n, p.To-p.From)
	return func(yield func(RefusedRow) bool) {
		next, stop := iter.Pull(p.Skip.All())
		defer stop()
		named, ok := next()
		for row := p.From + left; row < p.To; row++ {
			for ok && named.Row < row {
				named, ok = next()
			}
			words := *rest
			if ok && named.Row == row {
				words = named
			}
			words.Row = row
			if !yield(words) {
				return
			}
		}
	}, left
}

// Ready returns the number of rows that may move to the quarantine now. They are the rows of [Split.Poison] that are not in the quarantine yet
// and whose parts come before the first part that is not done.
func (s *Split) Ready() (rows int64) {
	for i := range s.Parts {
		if p := &s.Parts[i]; !p.Done() || p.GivenUp {
			break
		}
		rows += s.Parts[i].refused()
	}
	return max(0, rows-int64(s.Kept))
}

// Forget removes the rows that are in the quarantine from the parts that are done.
func (s *Split) Forget() {
	kept := int64(s.Kept)
	for i := range s.Parts {
		p := &s.Parts[i]
		if kept -= p.refused(); kept < 0 || !p.Done() || p.GivenUp {
			return
		}
		p.Gone, p.Skip = p.refused(), RefusedRows{}
	}
	s.merge()
}

// merge makes one part of neighbours of which nothing is to be imported, so that a record has no part for each refused row.
func (s *Split) merge() {
	parts := s.Parts[:0:0]
	for _, p := range s.Parts {
		if n := len(parts); n > 0 && parts[n-1].bare() && p.bare() && (parts[n-1].Gone == 0) == (p.Gone == 0) {
			last := &parts[n-1]
			last.To, last.Gone, last.Skip = p.To, last.Gone+p.Gone, last.Skip.join(&p.Skip)
			continue
		}
		parts = append(parts, p)
	}
	s.Parts = parts
}

// bare reports whether the target refuses each row of the part. No import has the id of such a part.
func (p *Part) bare() bool {
	return p.Left() == 0 && p.Refused == nil && !p.Imported && !p.GivenUp && (p.Gone == 0 || p.Skip.Len() == 0)
}

// Bounds of the descriptions, in the record of a file, of refused rows that are not in the quarantine.
const (
	// MaxSplit is how many bytes the parts may take.
	MaxSplit = 4 << 20
	// maxText is how many bytes of texts the parts may have. For rows that are refused afterwards, the record has no messages.
	maxText = 256 << 10
)

// Size is about how many bytes the parts take in the record, without a refusal that was not processed yet.
func (s *Split) Size() (bytes int) {
	for i := range s.Parts {
		p := &s.Parts[i]
		bytes += 64 + len(p.ID) + p.Skip.size()
	}
	return bytes
}

// text is how many bytes of texts the parts have.
func (s *Split) text() (bytes int) {
	for i := range s.Parts {
		bytes += s.Parts[i].Skip.text()
	}
	return bytes
}

// Imported returns how many rows the target has.
func (s *Split) Imported() (rows int64) {
	for i := range s.Parts {
		if p := &s.Parts[i]; p.Imported {
			rows += cmp.Or(p.Rows, p.Left())
		}
	}
	return rows
}

// probeFrom is the least number of rows of a file of which the first and the last one are tried alone.
const probeFrom = 16 // like buffer.systematicFrom

// If the target names cutNamed rows of a part in one attempt, or if earlier attempts named cutSkipped rows of it, then the rows up to the last named
// row become a separate part. That part is imported next. It does not wait for the refused rows that follow.
const (
	cutNamed   = 1000 // like driver.MaxRowErrors, because the target has probably not tried the other rows
	cutSkipped = 32
)

// Replace replaces the part at a place, whose id is ruled out.
func (s *Split) Replace(i int, fileID string) {
	p := s.Parts[i]
	if s.text() > maxText {
		p.Refused = slices.Clone(p.Refused)
		for i := range p.Refused {
			p.Refused[i].Message = ""
		}
	}
	s.Parts = slices.Replace(s.Parts, i, i+1, p.replace(fileID, p.ID == fileID)...)
	s.merge()
}

// replace returns the parts that take the place of a part whose id is ruled out.
//
// Named rows are skipped. If the target has not said which, a single row is the one, and several are halved. Of a whole file the first and the
// last row are tried alone.
func (p *Part) replace(fileID string, whole bool) []Part {
	part := func(from, to int64, more ...RefusedRow) Part {
		skip := p.Skip.between(from, to)
		return NewPart(fileID, from, to, skip.with(more))
	}
	left, last := p.Left(), p.Refused[len(p.Refused)-1].Row
	switch {
	case !p.OnlyErased() && last >= 0 && last+1 < p.To && (len(p.Refused) >= cutNamed || p.Skip.Len() >= cutSkipped):
		return []Part{part(p.From, last+1, p.Refused...), part(last+1, p.To)}
	case last >= 0:
		return []Part{part(p.From, p.To, p.Refused...)}
	case left == 1:
		row := p.Refused[0]
		row.Row = p.Row(0)
		return []Part{part(p.From, p.To, row)}
	case whole && p.Skip.Len() == 0 && left >= probeFrom:
		return []Part{part(p.From, p.From+1), part(p.From+1, p.To-1), part(p.To-1, p.To)}
	}
	middle := p.Row(left / 2)
	return []Part{part(p.From, middle), part(middle, p.To)}
}

// GiveUp returns the part, whose id is ruled out, with all of its rows for the quarantine. Rows that the target has named keep its words.
func (p *Part) GiveUp() Part {
	named := p.Refused
	if len(named) > 0 && named[0].Row < 0 {
		named = nil
	}
	return Part{ID: p.ID, From: p.From, To: p.To, GivenUp: true, Skip: p.Skip.with(named)}
}

// OnlyErased reports whether all rows that [Part.Refused] names were erased.
func (p *Part) OnlyErased() bool {
	return len(p.Refused) > 0 && !slices.ContainsFunc(p.Refused, func(r RefusedRow) bool { return r.Reason != ReasonErased })
}

// Omit returns the part with the rows of Refused in Skip, and with its id. The caller knows that no import has stored the rows under this id.
func (p *Part) Omit() Part {
	return Part{ID: p.ID, From: p.From, To: p.To, Skip: p.Skip.with(p.Refused), Gone: p.Gone}
}

// Erase names rows as erased, by their ascending numbers, and returns how many are new. Parts that are done keep their rows, and rows that the target
// refuses go where they go.
func (s *Split) Erase(rows []int64) (erased int) {
	for i := range s.Parts {
		p := &s.Parts[i]
		if p.Done() {
			continue
		}
		refused := p.Refused
		if len(refused) > 0 && refused[0].Row < 0 {
			refused = nil // the target has not said which rows it refuses, and will refuse the part again
		}
		named := map[int64]bool{}
		for r := range p.Skip.All() {
			named[r.Row] = true
		}
		for _, r := range refused {
			named[r.Row] = true
		}
		all := slices.Clone(refused)
		for _, row := range rows {
			if row >= p.From && row < p.To && !named[row] {
				named[row] = true
				all = append(all, RefusedRow{Row: row, Reason: ReasonErased})
			}
		}
		if n := len(all) - len(refused); n > 0 {
			erased += n
			slices.SortFunc(all, func(a, b RefusedRow) int { return cmp.Compare(a.Row, b.Row) })
			p.Refused = all
		}
	}
	return erased
}

// End returns the parts of a split that are kept after the end of its file.
func (s *Split) End() *Split {
	end := &Split{Kept: s.Kept, Erased: s.Erased}
	for _, p := range s.Parts {
		if p.Imported {
			end.Parts = append(end.Parts, Part{ID: p.ID, From: p.From, To: p.To, Imported: true, Rows: p.Left()})
		}
	}
	return end
}
