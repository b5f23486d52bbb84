package flatten

import (
	"crypto/md5"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxName is the longest name of a table or column.
const maxName = 64

// SafeName makes a name of a table or column. Letters, digits and "-" stay, everything else becomes "_", never at
// an end and never two in a row. A name of more than 64 characters is its checksum and its end.
func SafeName(name string) string {
	var b strings.Builder
	gap := false
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			if gap && b.Len() > 0 {
				b.WriteByte('_')
			}
			b.WriteByte(c)
			gap = false
			continue
		}
		gap = true
	}
	out := b.String()
	if len(out) > maxName {
		sum := md5.Sum([]byte(out))
		out = hex.EncodeToString(sum[:]) + "_" + out[len(out)-(maxName-33):]
	}
	if out == "" {
		return "empty"
	}
	return out
}

// taken gives names that are not taken yet. A later one gets "_u0", "_u1" and so on. The value of a name is the number
// with which to try next.
type taken map[string]int

func (t taken) has(name string) bool {
	_, ok := t[name]
	return ok
}

func (t taken) name(wanted string) string {
	name := wanted
	for i := t[wanted]; t.has(name); i++ {
		name = wanted + "_u" + strconv.Itoa(i)
		t[wanted] = i + 1
	}
	t[name] = 0
	return name
}
