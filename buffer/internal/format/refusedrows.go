package format

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
)

// RefusedRows are refused rows of a file by ascending numbers, in little memory. They take a byte for a row, or a few bytes for any number of
// rows with equal distances and equal words. The zero value has no rows. It is never changed.
//
// runs is a sequence of runs. A run begins with the distance of its first row from the last row before it, twice, plus 1 if more follows. Without
// more, the run is one row with the words of the previous run. Otherwise these numbers follow: rows after the first row, their distance, the
// index of the words. All numbers are unsigned varints.
//
// In a record it is {"words":[…],"runs":"…"}. Files that were split before this form existed have an array of [RefusedRow].
type RefusedRows struct {
	rows  int64
	words []words
	runs  []byte
}

// words is a target's description of refused rows.
type words struct {
	Column  string `json:"column,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func (w *words) size() int { return len(w.Column) + len(w.Reason) + len(w.Message) }

// Refuse returns refused rows. Their numbers ascend.
func Refuse(rows ...RefusedRow) RefusedRows { return collect(slices.Values(rows)) }

// maxSingles is the number of rows up to which single rows need no more bytes than a run.
const maxSingles = 4

// collect returns the rows of a sequence. Their numbers ascend.
func collect(seq iter.Seq[RefusedRow]) RefusedRows {
	c := collector{before: -1}
	for r := range seq {
		c.add(run{r.Row, 0, 1, c.index(words{r.Column, r.Reason, r.Message})})
	}
	return c.end()
}

// join returns the rows of both. The rows of later follow.
func (s *RefusedRows) join(later *RefusedRows) RefusedRows {
	c := collector{before: -1}
	for _, rows := range []*RefusedRows{s, later} {
		for r := range rows.each() {
			r.word = c.index(rows.words[r.word])
			c.add(r)
		}
	}
	return c.end()
}

// collector makes refused rows of runs.
type collector struct {
	out     RefusedRows
	indexes map[words]uint64
	run     run    // the last run, which is not in out yet
	before  int64  // the last row in out
	word    uint64 // its words
}

func (c *collector) index(w words) uint64 {
	if c.run.count > 0 && c.out.words[c.run.word] == w {
		return c.run.word
	}
	i, ok := c.indexes[w]
	if !ok {
		if c.indexes == nil {
			c.indexes = map[words]uint64{}
		}
		i = uint64(len(c.out.words))
		c.indexes[w], c.out.words = i, append(c.out.words, w)
	}
	return i
}

// add adds a run that follows all others.
func (c *collector) add(r run) {
	last := &c.run
	gap := r.first - last.end()
	if last.count > 0 && r.word == last.word && (last.count == 1 || last.step == gap) && (r.count == 1 || r.step == gap) {
		last.step = gap
		last.count += r.count
		return
	}
	c.flush()
	c.run = r
}

func (c *collector) flush() {
	r := c.run
	c.out.rows += r.count
	switch {
	case r.count == 0:
		return
	case r.word == c.word && r.count <= maxSingles:
		for i := range r.count {
			gap := r.step
			if i == 0 {
				gap = r.first - c.before
			}
			c.out.runs = binary.AppendUvarint(c.out.runs, uint64(gap)<<1)
		}
	default:
		c.out.runs = binary.AppendUvarint(c.out.runs, uint64(r.first-c.before)<<1|1)
		for _, n := range []uint64{uint64(r.count - 1), uint64(r.step), r.word} {
			c.out.runs = binary.AppendUvarint(c.out.runs, n)
		}
	}
	c.before, c.word = c.run.end(), c.run.word
}

func (c *collector) end() RefusedRows {
	c.flush()
	return c.out
}

// run is rows with equal distances and equal words.
type run struct {
	first, step, count int64
	word               uint64
}

func (r *run) end() int64 { return r.first + (r.count-1)*r.step }

// each returns the runs.
func (s *RefusedRows) each() iter.Seq[run] {
	return func(yield func(run) bool) {
		before, r := int64(-1), run{}
		for b := s.runs; len(b) > 0; {
			take := func() int64 {
				n, size := binary.Uvarint(b)
				b = b[size:]
				return int64(n)
			}
			head := take()
			r = run{before + head>>1, 0, 1, r.word}
			if head&1 == 1 {
				r.count, r.step, r.word = take()+1, take(), uint64(take())
			}
			before = r.end()
			if !yield(r) {
				return
			}
		}
	}
}

// check reports whether the runs are rows with words.
func (s *RefusedRows) check() error {
	bad := errors.New("format: damaged runs of refused rows")
	before := int64(-1)
	word := uint64(0)
	for b := s.runs; len(b) > 0; {
		var n [4]uint64
		for i := range n {
			if i > 0 && n[0]&1 == 0 {
				break
			}
			size := 0
			if n[i], size = binary.Uvarint(b); size <= 0 || n[i] > math.MaxInt64 {
				return bad
			}
			b = b[size:]
		}
		gap, more, step := int64(n[0]>>1), int64(n[1]), int64(n[2])
		if n[0]&1 == 1 {
			word = n[3]
		}
		if gap == 0 || before > math.MaxInt64-gap || more > 0 && (step == 0 || more > (math.MaxInt64-before-gap)/step) || word >= uint64(len(s.words)) {
			return bad
		}
		before += gap + more*step
		s.rows += more + 1
	}
	return nil
}

// Len returns the number of rows.
func (s *RefusedRows) Len() int64 { return s.rows }

// IsZero reports whether there are no rows. A record then has no member for them.
func (s RefusedRows) IsZero() bool { return s.rows == 0 }

// size is about how many bytes the rows take in a record.
func (s *RefusedRows) size() int {
	if s.rows == 0 {
		return 0
	}
	return s.text() + 48*len(s.words) + len(s.runs)*4/3
}

// text is how many bytes the words have.
func (s *RefusedRows) text() (size int) {
	for i := range s.words {
		size += s.words[i].size()
	}
	return size
}

// All returns the rows.
func (s *RefusedRows) All() iter.Seq[RefusedRow] { return s.after(0) }

// after returns the rows after the first n.
func (s *RefusedRows) after(n int64) iter.Seq[RefusedRow] {
	return func(yield func(RefusedRow) bool) {
		for r := range s.each() {
			for i := min(n, r.count); i < r.count; i++ {
				w := &s.words[r.word]
				if !yield(RefusedRow{r.first + i*r.step, w.Column, w.Reason, w.Message}) {
					return
				}
			}
			n = max(0, n-r.count)
		}
	}
}

// between returns the rows with numbers from from to before to.
func (s *RefusedRows) between(from, to int64) RefusedRows {
	return collect(func(yield func(RefusedRow) bool) {
		for r := range s.All() {
			if r.Row >= to || r.Row >= from && !yield(r) {
				return
			}
		}
	})
}

// with returns these rows and others that are not among them. The numbers of the others ascend.
func (s *RefusedRows) with(others []RefusedRow) RefusedRows {
	return collect(func(yield func(RefusedRow) bool) {
		for r := range s.All() {
			for ; len(others) > 0 && others[0].Row < r.Row; others = others[1:] {
				if !yield(others[0]) {
					return
				}
			}
			if !yield(r) {
				return
			}
		}
		for _, r := range others {
			if !yield(r) {
				return
			}
		}
	})
}

// MarshalJSON implements [json.Marshaler].
func (s RefusedRows) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{s.words, s.runs})
}

type stored struct {
	Words []words `json:"words"`
	Runs  []byte  `json:"runs"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *RefusedRows) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var rows []RefusedRow
		err := json.Unmarshal(b, &rows)
		*s = Refuse(rows...)
		return err
	}
	var in stored
	err := json.Unmarshal(b, &in)
	*s = RefusedRows{words: in.Words, runs: in.Runs}
	return errors.Join(err, s.check())
}
