package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Token lets the target import the rows of one sink.
type Token struct {
	// ID names the token. It is no secret.
	ID string `json:"id"`
	// Value is the secret. It is stored and given to drivers by [SinkHandle.Token], and shown nowhere.
	Value string `json:"value"`
	// Bucket is the bucket that the token may write to.
	Bucket string `json:"bucket"`
}

// String returns the id without the secret.
func (t Token) String() string { return "token " + t.ID }

// GoString returns the id without the secret.
func (t Token) GoString() string { return t.String() }

// Tokens makes the tokens of sinks. Implementations must be safe for concurrent use.
type Tokens interface {
	// CreateToken makes a token that may write to the bucket and read all file uploads, and does not expire. After a
	// failure whose outcome is unknown the token may exist. The catalog then asks for another.
	CreateToken(ctx context.Context, description, bucket string) (Token, error)
	// DeleteToken deletes a token. One that is gone already is no error.
	DeleteToken(ctx context.Context, id string) error
}

// tokenDescription is fixed by the platform, whose users recognise the tokens of sinks by it.
func tokenDescription(source, sink string) string {
	return fmt.Sprintf("[_internal] Stream Sink %s/%s", source, sink)
}

// bucketOf returns the first two parts of a table id.
func bucketOf(tableID string) string { return tableID[:strings.LastIndexByte(tableID, '.')] }

// retired is a token that no new row needs. It stays until the rows of its sink are in their tables.
type retired struct {
	Token  Token     `json:"token"`
	Source string    `json:"source"`
	Sink   string    `json:"sink"`
	At     time.Time `json:"at"`
}

// retiredFor is longer than rows are kept in staging. After it nothing can need the token.
const retiredFor = 8 * 24 * time.Hour

// retiredTokens are the tokens that are still to be deleted.
type retiredTokens struct {
	mu   sync.Mutex
	byID map[string]retired
}

func (r *retiredTokens) add(list ...retired) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range list {
		r.byID[t.Token.ID] = t
	}
}

func (r *retiredTokens) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}

func (r *retiredTokens) all() []retired {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.byID))
}

// renewTokens gives every sink that accepts events after the change a token for its bucket. It returns the tokens that it
// made and the tokens that no sink needs any longer.
func (c *Catalog) renewTokens(ctx context.Context, ch *change) (made []Token, gone []retired, err error) {
	old, next, source := ch.old, ch.next, ch.ref.Source
	retire := func(s *Sink) {
		if s.Token.ID != "" {
			gone = append(gone, retired{Token: s.Token, Source: source, Sink: s.ID, At: ch.at})
		}
	}
	if next == nil {
		for _, s := range old.sinks {
			retire(s)
		}
		return nil, gone, nil
	}
	if c.opts.Tokens == nil {
		return nil, nil, nil
	}
	for id, s := range next.sinks {
		bucket := bucketOf(s.TableID)
		if next.takes(id) && old.takes(id) && old.sinks[id].Token.ID != "" && old.sinks[id].Token.Bucket == bucket {
			continue
		}
		retire(s)
		s.Token = Token{}
		if next.takes(id) {
			s.Token, err = c.opts.Tokens.CreateToken(ctx, tokenDescription(source, id), bucket)
			if err != nil {
				return made, nil, fmt.Errorf("create the token of sink %q: %w", id, err)
			}
			s.Token.Bucket = bucket
			made = append(made, s.Token)
		}
	}
	return made, gone, nil
}

func (c *Catalog) deleteTokens(made []Token) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), undoTimeout)
	defer cancel()
	var problems []error
	for _, t := range made {
		problems = append(problems, c.opts.Tokens.DeleteToken(ctx, t.ID))
	}
	return errors.Join(problems...)
}

func (c *Catalog) token(ref Ref) (Token, bool) {
	if t := c.defs.get(ref.Source); t != nil {
		if s := t.sinks[ref.Sink]; s != nil && s.Token.ID != "" {
			return s.Token, true
		}
	}
	var last retired
	for _, r := range c.retired.all() {
		if r.Source == ref.Source && r.Sink == ref.Sink && !r.At.Before(last.At) {
			last = r
		}
	}
	return last.Token, last.Token.ID != ""
}

// deleteRetired deletes the tokens whose sinks have no rows left that need them.
func (c *Catalog) deleteRetired(ctx context.Context, now time.Time) {
	due := c.retired.all()
	if c.opts.Tokens == nil || len(due) == 0 { // without Tokens they stay until an opening has them
		return
	}
	waiting := map[string]int64{}
	for _, s := range c.eng.Stats().Sinks {
		waiting[s.Source+"/"+s.Sink] = s.Local.Rows + s.Staging.Rows
	}
	for _, r := range due {
		// Rows on other nodes may need a token too.
		if (c.co.isShared() || waiting[r.Source+"/"+r.Sink] > 0) && now.Sub(r.At) < retiredFor {
			continue
		}
		if err := c.opts.Tokens.DeleteToken(ctx, r.Token.ID); err != nil {
			c.log.Warn("token of a sink not deleted", "token", r.Token.ID, "cause", err, "next", "it is retried automatically")
			continue
		}
		if err := c.store.Commit(map[string][]byte{retiredKey(r.Token.ID): nil}); err != nil {
			c.log.Warn("catalog not written", "cause", err, "next", "check the disk of the data directory")
			continue
		}
		c.retired.remove(r.Token.ID)
	}
}
