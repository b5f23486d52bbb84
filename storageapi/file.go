package storageapi

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
)

// The providers of object stores.
const (
	ProviderAWS   = "aws"
	ProviderAzure = "azure"
	ProviderGCP   = "gcp"
)

// ManifestName follows the name of a sliced file in the name of its manifest.
const ManifestName = "manifest"

// File is a file of the project, a record in the Storage API, and bytes in an object store.
type File struct {
	// ID is unique in the stack.
	ID IntID `json:"id"`
	// Created is the time of the record, and the bytes may come later.
	Created Time `json:"created"`
	// Name was chosen by the creator. It need not be unique.
	Name string `json:"name"`
	// URL is a signed address of the bytes, or of the manifest of a sliced file, good for about an hour.
	URL Secret `json:"url"`
	// Provider is ProviderAWS, ProviderAzure or ProviderGCP, Region the region of the store.
	Provider string `json:"provider"`
	Region   string `json:"region"`
	// SizeBytes is the declared size.
	SizeBytes int64 `json:"sizeBytes"`
	// Tags are in the order of the response.
	Tags []string `json:"tags"`
	// MaxAgeDays is the life of the file, nil forever.
	MaxAgeDays *int `json:"maxAgeDays"`
	// IsPublic and IsEncrypted are properties in the store; IsSliced says that the bytes are in slices with a manifest.
	IsPublic    bool `json:"isPublic"`
	IsSliced    bool `json:"isSliced"`
	IsEncrypted bool `json:"isEncrypted"`
	// RunID is the run id of the call that made the file, or nil; RunIDs are its parts.
	RunID  *string  `json:"runId"`
	RunIDs []string `json:"runIds"`
	// CreatorToken made the file.
	CreatorToken TokenRef `json:"creatorToken"`

	// Credentials for the upload, one of which is given when a file is prepared.
	S3Upload    *S3UploadParams    `json:"uploadParams,omitempty"`
	AzureUpload *AzureUploadParams `json:"absUploadParams,omitempty"`
	GCSUpload   *GCSUploadParams   `json:"gcsUploadParams,omitempty"`

	// Credentials for reading, one kind of which is given on demand.
	S3Path           *S3Path           `json:"s3Path,omitempty"`
	S3Credentials    *S3Credentials    `json:"credentials,omitempty"`
	AzurePath        *AzurePath        `json:"absPath,omitempty"`
	AzureCredentials *AzureCredentials `json:"absCredentials,omitempty"`
	GCSPath          *GCSPath          `json:"gcsPath,omitempty"`
	GCSCredentials   *GCSCredentials   `json:"gcsCredentials,omitempty"`
}

// S3UploadParams say how to upload to a store of the kind S3.
type S3UploadParams struct {
	// Key and Bucket name the object. The keys of slices begin with Key.
	Key    string `json:"key"`
	Bucket string `json:"bucket"`
	// ACL and Encryption, if not empty, are sent with the upload.
	ACL        string `json:"acl"`
	Encryption string `json:"x-amz-server-side-encryption,omitempty"`
	// Credentials are for this object alone.
	Credentials S3Credentials `json:"credentials"`
}

// S3Credentials are temporary.
type S3Credentials struct {
	// AccessKeyID, SecretAccessKey and SessionToken sign the requests until Expiration.
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey Secret `json:"SecretAccessKey"`
	SessionToken    Secret `json:"SessionToken"`
	Expiration      Time   `json:"Expiration"`
}

// S3Path names an object in a store of the kind S3.
type S3Path struct {
	// Key and Bucket name the object.
	Key    string `json:"key"`
	Bucket string `json:"bucket"`
}

// AzureUploadParams say how to upload to a store of the kind Azure.
type AzureUploadParams struct {
	// BlobName names the object in the Container. The names of slices begin with it.
	BlobName    string `json:"blobName"`
	AccountName string `json:"accountName"`
	Container   string `json:"container"`
	// Credentials are for this object alone.
	Credentials AzureCredentials `json:"absCredentials"`
}

// AzureCredentials are temporary.
type AzureCredentials struct {
	// SASConnectionString has the address of the store and the signature.
	SASConnectionString Secret `json:"SASConnectionString"`
	// Expiration is the end of the signature.
	Expiration Time `json:"expiration"`
}

// AzurePath names an object in a store of the kind Azure.
type AzurePath struct {
	// Name names the object in the Container.
	Name      string `json:"name"`
	Container string `json:"container"`
}

