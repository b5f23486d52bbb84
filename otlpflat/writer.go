package otlpflat

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/mapping"
)

// writer visits the members of a record and either writes them all as JSON or seeks the one value of a path. Both use the
// same calls, so the written and the found values cannot disagree. The design that lost is a table of fields next to the
// writing code. It describes the record twice.
type writer struct {
	dst  []byte
	date dateCache
	// keys and seen are memory of repeatedKeys, pairs of attributes.
	keys  []string
	pairs []pair
	seen  map[string]struct{}

	// While seeking, at of the steps of path have been taken. Without steps the next member is wanted, whatever its name.
	seek  bool
	path  mapping.FieldPath
	steps int
	at    int
	want  string            // the key of the member to find
	done  bool              // found, or known to be missing
	kind  mapping.FieldKind // of the value that was found
}

func (w *writer) startWrite(dst []byte) {
	w.dst, w.seek, w.done = dst, false, false
}

// startSeek makes the writer find path, which is not empty, and append its value to dst.
func (w *writer) startSeek(dst []byte, path mapping.FieldPath) {
	w.dst, w.seek, w.done, w.kind, w.path, w.at = dst, true, false, mapping.NoField, path, 0
	w.steps = path.Len()
}

// startMember makes the writer append the value of the next member that is written to dst.
func (w *writer) startMember(dst []byte) {
	w.dst, w.seek, w.done, w.kind, w.steps, w.at = dst, true, false, mapping.NoField, 0, 0
}

// arrived reports, while seeking, whether the path ends at the current value. A scalar has no members, so the search ends
// here in any case.
func (w *writer) arrived(kind mapping.FieldKind) bool {
	w.done = true
	if w.at < w.steps {
		return false
	}
	w.kind = kind
	return true
}

// container is what open returns to close.
type container bool

// whole is the container at the end of the path. Closing it ends the search.
const whole container = true

// open starts an object or an array, by its bracket.
func (w *writer) open(bracket byte) container {
	switch {
	case !w.seek:
		w.dst = append(w.dst, bracket)
		return !whole
	case w.at == w.steps:
		w.seek, w.kind = false, mapping.FieldJSON
		w.dst = append(w.dst, bracket)
		return whole
	case bracket == '{':
		w.want, _ = w.path.Step(w.at)
		w.at++
	}
	return !whole
}

func (w *writer) close(c container, bracket byte) {
	if !w.seek {
		w.dst = append(w.dst, bracket)
	}
	if c == whole {
		w.seek = true
	}
	if w.seek {
		w.done = true
	}
}

// root starts the record, which close does not end.
func (w *writer) root() { w.open('{') }

// member starts a member of the current object and reports whether its value is wanted.
func (w *writer) member(key string) bool {
	if w.seek {
		return !w.done && (w.steps == 0 || key == w.want)
	}
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',', '"')
	} else {
		w.dst = append(w.dst, '"')
	}
	w.dst = append(w.dst, key...) // field names need no escape
	w.dst = append(w.dst, '"', ':')
	return true
}

// elements returns the range of wanted elements, of n elements of the current array.
func (w *writer) elements(n int) (from, to int) {
	if !w.seek {
		return 0, n
	}
	_, i := w.path.Step(w.at)
	w.at++
	if i < 0 || i >= n {
		w.done = true
		return 0, 0
	}
	return i, i + 1
}

// json writes a value that is JSON already, neither null nor a string.
func (w *writer) json(text []byte) {
	if !w.seek || w.arrived(mapping.FieldJSON) {
		w.dst = append(w.dst, text...)
	}
}

func (w *writer) null() {
	switch {
	case !w.seek:
		w.dst = append(w.dst, "null"...)
	default:
		w.arrived(mapping.FieldNull)
	}
}

func (w *writer) text(s string) {
	switch {
	case !w.seek:
		w.dst = jsontext.AppendString(w.dst, s, false)
	case !w.arrived(mapping.FieldText):
	case utf8.ValidString(s):
		w.dst = append(w.dst, s...)
	default: // each byte that is not UTF-8 becomes one replacement, as in JSON
		for _, r := range s {
			w.dst = utf8.AppendRune(w.dst, r)
		}
	}
}

// beginPlain starts a text that needs no escape and reports whether it is wanted.
func (w *writer) beginPlain() bool {
	if w.seek {
		return w.arrived(mapping.FieldText)
	}
	w.dst = append(w.dst, '"')
	return true
}

func (w *writer) endPlain() {
	if !w.seek {
		w.dst = append(w.dst, '"')
	}
}

func (w *writer) bool(b bool) {
	if !w.seek || w.arrived(mapping.FieldJSON) {
		w.dst = strconv.AppendBool(w.dst, b)
	}
}

