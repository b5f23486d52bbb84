package extractor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/forebay/forebay/extractor/internal/datetext"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// Families of references that only the parameters of jobs with such a section know.
const (
	familyIncremental = "incremental"
	familyWindow      = "window"
)

// incrementalConfig lets a job ask only for records from the highest value on that a field had in earlier runs.
type incrementalConfig struct {
	name, path string
	// parse makes the value of a field comparable, and less orders two of them.
	kind     cursorKind
	initial  cursorValue
	lookback cursorValue // to subtract, of numbers and times
	missing  missingAction
}

// missingAction says what happens to a record without a value for the cursor.
type missingAction uint8

const (
	missingFails missingAction = iota
	missingKeeps
	missingSkips
)

type cursorKind uint8

const (
	cursorText cursorKind = iota
	cursorNumber
	cursorTime
)

// A cursorValue is text, or an integer, which is the number, or Unix seconds.
type cursorValue struct {
	text   string
	number *big.Int // nil of a text
}

// parse reads the value of a field.
func (k cursorKind) parse(n tree.Node) (cursorValue, bool) {
	switch k {
	case cursorText:
		return cursorValue{text: n.Text()}, n.IsScalar() && n.Text() != ""
	case cursorTime:
		if n.Kind() == tree.String {
			if at, ok := fixedTime(n.Str()); ok {
				return cursorValue{number: big.NewInt(at.Unix())}, true
			}
		}
	}
	number, ok := n.Number()
	if !ok {
		return cursorValue{}, false
	}
	i, ok := number.Integer()
	return cursorValue{number: i}, ok
}

// fixedTime reads a date or time that does not depend on when it is read.
func fixedTime(text string) (time.Time, bool) {
	at, ok := datetext.Parse(text, time.Unix(0, 0))
	if !ok {
		return at, false
	}
	// Every part of this time differs from the first.
	other, ok := datetext.Parse(text, time.Date(2001, 9, 12, 13, 14, 15, 0, time.UTC))
	return at, ok && other.Equal(at)
}

func (v cursorValue) compare(o cursorValue) int {
	if v.number == nil || o.number == nil {
		return cmp.Compare(v.text, o.text)
	}
	return v.number.Cmp(o.number)
}

// less returns the value that lies by another below.
func (v cursorValue) less(by cursorValue) cursorValue {
	if v.number == nil || by.number == nil {
		return v
	}
	return cursorValue{number: new(big.Int).Sub(v.number, by.number)}
}

// String is the form in states.
func (v cursorValue) String() string {
	if v.number == nil {
		return v.text
	}
	return v.number.String()
}

func (v cursorValue) node() tree.Node {
	if v.number == nil {
		return tree.OfString(v.text)
	}
	return tree.OfInteger(v.number)
}

// restore reads the form in states.
func (k cursorKind) restore(s string) (cursorValue, bool) {
	if k == cursorText {
		return cursorValue{text: s}, true
	}
	i, ok := new(big.Int).SetString(s, 10)
	return cursorValue{number: i}, ok
}

func parseIncremental(s *section, job string) *incrementalConfig {
	below := s.section("incremental")
	if below == nil {
		return nil
	}
	ic := &incrementalConfig{name: below.text("name", job), path: below.required("path")}
	switch kind := below.text("type", "time"); kind {
	case "text":
	case "number":
		ic.kind = cursorNumber
	case "time":
		ic.kind = cursorTime
	default:
		below.wrong("type", "must be time, number or text, not %q", kind)
	}
	switch action := below.text("missing", "fail"); action {
	case "fail":
	case "keep":
		ic.missing = missingKeeps
	case "skip":
		ic.missing = missingSkips
	default:
		below.wrong("missing", "must be fail, keep or skip, not %q", action)
	}
	n, _ := below.get("initial")
	var ok bool
	if ic.initial, ok = ic.kind.parse(n); !ok {
		below.wrong("initial", "is required: the start of the first run, of the type of the cursor, and not relative to now")
	}
	if n, ok := below.get("lookback"); ok {
		switch i, isInteger := n.Digits(); {
		case ic.kind == cursorText:
			below.wrong("lookback", "needs a cursor of type time or number")
		case isInteger && i >= 0:
			ic.lookback = cursorValue{number: big.NewInt(i)}
		case ic.kind == cursorTime && n.Kind() == tree.String:
			zero := time.Unix(0, 0).UTC()
			if end, ok := datetext.Parse(n.Str(), zero); ok && !end.Before(zero) {
				ic.lookback = cursorValue{number: big.NewInt(end.Unix())}
				break
			}
			fallthrough
		default:
			below.wrong("lookback", `must be a number that is not negative, or of a time a duration such as "2 days"`)
		}
	}
	below.done()
	return ic
}

