package catalog

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Token lets the target import the rows of one sink.
type Token struct {
	// ID names the token; it is no secret.
	ID string `json:"id"`
	// Value is the secret. It is stored and given to drivers by [Catalog.SinkToken], and shown nowhere.
	Value string `json:"value"`
	// Bucket is the one that the token may write to.
	Bucket string `json:"bucket"`
}

// String returns the id without the secret.
func (t Token) String() string { return "token " + t.ID }

// GoString returns the id without the secret.
func (t Token) GoString() string { return t.String() }

// Tokens makes the tokens of sinks. Implementations must be safe for concurrent use.
type Tokens interface {
	// CreateToken makes a token that may write to the bucket and read all file uploads, and does not expire. After a
	// failure whose outcome is unknown the token may exist; the catalog then asks for another.
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

const (
	// sweepEvery is how often retired tokens and old tasks are looked at.
	sweepEvery = time.Minute
	// retiredFor is longer than rows are kept in staging: after it nothing can need the token.
	retiredFor = 8 * 24 * time.Hour
)

// renewTokens gives every sink of next that takes events a token of its own, and returns those that were made and those
// that are not needed any more.
func (c *Catalog) renewTokens(ctx context.Context, old, next *tree, at time.Time) (made []Token, gone []retired, err error) {
	if c.opts.Tokens == nil {
		return nil, nil, nil
	}
	for id, s := range next.sinks {
		var before Sink
		took := false
		if old != nil {
			before = old.sinks[id]
			took = old.live() && before.ID != "" && before.Deleted == nil && before.DisabledWith(old.source) == nil
		}
		takes := next.live() && s.Deleted == nil && s.DisabledWith(next.source) == nil
		keep := took && takes && before.Token.ID != "" && before.Token.Bucket == bucketOf(s.TableID)
		if keep {
			continue
		}
		if s.Token.ID != "" {
			gone = append(gone, retired{Token: s.Token, Source: next.source.ID, Sink: id, At: at})
			s.Token = Token{}
		}
		if takes {
			s.Token, err = c.opts.Tokens.CreateToken(ctx, tokenDescription(next.source.ID, id), bucketOf(s.TableID))
			if err != nil {
				return made, nil, fmt.Errorf("create the token of sink %q: %w", id, err)
			}
			s.Token.Bucket = bucketOf(s.TableID)
			made = append(made, s.Token)
		}
		next.sinks[id] = s
	}
	return made, gone, nil
}

// SinkToken returns the token with which the rows of a sink are imported: its own, or for the rows that are left of a
// sink that takes no events, the last one it had. False when it has none.
func (c *Catalog) SinkToken(sourceID, sinkID string) (Token, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if t := c.trees[sourceID]; t != nil && t.sinks[sinkID].Token.ID != "" {
		return t.sinks[sinkID].Token, true
	}
	var last retired
	for _, r := range c.retired {
		if r.Source == sourceID && r.Sink == sinkID && !r.At.Before(last.At) {
			last = r
		}
	}
	return last.Token, last.Token.ID != ""
}

// deleteRetired deletes the tokens whose sinks have no rows left that need them.
func (c *Catalog) deleteRetired(ctx context.Context, now time.Time) {
	if c.opts.Tokens == nil {
		return // an earlier opening made them; they stay until one can delete them
	}
	c.mu.RLock()
	var due []retired
	for _, r := range c.retired {
		due = append(due, r)
	}
	c.mu.RUnlock()
	if len(due) == 0 {
		return
	}
	waiting := map[string]int64{}
	for _, s := range c.eng.Stats().Sinks {
		waiting[s.Source+"/"+s.Sink] = s.Local.Rows + s.Staging.Rows
	}
	for _, r := range due {
		if waiting[r.Source+"/"+r.Sink] > 0 && now.Sub(r.At) < retiredFor {
			continue
		}
		if err := c.opts.Tokens.DeleteToken(ctx, r.Token.ID); err != nil {
			c.log.Warn("token of a sink could not be deleted, it is tried again", "token", r.Token.ID, "error", err)
			continue
		}
		if err := c.store.Commit(map[string][]byte{retiredKey(r.Token.ID): nil}); err != nil {
			c.log.Warn("catalog could not be written", "error", err)
			continue
		}
		c.mu.Lock()
		delete(c.retired, r.Token.ID)
		c.mu.Unlock()
	}
}
