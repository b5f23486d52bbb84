package storageapi

import (
	"context"
	"iter"
	"net/http"
	"strconv"
)

// Token is a token with its rights.
type Token struct {
	// ID is unique in the stack.
	ID ID `json:"id"`
	// Token is the secret. It is given when the token is created or refreshed, and seldom otherwise.
	Token Secret `json:"token,omitempty"`
	// Description is for people.
	Description string `json:"description"`
	// Created, Refreshed and Expires are times. Zero for Expires means never.
	Created   Time `json:"created"`
	Refreshed Time `json:"refreshed"`
	Expires   Time `json:"expires"`
	// IsExpired and IsDisabled say that the token is no longer accepted.
	IsExpired  bool `json:"isExpired"`
	IsDisabled bool `json:"isDisabled"`
	// IsMasterToken says that the token belongs to a person and may do everything.
	IsMasterToken bool `json:"isMasterToken"`
	// The rights that are not about single buckets or components.
	CanManageBuckets                bool `json:"canManageBuckets"`
	CanManageTokens                 bool `json:"canManageTokens"`
	CanReadAllFileUploads           bool `json:"canReadAllFileUploads"`
	CanPurgeTrash                   bool `json:"canPurgeTrash"`
	CanManageProtectedDefaultBranch bool `json:"canManageProtectedDefaultBranch"`
	CanCreateJobs                   bool `json:"canCreateJobs"`
	// DailyCapacity is 0 unless the project counts requests.
	DailyCapacity int `json:"dailyCapacity"`
	// URI is the address of the token.
	URI string `json:"uri"`
	// BucketPermissions are "read", "write" or "manage" by bucket.
	BucketPermissions Map[string] `json:"bucketPermissions"`
	// ComponentAccess are the components whose configurations the token may use.
	ComponentAccess []string `json:"componentAccess,omitempty"`
	// CreatorToken made the token, nil for a master token.
	CreatorToken *TokenRef `json:"creatorToken,omitempty"`
	// Admin is the person of a master token, nil otherwise.
	Admin *Admin `json:"admin,omitempty"`
	// Owner is the project to which the token gives access.
	Owner Project `json:"owner"`
	// Organization is given by some calls.
	Organization *Organization `json:"organization,omitempty"`
}

// Admin is the person of a master token.
type Admin struct {
	// ID and Name of the person, and the Role in the project.
	ID   IntID  `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"`
	// Features are switched on for the person.
	Features []string `json:"features"`
	// IsOrganizationMember says that the person belongs to the project's organization.
	IsOrganizationMember bool `json:"isOrganizationMember"`
}

// Organization owns projects.
type Organization struct {
	// ID is the organization's id.
	ID ID `json:"id"`
}

// Project is a project that a token gives access to.
type Project struct {
	// ID and Name of the project.
	ID   IntID  `json:"id"`
	Name string `json:"name"`
	// Type and Region are properties of the project, Created and Expires its times.
	Type    string `json:"type"`
	Region  string `json:"region"`
	Created Time   `json:"created"`
	Expires Time   `json:"expires"`
	// Features are switched on for the project.
	Features []string `json:"features"`
	// DataSizeBytes and RowsCount are totals of all tables.
	DataSizeBytes int64 `json:"dataSizeBytes"`
	RowsCount     int64 `json:"rowsCount"`
	// DefaultBackend is the kind of database that stores the tables, FileStorageProvider the kind of the object store.
	DefaultBackend      string `json:"defaultBackend"`
	FileStorageProvider string `json:"fileStorageProvider"`
	// Limits and Metrics are quantities by name.
	Limits  Map[Quantity] `json:"limits"`
	Metrics Map[Quantity] `json:"metrics"`
	// IsDisabled says that the project cannot be used.
	IsDisabled bool `json:"isDisabled"`
	// DataRetentionTimeInDays is how long deleted data can be brought back.
	DataRetentionTimeInDays int `json:"dataRetentionTimeInDays"`
}

