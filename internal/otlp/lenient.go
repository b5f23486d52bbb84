package otlp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// plain appends a JSON request in the form that the decoder accepts, which is narrower than protobuf's JSON mapping: null
// members are omitted (they mean the default), whole numbers lose point and exponent, and bytes become padded base64 of the
// standard alphabet. Everything else stays unchanged. src must be valid JSON.
func plain(dst, src []byte) []byte {
	p := plainer{src: src, dst: dst}
	p.value(nil)
	return p.dst
}

// plainer copies JSON from src to dst. Its recursion is bounded by maxBrackets.
type plainer struct {
	src, dst []byte
	at       int
}

// value copies one value, of the member name or in its list, and reports whether it is null.
func (p *plainer) value(name []byte) (null bool) {
	p.blank()
	if p.at == len(p.src) {
		return false
	}
	switch c := p.src[p.at]; c {
	case '{':
		p.object()
	case '[':
		p.list(name)
	case '"':
		p.text(name)
	default:
		from := p.at
		for p.at < len(p.src) && strings.IndexByte(",]} \t\r\n", p.src[p.at]) < 0 {
			p.at++
		}
		scalar := p.src[from:p.at]
		if isNumber(scalar) && bytes.ContainsAny(scalar, ".eE") {
			p.number(scalar)
		} else {
			p.dst = append(p.dst, scalar...)
		}
		return c == 'n'
	}
	return false
}

func (p *plainer) object() {
	p.dst = append(p.dst, '{')
	p.at++
	for first := true; ; {
		p.blank()
		if p.at == len(p.src) {
			return
		}
		if p.src[p.at] != '"' { // a comma or the end
			c := p.src[p.at]
			p.at++
			if c == '}' {
				p.dst = append(p.dst, c)
				return
			}
			continue
		}
		before := len(p.dst)
		if !first {
			p.dst = append(p.dst, ',')
		}
		key := p.token()
		name := key[1 : len(key)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			var s string
			_ = json.Unmarshal(key, &s) // it is valid
			name = []byte(s)
		}
		p.dst = append(p.dst, key...)
		p.blank()
		p.at++ // the colon
		p.dst = append(p.dst, ':')
		if p.value(name) {
			p.dst = p.dst[:before]
		} else {
			first = false
		}
	}
}

func (p *plainer) list(name []byte) {
	p.dst = append(p.dst, '[')
	p.at++
	for {
		p.blank()
		if p.at == len(p.src) {
			return
		}
		switch c := p.src[p.at]; c {
		case ',', ']':
			p.dst = append(p.dst, c)
			p.at++
			if c == ']' {
				return
			}
		default:
			p.value(name)
		}
	}
}

// text copies a string that is not a name.
func (p *plainer) text(name []byte) {
	token := p.token()
	switch {
	case isBytes(name):
		var s string
		if json.Unmarshal(token, &s) != nil {
			break
		}
		alphabet := base64.RawStdEncoding
		if strings.ContainsAny(s, "-_") {
			alphabet = base64.RawURLEncoding
		}
		data, err := alphabet.DecodeString(strings.TrimRight(s, "="))
		if err != nil {
			break // the decoder reports the error
		}
		p.dst = append(p.dst, '"')
		p.dst = base64.StdEncoding.AppendEncode(p.dst, data)
		p.dst = append(p.dst, '"')
		return
	case isNumber(token[1:]) && bytes.ContainsAny(token, ".eE") && isInteger[string(name)]:
		number := token[1 : len(token)-1]
		if !json.Valid(number) {
			break
		}
		p.dst = append(p.dst, '"')
		p.number(number)
		p.dst = append(p.dst, '"')
		return
	}
	p.dst = append(p.dst, token...)
}

// isNumber reports whether a value is a number, if it is valid.
func isNumber(b []byte) bool { return len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9') }

// number copies a number. A whole number that fits an integer loses its point and exponent, which does not change
// floating-point numbers, except for negative zero, which stays as it is.
func (p *plainer) number(text []byte) {
	const most = len("18446744073709551615")
	mantissa, exponent := text, 0
	var err error
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		exponent, err = strconv.Atoi(string(text[i+1:]))
	}
	digits, negative := bytes.CutPrefix(mantissa, []byte("-"))
	whole, fraction, _ := bytes.Cut(digits, []byte("."))
	all := slices.Concat(whole, fraction)
	digits = bytes.TrimRight(all, "0")
	exponent += len(all) - len(digits) - len(fraction)
	digits = bytes.TrimLeft(digits, "0")
	zero := len(digits) == 0
	if err != nil || zero && negative || !zero && (exponent < 0 || exponent > most || len(digits)+exponent > most) {
		p.dst = append(p.dst, text...)
		return
	}
	if zero {
		p.dst = append(p.dst, '0')
		return
	}
	if negative {
		p.dst = append(p.dst, '-')
	}
	p.dst = append(p.dst, digits...)
	for range exponent {
		p.dst = append(p.dst, '0')
	}
}

// token returns the string that starts here, with its quotes.
func (p *plainer) token() []byte {
	from := p.at
	for p.at++; p.at < len(p.src); {
		n := bytes.IndexByte(p.src[p.at:], '"')
		if n < 0 {
			p.at = len(p.src)
			break
		}
		escape := bytes.IndexByte(p.src[p.at:p.at+n], '\\')
		if escape < 0 {
			p.at += n + 1
			break
		}
		p.at = min(p.at+escape+2, len(p.src))
	}
	return p.src[from:p.at]
}

func (p *plainer) blank() {
	for p.at < len(p.src) {
		switch p.src[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

// isBytes reports whether the strings of a member are bytes.
func isBytes(name []byte) bool { return string(name) == "bytesValue" || string(name) == "bytes_value" }

// isInteger has the members, by both of their names, whose strings are integers.
var isInteger = map[string]bool{
	"timeUnixNano": true, "time_unix_nano": true, "startTimeUnixNano": true, "start_time_unix_nano": true,
	"endTimeUnixNano": true, "end_time_unix_nano": true, "observedTimeUnixNano": true, "observed_time_unix_nano": true,
	"intValue": true, "int_value": true, "asInt": true, "as_int": true, "count": true, "zeroCount": true, "zero_count": true,
	"bucketCounts": true, "bucket_counts": true, "offset": true, "scale": true, "flags": true,
	"droppedAttributesCount": true, "dropped_attributes_count": true, "droppedEventsCount": true, "dropped_events_count": true,
	"droppedLinksCount": true, "dropped_links_count": true,
}