// Cursor is how far the records of an incremental job have been delivered.
type Cursor struct {
	// Value is the highest value of the cursor, as text, an integer, or Unix seconds.
	Value string `json:"value"`
	// Seen are the values by checksum of the records that were delivered and lie within lookback below Value, or at Value.
	// The next run is given them again by the API, and does not deliver them again.
	Seen map[string]string `json:"seen,omitempty"`
}

// mostSeen bounds the records that a state remembers for each cursor.
const mostSeen = 100_000

// A follower applies an incrementalConfig to one run of its job. It is used by one goroutine.
type follower struct {
	config *incrementalConfig
	// bottom is where the run begins. Records below it have been delivered, or are older than the configuration wants.
	bottom cursorValue
	high   cursorValue
	seen   map[string]cursorValue
	// before are the records that earlier runs delivered, none of them above beforeHigh. Unlike seen they stay while high moves, because an API
	// that sends the newest records first gives them last.
	before     map[string]cursorValue
	beforeHigh cursorValue
	// onPage counts equal records on one page, so that each of them is delivered.
	onPage map[string]int
	prune  int // the number of records in seen at which it is pruned
	// forgot is set when more records lie in the window than are remembered.
	forgot  bool
	scratch []byte
}

// newFollower continues after an earlier run, or after the pages of this run before the checkpoint it continues from.
func newFollower(ic *incrementalConfig, committed, pending *Cursor) (*follower, error) {
	f := &follower{config: ic, bottom: ic.initial, high: ic.initial, seen: make(map[string]cursorValue), onPage: make(map[string]int)}
	load := func(c *Cursor) error {
		var ok bool
		if f.high, ok = ic.kind.restore(c.Value); !ok {
			return fmt.Errorf("the cursor %q of the state cannot be read: is it of another type now?", ic.name)
		}
		f.seen = make(map[string]cursorValue, len(c.Seen))
		for sum, text := range c.Seen {
			v, ok := ic.kind.restore(text)
			if !ok {
				return fmt.Errorf("the cursor %q of the state cannot be read", ic.name)
			}
			f.seen[sum] = v
		}
		return nil
	}
	if committed != nil {
		if err := load(committed); err != nil {
			return nil, err
		}
		if f.bottom = f.high.less(ic.lookback); f.bottom.compare(ic.initial) < 0 {
			f.bottom = ic.initial
		}
		f.before, f.beforeHigh = maps.Clone(f.seen), f.high
	}
	if pending != nil {
		if err := load(pending); err != nil {
			return nil, err
		}
	}
	f.prune = 2*len(f.seen) + 1024
	return f, nil
}

// skip returns which items of a page must not be delivered, nil for none, and takes the others into account.
func (f *follower) skip(ctx context.Context, items tree.Node) (map[int]bool, error) {
	var skip map[int]bool
	leave := func(i int) {
		if skip == nil {
			skip = make(map[int]bool)
		}
		skip[i] = true
	}
	clear(f.onPage)
	i := -1
	for m := range items.Each() {
		if i++; i%1024 == 1023 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, _ := m.Value.At(f.config.path, ".")
		v, ok := f.config.kind.parse(n)
		switch absent := n.Kind() == tree.Null || n.Kind() == tree.String && n.Str() == ""; {
		case !ok && (!absent || f.config.missing == missingFails):
			return nil, fmt.Errorf("item %d has no value for the cursor at %q%s", i, f.config.path, map[bool]string{true: "; incremental.missing can keep or skip such items"}[absent])
		case !ok && f.config.missing == missingKeeps:
		case !ok || !f.deliver(m.Value, v):
			leave(i)
		}
	}
	return skip, nil
}

func (f *follower) deliver(item tree.Node, v cursorValue) bool {
	if v.compare(f.bottom) < 0 {
		return false
	}
	if v.compare(f.high) > 0 {
		f.high = v
	}
	// The next run does not ask for old records.
	old, mayBeKnown := v.compare(f.high.less(f.config.lookback)) < 0, len(f.before) > 0 && v.compare(f.beforeHigh) <= 0
	if old && !mayBeKnown {
		return true
	}
	f.scratch = item.AppendJSON(f.scratch[:0], tree.Exact)
	sum := sha256.Sum256(f.scratch)
	key := hex.EncodeToString(sum[:16])
	if n := f.onPage[key]; n > 0 {
		f.onPage[key]++
		key = fmt.Sprintf("%s-%d", key, n+1)
	} else {
		f.onPage[key] = 1
	}
	if _, known := f.before[key]; known && mayBeKnown {
		return false
	}
	if old {
		return true
	}
	if _, known := f.seen[key]; known {
		return false
	}
	f.seen[key] = v
	if len(f.seen) >= f.prune {
		f.forget()
	}
	return true
}

