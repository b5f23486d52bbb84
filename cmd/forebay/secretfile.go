package main

import (
	"bytes"
	"fmt"
	"slices"
)

// fileSuffix follows the name of a variable: WEB_SECRET_FILE names the file that has the value of WEB_SECRET. Service managers keep
// secrets in files, which no child process inherits and no list of processes shows.
const fileSuffix = "_FILE"

// variables looks up environment variables and the files that variables name.
type variables struct {
	getenv   func(string) (string, bool)
	problems []error
}

// lookup returns the value of a variable. If the variable is not set, or is empty, its value is the content of the file that the variable with
// fileSuffix names, without the newlines at its end.
func (v *variables) lookup(name string) (string, bool) {
	value, ok := v.getenv(name)
	if value != "" {
		return value, true
	}
	path, _ := v.getenv(name + fileSuffix)
	if path == "" {
		return value, ok
	}
	text, err := readBounded(path)
	if text = bytes.TrimRight(text, "\r\n"); err == nil && len(text) == 0 {
		err = fmt.Errorf("%s is empty", path)
	}
	if err != nil {
		err = fmt.Errorf("%s%s: %w", name, fileSuffix, err)
		if !slices.ContainsFunc(v.problems, func(known error) bool { return known.Error() == err.Error() }) {
			v.problems = append(v.problems, err)
		}
		return "", false
	}
	return string(text), true
}
