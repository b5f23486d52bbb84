package celltype

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/forebay/forebay/datatype"
)

// maxName is the longest name of a column in bytes: PostgreSQL cuts longer ones.
const maxName = 63

// ownPrefix begins the names of columns and tables that drivers make for themselves.
const ownPrefix = "_forebay_"

// NameProblem says why some target would refuse, change or misread the name of a column, in words that follow the name. It is
// empty for a good name. Names that differ only in case are for the caller to find.
func NameProblem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), maxName)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "has a control character"
	case strings.TrimSpace(name) != name:
		return "begins or ends with a space"
	case len(name) >= len(ownPrefix) && strings.EqualFold(name[:len(ownPrefix)], ownPrefix):
		return "begins with " + ownPrefix + ", which targets keep for their own columns"
	}
	return ""
}

// Place returns the place of the column of that name, -1 for none. Names are compared without case, and an equal one wins.
func Place(columns []datatype.Column, name string) int {
	found := -1
	for i, c := range columns {
		if c.Name == name {
			return i
		}
		if found < 0 && strings.EqualFold(c.Name, name) {
			found = i
		}
	}
	return found
}
