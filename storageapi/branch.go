package storageapi

import (
	"context"
	"errors"
	"iter"
	"net/http"
)

// DevBranch is a development branch of a project.
type DevBranch struct {
	// ID is unique in the stack.
	ID IntID `json:"id"`
	// Name and Description are for people. Names are unique in a project.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Created is the time of creation.
	Created Time `json:"created"`
	// IsDefault is true for exactly one branch of a project, which cannot be deleted.
	IsDefault bool `json:"isDefault"`
	// CreatorToken is the token that made the branch.
	CreatorToken TokenRef `json:"creatorToken"`
}

// TokenRef names the token that made something.
type TokenRef struct {
	// ID is the token's id.
	ID IntID `json:"id"`
	// Description is the token's description at that time.
	Description string `json:"description"`
}

// DevBranches lists the branches of the project.
func (c *Client) DevBranches(ctx context.Context) iter.Seq2[DevBranch, error] {
	return list[DevBranch](ctx, c, request{path: path("dev-branches")})
}

// DevBranch reads one branch.
func (c *Client) DevBranch(ctx context.Context, id IntID) (*DevBranch, error) {
	return fetch[DevBranch](ctx, c, get(path("dev-branches", id.String())))
}

// DefaultBranch finds the default branch by listing.
func (c *Client) DefaultBranch(ctx context.Context) (*DevBranch, error) {
	for b, err := range c.DevBranches(ctx) {
		if err != nil {
			return nil, err
		}
		if b.IsDefault {
			return &b, nil
		}
	}
	return nil, errors.New("storage api: the project has no default branch")
}

// CreateDevBranch creates a branch and waits for it. ctx bounds the wait.
func (c *Client) CreateDevBranch(ctx context.Context, name, description string) (*DevBranch, error) {
	body := map[string]string{"name": name, "description": description}
	return fetchResults[DevBranch](ctx, c, post(path("dev-branches"), body))
}

// UpdateDevBranch changes the name and description of a branch. An empty name keeps the name, as the default branch requires.
func (c *Client) UpdateDevBranch(ctx context.Context, id IntID, name, description string) (*DevBranch, error) {
	body := map[string]string{"description": description}
	if name != "" {
		body["name"] = name
	}
	return fetch[DevBranch](ctx, c, put(path("dev-branches", id.String()), body))
}

// BranchMetadata lists the notes on the client's branch. See [Client.Branch].
func (c *Client) BranchMetadata(ctx context.Context) iter.Seq2[Metadata, error] {
	return list[Metadata](ctx, c, request{path: c.inBranch().scoped("metadata")})
}

// SetBranchMetadata sets notes on the client's branch and returns all of them. A note of an existing key is replaced, the
// others stay.
func (c *Client) SetBranchMetadata(ctx context.Context, notes ...KeyValue) ([]Metadata, error) {
	return c.setNotes(ctx, c.inBranch().scoped("metadata"), "", notes)
}

// DeleteBranchMetadata deletes a note on the client's branch.
func (c *Client) DeleteBranchMetadata(ctx context.Context, metadataID string) error {
	return c.delete(ctx, request{path: c.inBranch().scoped("metadata", metadataID)})
}

// DeleteDevBranch deletes a branch with everything in it, and waits for that. ctx bounds the wait.
func (c *Client) DeleteDevBranch(ctx context.Context, id IntID) error {
	return c.job(ctx, request{method: http.MethodDelete, path: path("dev-branches", id.String())}, nil)
}
