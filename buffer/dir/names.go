package dir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/buffer"
)

// checkID refuses what is not an id of the buffer. An id becomes a file name as it is, so this is also what keeps every
// file inside of its directory.
func checkID(kind, id string) error {
	valid := 0 < len(id) && len(id) <= 64
	for _, c := range []byte(id) {
		valid = valid && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !valid {
		return buffer.Permanent(fmt.Errorf("%s id %.80q: want 1 to 64 lower-case letters, digits and '-'", kind, id))
	}
	return nil
}

// checkTable refuses what table.json cannot hold.
func checkTable(t buffer.Table) error {
	if t.ID == "" || !utf8.ValidString(t.ID) {
		return buffer.Permanent(fmt.Errorf("table id %.80q: want UTF-8 text that is not empty", t.ID))
	}
	if len(t.Columns) == 0 {
		return buffer.Permanent(fmt.Errorf("table %q: want at least one column", t.ID))
	}
	for _, c := range t.Columns {
		if !utf8.ValidString(c) {
			return buffer.Permanent(fmt.Errorf("table %q: column name %.80q is not UTF-8", t.ID, c))
		}
	}
	return nil
}

// maxFolder keeps the name of a folder under the limit of 255 bytes that most file systems have.
const maxFolder = 200

// folder returns the name of a table's directory. ASCII letters, digits, '_', '-' and inner dots stay, so that usual
// ids can be read; every other byte becomes %XX. A long name is cut and ends with "~" and a hash. The result is neither
// empty (for an id that is not) nor "." nor "..", has no separator, and begins with no dot.
//
// Ids that differ only in case share a folder on some file systems; table.json holds the id and tells them apart.
func folder(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-',
			c == '.' && 0 < i && i < len(id)-1:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) <= maxFolder {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	tail := "~" + hex.EncodeToString(sum[:16])
	return name[:maxFolder-len(tail)] + tail
}

// definitionID names the temporary files of a table.json. It is no id of a file, because of the underscore.
func definitionID(table string) string {
	sum := sha256.Sum256([]byte(table))
	return "table_" + hex.EncodeToString(sum[:8])
}