// Quantity is a limit or a metric of a project.
type Quantity struct {
	// Name is the key under which it stands.
	Name string `json:"name"`
	// Value is the number.
	Value float64 `json:"value"`
}

// TokenCreate describes a new token.
type TokenCreate struct {
	// Description has at most 255 characters. The server has a default.
	Description string `json:"description,omitempty"`
	// BucketPermissions are "read" or "write" by bucket. The buckets must exist.
	BucketPermissions map[string]string `json:"bucketPermissions,omitempty"`
	// ComponentAccess are components whose configurations the token may use.
	ComponentAccess []string `json:"componentAccess,omitempty"`
	// CanManageBuckets gives all rights to all buckets, including future ones.
	CanManageBuckets bool `json:"canManageBuckets,omitempty"`
	// CanReadAllFileUploads shows files that were made with other tokens.
	CanReadAllFileUploads bool `json:"canReadAllFileUploads,omitempty"`
	// CanPurgeTrash allows to delete configurations permanently.
	CanPurgeTrash bool `json:"canPurgeTrash,omitempty"`
	// ExpiresIn is in seconds; 0 means never.
	ExpiresIn int `json:"expiresIn,omitempty"`
}

// TokenUpdate says what to change in a token. A nil field stays as it is.
type TokenUpdate struct {
	// Description has at most 255 characters.
	Description *string `json:"description,omitempty"`
	// BucketPermissions replace all that were there.
	BucketPermissions map[string]string `json:"bucketPermissions,omitempty"`
	// ComponentAccess replaces all that was there.
	ComponentAccess []string `json:"componentAccess,omitempty"`
	// CanReadAllFileUploads shows files that were made with other tokens.
	CanReadAllFileUploads *bool `json:"canReadAllFileUploads,omitempty"`
}

// VerifyToken describes the client's own token. Every token may do that.
func (c *Client) VerifyToken(ctx context.Context) (*Token, error) {
	return fetch[Token](ctx, c, get(c.scoped("tokens", "verify")))
}

// Tokens lists the tokens of the project, or only the client's own if that may not manage tokens.
func (c *Client) Tokens(ctx context.Context) iter.Seq2[Token, error] {
	return list[Token](ctx, c, request{path: c.scoped("tokens")})
}

// TokenDetail reads a token.
func (c *Client) TokenDetail(ctx context.Context, id ID) (*Token, error) {
	return fetch[Token](ctx, c, get(c.scoped("tokens", string(id))))
}

// CreateToken makes a token. Only this response has its secret.
func (c *Client) CreateToken(ctx context.Context, in TokenCreate) (*Token, error) {
	return fetch[Token](ctx, c, post(c.scoped("tokens"), in))
}

// UpdateToken changes a token.
func (c *Client) UpdateToken(ctx context.Context, id ID, in TokenUpdate) (*Token, error) {
	return fetch[Token](ctx, c, put(c.scoped("tokens", string(id)), in))
}

// DeleteToken deletes a token. A token may delete itself, a master token cannot be deleted.
func (c *Client) DeleteToken(ctx context.Context, id ID) error {
	return c.delete(ctx, request{path: c.scoped("tokens", string(id))})
}

// RefreshToken gives a token a new secret, which the response has. The old secret stops working at once.
func (c *Client) RefreshToken(ctx context.Context, id ID) (*Token, error) {
	return fetch[Token](ctx, c, post(c.scoped("tokens", string(id), "refresh"), struct{}{}))
}

// ShareToken has a token sent to a person by mail.
func (c *Client) ShareToken(ctx context.Context, id ID, recipientEmail, message string) error {
	return c.call(ctx, request{method: http.MethodPost, path: c.scoped("tokens", string(id), "share"), effect: creating, body: map[string]string{"recipientEmail": recipientEmail, "message": message}}, nil)
}

// Ticket takes a number that was never given before and is greater than all that were.
func (c *Client) Ticket(ctx context.Context) (int64, error) {
	r := post(path("tickets"), struct{}{})
	r.effect = repeatable
	id, err := c.newID(ctx, r)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(id), 10, 64)
}