// forget drops the records that the next run does not ask for, and the lowest of too many.
func (f *follower) forget() {
	bottom := f.high.less(f.config.lookback)
	maps.DeleteFunc(f.seen, func(_ string, v cursorValue) bool { return v.compare(bottom) < 0 })
	if extra := len(f.seen) - mostSeen; extra > 0 {
		f.forgot = true
		keys := slices.SortedFunc(maps.Keys(f.seen), func(a, b string) int { return f.seen[a].compare(f.seen[b]) })
		for _, key := range keys[:extra] {
			delete(f.seen, key)
		}
	}
	f.prune = 2*len(f.seen) + 1024
}

// remembered returns the number of records in the position for the state, or more.
func (f *follower) remembered() int {
	if f == nil {
		return 0
	}
	return len(f.seen)
}

// cursor returns the position for the state.
func (f *follower) cursor() *Cursor {
	f.forget()
	c := &Cursor{Value: f.high.String(), Seen: make(map[string]string, len(f.seen))}
	for key, v := range f.seen {
		c.Seen[key] = v.String()
	}
	return c
}

// windowConfig lets a job run once for each of a row of time windows.
type windowConfig struct {
	name     string
	from     time.Time
	to       string
	step     string
	lookback string // a shift backwards, "" for none
	partial  bool
}

func parseWindows(s *section, job string) *windowConfig {
	below := s.section("windows")
	if below == nil {
		return nil
	}
	wc := &windowConfig{name: below.text("name", job), to: below.text("to", "now"), step: below.text("step", "1 day"), partial: below.boolean("partial", true)}
	epoch := time.Unix(0, 0).UTC()
	var ok bool
	if wc.from, ok = fixedTime(below.text("from", "")); !ok {
		below.wrong("from", "is required: the date or time at which the first window begins, not one relative to now")
	}
	if _, ok := datetext.Parse(wc.to, epoch); !ok {
		below.wrong("to", `must be a date or time, such as "now" or "today"`)
	}
	if end, ok := datetext.Parse(wc.step, epoch); !ok || !end.After(epoch) {
		below.wrong("step", `must be a duration such as "1 day"`)
	}
	if text := below.text("lookback", ""); text != "" {
		wc.lookback = text + " ago"
		if begin, ok := datetext.Parse(wc.lookback, epoch); !ok || begin.After(epoch) {
			below.wrong("lookback", `must be a duration such as "2 days"`)
		}
	}
	below.done()
	return wc
}

// A window is a time from its first second to the second before its last.
type window struct{ from, to time.Time }

// next returns the window that begins at from, and ok is false when there is none before the end.
func (wc *windowConfig) next(from, end time.Time) (w window, ok bool) {
	to, ok := wc.after(from)
	if !ok || !to.After(from) || !from.Before(end) {
		return w, false
	}
	if to.After(end) {
		if !wc.partial {
			return w, false
		}
		to = end
	}
	return window{from, to}, true
}

// after returns the time one step after another. Steps of whole months from a day that a month lacks end on its last day. The windows from January 31
// begin on February 29 and March 31.
func (wc *windowConfig) after(from time.Time) (time.Time, bool) {
	to, ok := datetext.Parse(wc.step, from)
	months := wc.months()
	if !ok || months == 0 {
		return to, ok
	}
	lastDay := func(t time.Time) int { return time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() }
	day := from.Day()
	if day == min(wc.from.Day(), lastDay(from)) {
		day = wc.from.Day()
	}
	first := time.Date(from.Year(), from.Month()+time.Month(months), 1, from.Hour(), from.Minute(), from.Second(), 0, time.UTC)
	return first.AddDate(0, 0, min(day, lastDay(first))-1), true
}

// months returns the length of a step in months, 0 if it has another unit too.
func (wc *windowConfig) months() int {
	var months int
	for month := time.January; month <= time.February; month++ {
		begin := time.Date(1970, month, 1, 0, 0, 0, 0, time.UTC)
		end, ok := datetext.Parse(wc.step, begin)
		n := (end.Year()-1970)*12 + int(end.Month()-month)
		if !ok || !begin.AddDate(0, n, 0).Equal(end) || month > time.January && n != months {
			return 0
		}
		months = n
	}
	return months
}

// begin returns where the first window of a run begins. done is the end of the last window of earlier runs, 0 for none.
func (wc *windowConfig) begin(done int64) time.Time {
	if done == 0 {
		return wc.from
	}
	at := time.Unix(done, 0).UTC()
	if wc.lookback != "" {
		if back, ok := datetext.Parse(wc.lookback, at); ok {
			at = back
		}
	}
	if at.Before(wc.from) {
		return wc.from
	}
	return at
}

// values are the values that {"window": name} refers to.
func (w window) values() map[string]tree.Node {
	return map[string]tree.Node{
		"from": tree.OfInt(w.from.Unix()), "to": tree.OfInt(w.to.Unix()), "last": tree.OfInt(w.to.Unix() - 1),
	}
}
