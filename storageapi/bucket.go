package storageapi

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strings"
)

// Bucket is a folder of tables.
type Bucket struct {
	// URI is the address of the bucket, without a branch.
	URI string `json:"uri"`
	// ID is "<stage>.<name>".
	ID string `json:"id"`
	// Name has the prefix that the server gives, DisplayName is unique in the project.
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	// Stage is "in", "out" or "sys".
	Stage       string `json:"stage"`
	Description string `json:"description"`
	// Tables is set by [Client.Bucket] only.
	Tables []Table `json:"-"`
	// Created and LastChangeDate are times. The second is zero until the first change.
	Created        Time `json:"created"`
	LastChangeDate Time `json:"lastChangeDate"`
	Updated        Time `json:"updated"`
	// IsReadOnly, IsMaintenance and IsLinkedBucket restrict the allowed operations.
	IsReadOnly     bool `json:"isReadOnly"`
	IsMaintenance  bool `json:"isMaintenance"`
	IsLinkedBucket bool `json:"isLinkedBucket"`
	// DataSizeBytes and RowsCount are totals of the tables.
	DataSizeBytes int64 `json:"dataSizeBytes"`
	RowsCount     int64 `json:"rowsCount"`
	// Backend is the kind of database that stores the tables.
	Backend string `json:"backend"`
	// Sharing says how the bucket is shared with other projects. Nil means that it is not.
	Sharing *string `json:"sharing"`
	// HasExternalSchema, DatabaseName, Path, Color and IDBranch are details of some backends and of the user interface.
	HasExternalSchema bool    `json:"hasExternalSchema"`
	DatabaseName      string  `json:"databaseName"`
	Path              string  `json:"path"`
	Color             *string `json:"color"`
	IDBranch          IntID   `json:"idBranch"`
	// Metadata is set when a call asks for it.
	Metadata []Metadata `json:"metadata,omitzero"`
}

// BucketCreate describes a new bucket.
type BucketCreate struct {
	// Name is required. The server prepends "c-" unless the stack has [FeatureNoBucketPrefix].
	Name string `json:"name"`
	// Stage is "in" or "out". Default: "in".
	Stage string `json:"stage,omitempty"`
	// Description is for people, DisplayName is the name by default.
	Description string `json:"description,omitempty"`
	DisplayName string `json:"displayName,omitempty"`
}

// Buckets lists the buckets that the token may read.
func (c *Client) Buckets(ctx context.Context) iter.Seq2[Bucket, error] {
	return list[Bucket](ctx, c, request{path: c.scoped("buckets")})
}

// Bucket reads a bucket with its tables.
func (c *Client) Bucket(ctx context.Context, id string) (*Bucket, error) {
	type detail struct {
		Bucket
		Tables []Table `json:"tables"`
	}
	out, err := fetch[detail](ctx, c, get(c.scoped("buckets", id)))
	if err != nil {
		return nil, err
	}
	out.Bucket.Tables = out.Tables
	return &out.Bucket, nil
}

// CreateBucket makes a bucket.
func (c *Client) CreateBucket(ctx context.Context, in BucketCreate) (*Bucket, error) {
	// The caller chose the name, so a bucket that exists after a repetition was made by the first attempt.
	return create(ctx, c, post(c.scoped("buckets"), in), in.Name, func() (*Bucket, error) {
		for b, err := range c.Buckets(ctx) {
			if err != nil {
				return nil, err
			}
			if b.Stage == cmp.Or(in.Stage, "in") && strings.TrimPrefix(b.Name, "c-") == strings.TrimPrefix(in.Name, "c-") {
				return &b, nil
			}
		}
		return nil, nil
	})
}

// UpdateBucket changes the display name of a bucket.
func (c *Client) UpdateBucket(ctx context.Context, id, displayName string) (*Bucket, error) {
	return fetch[Bucket](ctx, c, put(c.scoped("buckets", id), map[string]string{"displayName": displayName}))
}

// DeleteBucket deletes a bucket and waits for its job. A bucket with tables needs force.
func (c *Client) DeleteBucket(ctx context.Context, id string, force bool) error {
	return c.deleteByJob(ctx, request{path: c.scoped("buckets", id)}, force)
}

// deleteByJob starts a deletion as a job and waits for it.
func (c *Client) deleteByJob(ctx context.Context, r request, force bool) error {
	r.method = http.MethodDelete
	r.query = params("async", "1", "force", flag(force))
	return c.job(ctx, r, nil)
}

// BucketTables lists the tables of a bucket.
func (c *Client) BucketTables(ctx context.Context, id string) iter.Seq2[Table, error] {
	return list[Table](ctx, c, request{path: c.scoped("buckets", id, "tables"), query: tableInclude})
}

// BucketMetadata lists the notes on a bucket.
func (c *Client) BucketMetadata(ctx context.Context, id string) iter.Seq2[Metadata, error] {
	return list[Metadata](ctx, c, request{path: c.scoped("buckets", id, "metadata")})
}

// SetBucketMetadata sets notes on a bucket and returns all of them. A note of the same provider and key is replaced.
func (c *Client) SetBucketMetadata(ctx context.Context, id, provider string, notes ...KeyValue) ([]Metadata, error) {
	return c.setNotes(ctx, c.scoped("buckets", id, "metadata"), provider, notes)
}
