package postgres

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/forebay/forebay/datatype"
)

const (
	// PostgreSQL counts from 2000-01-01.
	epochDays   = 10_957
	epochMicros = epochDays * 24 * 60 * 60 * 1_000_000

	jsonbVersion = 1
)

// appendBinary appends a row in the binary form of COPY, which is the number of columns, and for each its length and bytes.
func (s fields) appendBinary(dst []byte, cells [][]byte, n int64) ([]byte, *refusal) {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	for i := range s {
		f := &s[i]
		if f.cell < 0 {
			dst = appendUint64(dst, uint64(n))
			continue
		}
		cell := cells[f.cell]
		if cell == nil {
			dst = binary.BigEndian.AppendUint32(dst, math.MaxUint32) // -1
			continue
		}
		var err error
		switch f.typ {
		case datatype.Untyped, datatype.String:
			if no := f.check(cell); no != nil {
				return dst, no
			}
			dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(cell))), cell...)
		case datatype.JSON:
			if f.oid == pgtype.JSONBOID {
				dst = append(binary.BigEndian.AppendUint32(dst, uint32(1+len(cell))), jsonbVersion)
			} else {
				dst = binary.BigEndian.AppendUint32(dst, uint32(len(cell)))
			}
			dst = append(dst, cell...)
		case datatype.Bool:
			var v bool
			v, err = datatype.ParseBool(cell)
			dst = append(dst, 0, 0, 0, 1, 0)
			if v {
				dst[len(dst)-1] = 1
			}
		case datatype.Int64:
			var v int64
			switch v, err = datatype.ParseInt64(cell); {
			case err != nil:
			case f.oid == pgtype.NumericOID:
				dst = appendNumeric(dst, cell, 0)
			default:
				dst = appendUint64(dst, uint64(v))
			}
		case datatype.Float64:
			var v float64
			v, err = datatype.ParseFloat64(cell)
			dst = appendUint64(dst, math.Float64bits(v))
		case datatype.Timestamp:
			var v int64
			v, err = datatype.ParseTimestamp(cell)
			dst = appendUint64(dst, uint64(v-epochMicros))
		case datatype.Date:
			var v int32
			v, err = datatype.ParseDate(cell)
			dst = binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 4), uint32(v-epochDays))
		case datatype.UUID:
			var v [16]byte
			v, err = datatype.ParseUUID(cell)
			dst = append(append(dst, 0, 0, 0, 16), v[:]...)
		case datatype.Bytes:
			at := len(dst)
			dst, err = datatype.AppendBytes(append(dst, 0, 0, 0, 0), cell)
			binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
		default:
			if _, _, err = datatype.ParseDecimal(cell, f.precision, f.scale); err == nil {
				dst = appendNumeric(dst, cell, f.scale)
			}
		}
		if err != nil {
			return dst, f.refuse()
		}
	}
	return dst, nil
}

func appendUint64(dst []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), v)
}

// appendNumeric appends the text of a number as a numeric, which is digits of base 10,000 around the point, without zeros at either end.
// weight is the power of the first one.
func appendNumeric(dst, text []byte, scale int) []byte {
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	whole, frac := text, []byte(nil)
	if scale > 0 {
		whole, frac = text[:len(text)-scale-1], text[len(text)-scale:]
	}
	at := len(dst)
	dst = append(dst, make([]byte, 12)...) // length, count, weight, sign, scale
	weight := (len(whole)+3)/4 - 1
	first := true
	group := func(digits []byte, power int) {
		v := uint16(0)
		for _, d := range digits {
			v = v*10 + uint16(d-'0')
		}
		for range power {
			v *= 10
		}
		if first && v == 0 {
			weight--
			return
		}
		first = false
		dst = binary.BigEndian.AppendUint16(dst, v)
	}
	for len(whole) > 0 {
		n := (len(whole)-1)%4 + 1
		group(whole[:n], 0)
		whole = whole[n:]
	}
	for len(frac) > 0 {
		n := min(4, len(frac))
		group(frac[:n], 4-n)
		frac = frac[n:]
	}
	for len(dst) > at+12 && dst[len(dst)-1] == 0 && dst[len(dst)-2] == 0 {
		dst = dst[:len(dst)-2]
	}
	count := (len(dst) - at - 12) / 2
	if count == 0 {
		weight = 0
	}
	head := dst[at:]
	binary.BigEndian.PutUint32(head, uint32(len(dst)-at-4))
	binary.BigEndian.PutUint16(head[4:], uint16(count))
	binary.BigEndian.PutUint16(head[6:], uint16(int16(weight)))
	if negative {
		head[8] = 0x40
	}
	binary.BigEndian.PutUint16(head[10:], uint16(scale))
	return dst
}

// appendCSV appends a row as CSV. Each cell is the text that PostgreSQL reads for its type, which is the cell itself, except for bytes.
func (s fields) appendCSV(dst []byte, cells [][]byte, n int64) ([]byte, *refusal) {
	for i := range s {
		f := &s[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		if f.cell < 0 {
			dst = strconv.AppendInt(dst, n, 10)
			continue
		}
		cell := cells[f.cell]
		if cell == nil {
			continue
		}
		if no := f.check(cell); no != nil {
			return dst, no
		}
		dst = append(dst, '"')
		if f.typ == datatype.Bytes {
			bytes := make([]byte, 0, base64.StdEncoding.DecodedLen(len(cell)))
			bytes, err := datatype.AppendBytes(bytes, cell)
			if err != nil {
				return dst, f.refuse()
			}
			dst = hex.AppendEncode(append(dst, `\x`...), bytes)
		} else {
			dst = appendQuoted(dst, cell)
		}
		dst = append(dst, '"')
	}
	return append(dst, '\n'), nil
}

// appendQuoted doubles quotes.
func appendQuoted(dst, cell []byte) []byte {
	for {
		i := bytes.IndexByte(cell, '"')
		if i < 0 {
			return append(dst, cell...)
		}
		dst = append(append(dst, cell[:i+1]...), '"')
		cell = cell[i+1:]
	}
}
