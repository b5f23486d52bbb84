package platform

import (
	"cmp"
	"slices"
	"strings"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// mask replaces the secrets of a job in its log and result. The zero value hides nothing.
type mask struct{ secrets []string }

// shortSecret is the longest text that is not hidden: "1" must not make every number unreadable.
const shortSecret = 3

// add hides text, plain or JSON-encoded.
func (m *mask) add(text string) {
	if len(text) <= shortSecret {
		return
	}
	quoted, err := jsontext.Marshal(text)
	if err != nil {
		return // a string always has a JSON form
	}
	for _, form := range []string{text, string(quoted[1 : len(quoted)-1])} {
		if !slices.Contains(m.secrets, form) {
			m.secrets = append(m.secrets, form)
		}
	}
	slices.SortFunc(m.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may hold another
}

func (m *mask) apply(text string) string {
	for _, secret := range m.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}
