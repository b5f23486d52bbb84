// Package ids has the rule for the ids that users choose.
package ids

import (
	"errors"
	"fmt"
)

// MaxLength is the greatest length of an id, in bytes.
const MaxLength = 48

// Validate checks the id of a source, a sink, a generation, a run or a target.
func Validate(id string) error {
	if len(id) == 0 {
		return errors.New("is empty: choose a name of a-z, 0-9 and inner '-' and '_'")
	}
	if len(id) > MaxLength {
		return fmt.Errorf("%q has %d characters, at most %d are allowed", id, len(id), MaxLength)
	}
	for i := range len(id) {
		c := id[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alnum && (c != '-' && c != '_' || i == 0 || i == len(id)-1) {
			return fmt.Errorf("%q: only a-z, 0-9 and inner '-' and '_' are allowed", id)
		}
	}
	return nil
}
