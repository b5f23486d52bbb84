package linearizability

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/forebay/forebay/catalog"
)

// Tokens makes a token for each sink that asks for one, each time a different one.
type Tokens struct{ made atomic.Int64 }

// CreateToken implements [catalog.Tokens].
func (t *Tokens) CreateToken(context.Context, string, string) (catalog.Token, error) {
	return catalog.Token{ID: fmt.Sprint("token-", t.made.Add(1))}, nil
}

// DeleteToken implements [catalog.Tokens].
func (t *Tokens) DeleteToken(context.Context, string) error { return nil }