func (w *writer) int(i int64) {
	if !w.seek || w.arrived(mapping.FieldJSON) {
		w.dst = strconv.AppendInt(w.dst, i, 10)
	}
}

func (w *writer) uint(u uint64) {
	if !w.seek || w.arrived(mapping.FieldJSON) {
		w.dst = strconv.AppendUint(w.dst, u, 10)
	}
}

// float writes the shortest number that reads back as f. NaN and the infinities become the strings of protobuf's JSON form,
// because JSON has no numbers for them.
func (w *writer) float(f float64) {
	switch {
	case math.IsNaN(f):
		w.plain("NaN")
	case math.IsInf(f, 1):
		w.plain("Infinity")
	case math.IsInf(f, -1):
		w.plain("-Infinity")
	case !w.seek || w.arrived(mapping.FieldJSON):
		w.dst = appendFloat(w.dst, f)
	}
}

func (w *writer) plain(s string) {
	if w.beginPlain() {
		w.dst = append(w.dst, s...)
		w.endPlain()
	}
}

// appendFloat writes numbers as encoding/json does, with an exponent only where that is shorter.
func appendFloat(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs < 1<<53 && f == math.Trunc(f) && (f != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		from := len(dst)
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		if n := len(dst); n-from >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
			dst[n-2] = dst[n-1] // e-09 is e-9
			dst = dst[:n-1]
		}
		return dst
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

func (w *writer) time(t uint64) {
	if w.beginPlain() {
		if t != 0 {
			w.dst = w.date.appendTime(w.dst, t)
		}
		w.endPlain()
	}
}

// repeatedKeys marks the elements of w.keys that a later element with the same written key replaces. It returns nil if there are none, as for
// everything that SDKs send.
func (w *writer) repeatedKeys() []bool {
	if len(w.keys) < 2 {
		return nil
	}
	valid := true
	for _, k := range w.keys {
		valid = valid && utf8.ValidString(k)
	}
	if valid && w.distinct() {
		return nil
	}
	last := make(map[string]int, len(w.keys))
	for i, k := range w.keys {
		last[string([]rune(k))] = i // the key as it is written
	}
	if len(last) == len(w.keys) {
		return nil
	}
	repeats := make([]bool, len(w.keys))
	for i := range repeats {
		repeats[i] = true
	}
	for _, i := range last {
		repeats[i] = false
	}
	return repeats
}

// distinct reports whether all of w.keys are different.
func (w *writer) distinct() bool {
	const few = 16 // up to here, comparing each with each is faster
	if len(w.keys) <= few {
		for i, k := range w.keys {
			if slices.Contains(w.keys[:i], k) {
				return false
			}
		}
		return true
	}
	if w.seen == nil {
		w.seen = make(map[string]struct{}, len(w.keys))
	}
	defer clear(w.seen)
	for _, k := range w.keys {
		w.seen[k] = struct{}{}
	}
	return len(w.seen) == len(w.keys)
}

// isKey reports whether a key is written as want.
func isKey(key, want string) bool {
	return key == want || !utf8.ValidString(key) && strings.Contains(want, replacement) && string([]rune(key)) == want
}

// replacement replaces each byte that is not UTF-8.
const replacement = string(utf8.RuneError)

// The following write a member of the current object, if it is wanted.

func (w *writer) memberText(key, s string) {
	if w.member(key) {
		w.text(s)
	}
}

func (w *writer) memberTime(key string, t uint64) {
	if w.member(key) {
		w.time(t)
	}
}

func (w *writer) memberUint(key string, u uint64) {
	if w.member(key) {
		w.uint(u)
	}
}

func (w *writer) memberAttributes(key string, f fields) {
	if w.member(key) {
		w.attributes(f)
	}
}

// memberID writes a trace or span id.
func (w *writer) memberID(key, id string) {
	if w.member(key) && w.beginPlain() {
		if !isZero(id) {
			for i := range len(id) {
				w.dst = append(w.dst, hexDigits[id[i]>>4], hexDigits[id[i]&15])
			}
		}
		w.endPlain()
	}
}

// optionalID is memberID without a member for an id that is not set.
func (w *writer) optionalID(key, id string) {
	if !isZero(id) {
		w.memberID(key, id)
	}
}

func isZero(id string) bool { return id == zeros[:len(id)] }

const (
	hexDigits = "0123456789abcdef"
	zeros     = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)

// optionalText is memberText without a member for the empty text.
func (w *writer) optionalText(key, s string) {
	if s != "" {
		w.memberText(key, s)
	}
}

// dropped writes how much the sender left out, if anything.
func (w *writer) dropped(key string, n uint32) {
	if n != 0 {
		w.memberUint(key, uint64(n))
	}
}
