package console

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Numbers are formatted here and nowhere else, so the document and the messages carry the same texts.

// cell is a text, and the exact value if the text is rounded.
type cell struct{ Text, Exact string }

// MarshalJSON makes a string of an exact cell, else ["text", "exact"].
func (c cell) MarshalJSON() ([]byte, error) {
	if c.Exact == "" {
		return json.Marshal(c.Text)
	}
	return json.Marshal([]string{c.Text, c.Exact})
}

// unknown is shown for an unknown value, and never 0.
const unknown = "–"

// grouped writes an integer with a separator between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// count is exact up to 99,999, then has three digits.
func count(n int64) cell {
	if n > -100_000 && n < 100_000 {
		return cell{Text: grouped(n)}
	}
	v, unit := float64(n), ""
	for _, unit = range []string{" k", " M", " G", " T"} {
		if v /= 1000; v < 999.5 && v > -999.5 {
			break
		}
	}
	return cell{three(v) + unit, grouped(n)}
}

// size is in KiB, MiB, GiB, as the limits are.
func size(n int64) cell {
	if n < 1024 {
		return cell{Text: strconv.FormatInt(n, 10) + " B"}
	}
	v, unit := float64(n), ""
	for _, unit = range []string{" KiB", " MiB", " GiB", " TiB"} {
		if v /= 1024; v < 999.5 {
			break
		}
	}
	return cell{three(v) + unit, grouped(n) + " B"}
}

// three writes v with three digits.
func three(v float64) string {
	digits := 0
	switch {
	case v < 9.995 && v > -9.995:
		digits = 2
	case v < 99.95 && v > -99.95:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// rate is per second.
func rate(v float64) cell {
	switch {
	case v == 0:
		return cell{Text: "0"}
	case v < 0.05:
		return cell{Text: "< 0.1"}
	case v < 9.95:
		return cell{Text: strconv.FormatFloat(v, 'f', 1, 64)}
	}
	return count(int64(v + 0.5))
}

// duration has two units.
func duration(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s < 1:
		return "now"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %02d h", s/86400, s/3600%24)
}

// coarse has one unit below an hour, for estimates.
func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(1, int64(d/time.Second)))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int64(d/time.Minute))
	}
	return duration(d)
}

// rowsOf is a number of rows with its noun.
func rowsOf(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return count(n).Text + " rows"
}

// maxShown bounds a name or an error in a sentence, in bytes.
const maxShown = 600

// visible returns a text of a stranger with marks for characters that are invisible or change the direction of the text after them, cut to maxShown bytes.
func visible(s string) string {
	s, cut := headOf(s, maxShown)
	plain := utf8.ValidString(s)
	for _, r := range s {
		plain = plain && shown(r)
	}
	if !plain {
		var b strings.Builder
		for _, r := range s {
			switch {
			case r == '\n' || r == '\t':
				b.WriteByte(' ')
			case !shown(r) || r == utf8.RuneError:
				fmt.Fprintf(&b, "‹U+%04X›", r)
			default:
				b.WriteRune(r)
			}
		}
		s = b.String()
	}
	if cut {
		s += "…"
	}
	return s
}

// shown reports whether a character has a visible glyph and leaves the direction of its neighbours alone.
func shown(r rune) bool { return unicode.IsGraphic(r) && (r == ' ' || !unicode.IsSpace(r)) }

// moment is a time in a sentence. It becomes a number of milliseconds in JSON, and the page writes it in the zone of its viewer.
type moment time.Time

// MarshalJSON writes milliseconds since 1970.
func (m moment) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Time(m).UnixMilli(), 10), nil
}

// until is the time left until at. It becomes {"until": milliseconds} in JSON, and the page counts it down, so that a message is sent only when at changes.
type until struct{ at, now time.Time }

// MarshalJSON writes the time, not the time left.
func (u until) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"until":%d}`, u.at.UnixMilli()), nil
}

// String is the time left, for the document, logs and tests.
func (u until) String() string { return coarse(u.at.Sub(u.now)) }

// aged is the time since at. It becomes {"age": milliseconds} in JSON, and the page counts it.
type aged struct{ at, now time.Time }

// MarshalJSON writes the time, not its age.
func (a aged) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"age":%d}`, a.at.UnixMilli()), nil
}

// String is the age, for the document, logs and tests.
func (a aged) String() string {
	if d := a.now.Sub(a.at); d >= time.Second {
		return duration(d)
	}
	return "under 1 s"
}

// sentence is a list of strings and times: [moment], [until] and [aged]. Strings of strangers are visible.
type sentence []any

// said joins parts, which are strings, times and sentences.
func said(parts ...any) sentence {
	var s sentence
	var flat []any
	for _, p := range parts {
		if inner, ok := p.(sentence); ok {
			flat = append(flat, inner...)
		} else {
			flat = append(flat, p)
		}
	}
	for _, p := range flat {
		switch p := p.(type) {
		case time.Time:
			s = append(s, moment(p))
		case string:
			if last := len(s) - 1; last >= 0 {
				if before, ok := s[last].(string); ok {
					s[last] = before + p
					continue
				}
			}
			s = append(s, p)
		default:
			s = append(s, p)
		}
	}
	return s
}

// String is the sentence with times in UTC, for logs and tests.
func (s sentence) String() string {
	var b strings.Builder
	for _, p := range s {
		if m, ok := p.(moment); ok {
			b.WriteString(time.Time(m).UTC().Format("15:04"))
		} else {
			fmt.Fprint(&b, p)
		}
	}
	return b.String()
}
