package parts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/driver"
)

// CheckID refuses anything but an id of the buffer. Ids are used as file names unchanged, so this check also keeps every
// file inside its directory.
func CheckID(kind, id string) error {
	valid := 0 < len(id) && len(id) <= 64
	for _, c := range []byte(id) {
		valid = valid && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !valid {
		return driver.Permanent(fmt.Errorf("%s id %.80q: want 1 to 64 lower-case letters, digits and '-'", kind, id))
	}
	return nil
}

// CheckArchive refuses a name that no archive of raw records has, see forebay.Source.ArchiveID. It keeps objects inside of their folder.
func CheckArchive(name string) error {
	source, generation, more := strings.Cut(name, ".")
	plain := func(s string) bool { return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == "" }
	if !plain(source) || more && !plain(generation) {
		return driver.Permanent(fmt.Errorf("%.80q is not the name of an archive: want a-z, 0-9, '-' and '_', and at most one inner dot", name))
	}
	return nil
}

// checkTable refuses what table.json cannot hold.
func checkTable(t driver.Table) error {
	if t.ID == "" || !utf8.ValidString(t.ID) {
		return driver.Permanent(fmt.Errorf("table id %.80q: want UTF-8 text that is not empty", t.ID))
	}
	if len(t.Columns) == 0 {
		return driver.Permanent(fmt.Errorf("table %q: want at least one column", t.ID))
	}
	for _, c := range t.Columns {
		if !utf8.ValidString(c.Name) {
			return driver.Permanent(fmt.Errorf("table %q: column name %.80q is not UTF-8", t.ID, c.Name))
		}
	}
	return nil
}

// maxFolder keeps folder names below the 255 bytes that most file systems allow.
const maxFolder = 200

// folder returns the name of a table's directory. ASCII letters, digits, '_', '-' and inner dots stay, so usual ids are
// readable. Every other byte becomes %XX. A long name is cut and ends with "~" and a hash. The result of a non-empty id is
// not empty, not "." or "..", has no separator, and does not start with a dot.
//
// Ids that differ only in case share a folder on some file systems. The id in table.json tells them apart.
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

// definitionID names the temporary files of a table.json. The underscore keeps it apart from ids of files.
func definitionID(table string) string {
	sum := sha256.Sum256([]byte(table))
	return "table_" + hex.EncodeToString(sum[:8])
}