// GCSUploadParams say how to upload to a store of the kind Google.
type GCSUploadParams struct {
	GCSCredentials
	// Key and Bucket name the object. The keys of slices begin with Key.
	Key    string `json:"key"`
	Bucket string `json:"bucket"`
}

// GCSCredentials are temporary.
type GCSCredentials struct {
	// ProjectID is the project of the store.
	ProjectID string `json:"projectId"`
	// AccessToken is of TokenType and good for ExpiresIn seconds.
	AccessToken Secret `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
}

// GCSPath names an object in a store of the kind Google.
type GCSPath struct {
	// Key and Bucket name the object.
	Key    string `json:"key"`
	Bucket string `json:"bucket"`
}

// FilePrepare describes a new file.
type FilePrepare struct {
	// Name is required.
	Name string `json:"name"`
	// SizeBytes is for people.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// ContentType is stored with the bytes.
	ContentType string `json:"contentType,omitempty"`
	// IsPermanent keeps the file forever instead of about two weeks.
	IsPermanent bool `json:"isPermanent,omitempty"`
	// Tags find the file later.
	Tags []string `json:"tags,omitempty"`
	// IsSliced says that the bytes come in slices with a manifest.
	IsSliced bool `json:"isSliced,omitempty"`
}

// PrepareFile makes the record of a file and gets the credentials for its upload. [Client.Upload] and
// [Client.UploadSliced] do all of it.
func (c *Client) PrepareFile(ctx context.Context, in FilePrepare) (*File, error) {
	body := struct {
		FilePrepare
		FederationToken bool `json:"federationToken"`
		IsEncrypted     bool `json:"isEncrypted"`
	}{in, true, true}
	return fetch[File](ctx, c, post(c.scoped("files", "prepare"), body))
}

// FileQuery selects files. Empty fields select all.
type FileQuery struct {
	// Tags selects files that have one of them.
	Tags []string
	// Search is text in the name or a tag.
	Search string
	// RunID is the run id of the call that made the file.
	RunID string
	// SinceID selects files with a greater id.
	SinceID IntID
	// ShowExpired lists files whose life is over too.
	ShowExpired bool
}

// Files lists files, the newest first. The list may lag by a second.
func (c *Client) Files(ctx context.Context, q FileQuery) iter.Seq2[File, error] {
	query := params("q", q.Search, "runId", q.RunID, "showExpired", flag(q.ShowExpired))
	query["tags[]"] = q.Tags
	if q.SinceID != 0 {
		query.Set("sinceId", q.SinceID.String())
	}
	return pages[File](ctx, c, request{path: c.scoped("files"), query: query})
}

// File reads the record of a file.
func (c *Client) File(ctx context.Context, id IntID) (*File, error) {
	return fetch[File](ctx, c, get(c.scoped("files", id.String())))
}

// FileWithCredentials reads the record of a file with the credentials for reading its bytes.
func (c *Client) FileWithCredentials(ctx context.Context, id IntID) (*File, error) {
	return fetch[File](ctx, c, request{method: http.MethodGet, path: c.scoped("files", id.String()), query: url.Values{"federationToken": {"1"}}})
}

// DeleteFile deletes a file. One that is not there is a success.
func (c *Client) DeleteFile(ctx context.Context, id IntID) error {
	err := c.delete(ctx, request{path: c.scoped("files", id.String())})
	if IsNotFound(err) {
		return nil
	}
	return err
}

// AddFileTag adds a tag to a file. It succeeds even if the file already has the tag.
func (c *Client) AddFileTag(ctx context.Context, id IntID, tag string) error {
	return c.call(ctx, request{method: http.MethodPost, path: c.scoped("files", id.String(), "tags"), body: map[string]string{"tag": tag}}, nil)
}

// RemoveFileTag removes a tag of a file.
func (c *Client) RemoveFileTag(ctx context.Context, id IntID, tag string) error {
	return c.delete(ctx, request{path: c.scoped("files", id.String(), "tags", tag)})
}

// RefreshUpload renews the credentials of an upload, which only the provider gcp needs.
func (c *Client) RefreshUpload(ctx context.Context, id IntID) (*File, error) {
	return fetch[File](ctx, c, put(c.scoped("files", id.String(), "refresh"), struct{}{}))
}

// FileContent returns the bytes of a small file that is not sliced, through the API itself. The caller closes the reader.
func (c *Client) FileContent(ctx context.Context, id IntID) (io.ReadCloser, error) {
	return c.body(ctx, get(c.scoped("files", id.String(), "content")))
}
