package platform

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/storageapi"
)

type storedFile struct {
	ID        int64               `json:"id"`
	Branch    string              `json:"branch"`
	Name      string              `json:"name"`
	Created   storageapi.Time     `json:"created"`
	Expires   storageapi.Time     `json:"expires"` // zero means never
	MaxAge    *int                `json:"maxAge,omitempty"`
	Sliced    bool                `json:"sliced,omitempty"`
	Encrypted bool                `json:"encrypted,omitempty"`
	Tags      []string            `json:"tags,omitempty"`
	Size      int64               `json:"size"`
	RunID     *string             `json:"runId,omitempty"`
	Creator   storageapi.TokenRef `json:"creator"`
}

const (
	fileDays       = 15
	exportDays     = 2
	uploadLife     = 12 * time.Hour
	downloadLife   = time.Hour
	fileCode       = "storage.files.validation"
	fileNotFound   = "storage.files.notFound"
	maxFileContent = 10 << 20
)

func (f *storedFile) expired() bool { return !f.Expires.IsZero() && !time.Now().Before(f.Expires.Time) }

// keepFor sets how long a file lives.
func (f *storedFile) keepFor(days int) {
	f.MaxAge = &days
	f.Expires = storageapi.Time{Time: f.Created.Add(time.Duration(days) * 24 * time.Hour)}
}

func tagKey(branch, tag string, id int64) string { return key("file-tag", branch, tag, number(id)) }

// putFile stores the record of a file with the index of its tags.
func putFile(tx *txn, f storedFile) {
	for _, tag := range f.Tags {
		tx.put(tagKey(f.Branch, tag, f.ID), f.ID)
	}
	tx.put(fileKey(f.ID), f)
}

func dropFile(tx *txn, f storedFile) {
	for _, tag := range f.Tags {
		tx.delete(tagKey(f.Branch, tag, f.ID))
	}
	tx.delete(fileKey(f.ID))
}

// dropFileOf is dropFile for the file of an id, if there is one.
func dropFileOf(tx *txn, id int64) {
	var f storedFile
	if tx.get(fileKey(id), &f) {
		dropFile(tx, f)
	}
}

func (s *Server) fileRoutes() []route {
	return []route{
		{method: "POST", path: "/files/prepare", summary: "Create a file and get the credentials of its upload", branch: optionalBranch, body: "name! sizeBytes contentType isPermanent notify tags isSliced isEncrypted federationToken", status: http.StatusCreated, result: storageapi.File{}, run: (*request).prepareFile},
		{method: "GET", path: "/files", summary: "List files, the newest first", branch: optionalBranch, query: pageQuery + " tags q runId sinceId maxId showExpired", result: []storageapi.File{}, read: (*request).listFiles},
		{method: "GET", path: "/files/{id}", summary: "File detail", branch: optionalBranch, query: "federationToken", result: storageapi.File{}, run: (*request).getFile},
		{method: "DELETE", path: "/files/{id}", summary: "Delete a file", branch: optionalBranch, query: "async", async: true, run: (*request).deleteFile},
		{method: "POST", path: "/files/{id}/tags", summary: "Add a tag", branch: optionalBranch, body: "tag!", run: (*request).addFileTag},
		{method: "DELETE", path: "/files/{id}/tags/{tag}", summary: "Remove a tag", branch: optionalBranch, run: (*request).removeFileTag},
		{method: "PUT", path: "/files/{id}/refresh", summary: "Renew the credentials of an upload", branch: optionalBranch, result: storageapi.File{}, run: (*request).refreshFile},
		{method: "GET", path: "/files/{id}/content", summary: "Content of a file that is not sliced", branch: optionalBranch, result: text(""), run: (*request).fileContent},
	}
}

func validTag(tag string) bool { return tag != "" && len(tag) <= 255 && !strings.Contains(tag, sep) }

func (c *request) prepareFile() (any, error) {
	in := c.input(fileCode)
	f := storedFile{
		Branch: c.branch, Name: in.required("name"), Created: now(), Sliced: in.flagOr("isSliced", false),
		Encrypted: in.flagOr("isEncrypted", false), RunID: c.runID(), Creator: c.creator(),
	}
	if size := in.integer("sizeBytes"); size != nil {
		if f.Size = *size; f.Size < 0 {
			in.fail("sizeBytes", "want a whole number from 0")
		}
	}
	if !in.flagOr("isPermanent", false) {
		f.keepFor(fileDays)
	}
	if !in.flagOr("federationToken", true) {
		in.fail("federationToken", "must be true")
	}
	tags, _ := in.texts("tags")
	for _, tag := range tags {
		if !validTag(tag) {
			in.fail("tags", "want 1 to 255 characters")
		} else if !slices.Contains(f.Tags, tag) {
			f.Tags = append(f.Tags, tag)
		}
	}
	in.text("contentType")
	in.flag("notify")
	f.ID = c.newID()
	if err := c.fault(); err != nil {
		return nil, err
	}
	// With its folder on disk, uploads of many blobs at once need not make sure of it.
	if err := ensureDir(c.s.blobs.folder(f.ID)); err != nil {
		return nil, err
	}
	if err := c.s.store.update("", func(tx *txn) error { putFile(tx, f); return nil }); err != nil {
		return nil, err
	}
	return c.fileAnswer(f, c.addUpload)
}

func (c *request) addUpload(out *storageapi.File, f storedFile) error {
	if c.s.opts.S3 == nil {
		credentials, err := c.blobCredentials(f.ID, rightsWrite, uploadLife)
		out.AzureUpload = &storageapi.AzureUploadParams{
			BlobName: blobName(f.ID, f.Sliced), AccountName: blobAccount, Container: blobContainer, Credentials: credentials,
		}
		return err
	}
	credentials, err := c.s.s3Credentials(f.ID, true, uploadLife)
	out.S3Upload = &storageapi.S3UploadParams{Key: blobName(f.ID, f.Sliced), Bucket: ObjectBucket, ACL: "private", Credentials: credentials}
	if f.Encrypted {
		out.S3Upload.Encryption = "AES256"
	}
	return err
}

func (c *request) addDownload(out *storageapi.File, f storedFile) error {
	if c.s.opts.S3 == nil {
		credentials, err := c.blobCredentials(f.ID, rightsRead, uploadLife)
		out.AzurePath, out.AzureCredentials = &storageapi.AzurePath{Name: blobName(f.ID, f.Sliced), Container: blobContainer}, &credentials
		return err
	}
	credentials, err := c.s.s3Credentials(f.ID, false, uploadLife)
	out.S3Path, out.S3Credentials = &storageapi.S3Path{Key: blobName(f.ID, f.Sliced), Bucket: ObjectBucket}, &credentials
	return err
}

// fileAnswer describes a file. add adds its credentials, and may be nil.
func (c *request) fileAnswer(f storedFile, add func(out *storageapi.File, f storedFile) error) (storageapi.File, error) {
	query, err := c.s.signedQuery(f.ID, rightsRead, time.Now().Add(downloadLife))
	name := blobName(f.ID, f.Sliced)
	if f.Sliced {
		name += storageapi.ManifestName
	}
	out := storageapi.File{
		ID: storageapi.IntID(f.ID), Created: f.Created, Name: f.Name,
		URL:      storageapi.Secret(c.base() + blobPath + "/" + blobContainer + "/" + name + "?" + query),
		Provider: storageapi.ProviderAzure, Region: "local", SizeBytes: f.Size, Tags: notNil(f.Tags), MaxAgeDays: f.MaxAge,
		IsSliced: f.Sliced, IsEncrypted: f.Encrypted, RunID: f.RunID, RunIDs: []string{},
		CreatorToken: f.Creator,
	}
	if c.s.opts.S3 != nil {
		out.Provider, out.Region = storageapi.ProviderAWS, c.s.Objects().Region()
	}
	if f.RunID != nil {
		out.RunIDs = append(out.RunIDs, *f.RunID)
	}
	if err == nil && add != nil {
		err = add(&out, f)
	}
	return out, err
}

func (c *request) seesFile(f storedFile) bool {
	return f.Branch == c.branch && (c.token.CanReadAllFileUploads || int64(f.Creator.ID) == c.token.ID)
}

func (c *request) findFile(tx *txn, id int64) (storedFile, error) {
	absent := refuse(http.StatusNotFound, fileNotFound, "File %d not found", id)
	f, err := find[storedFile](tx, fileKey(id), absent)
	switch {
	case err != nil:
		return f, err
	case f.expired() || f.Branch != c.branch:
		return f, absent
	case !c.seesFile(f):
		return f, accessDenied("file %d", id)
	}
	return f, nil
}

func (c *request) pathFile() (f storedFile, err error) {
	id, err := c.knownID("id", "File", fileNotFound)
	if err != nil {
		return f, err
	}
	return seen(c, func(tx *txn) (storedFile, error) { return c.findFile(tx, id) })
}

func (c *request) getFile() (any, error) {
	f, err := c.pathFile()
	if err != nil {
		return nil, err
	}
	credentials := c.queryFlag("federationToken")
	if err := c.fault(); err != nil {
		return nil, err
	}
	if !credentials {
		return c.fileAnswer(f, nil)
	}
	return c.fileAnswer(f, c.addDownload)
}

// listFiles reads the index of the tags when there are some, and all files otherwise.
func (c *request) listFiles(tx *txn) (any, error) {
	p, query, tags := c.page(1000), c.r.URL.Query(), c.queryList("tags")
	if query.Has("tags") {
		return nil, refuse(http.StatusBadRequest, "storage.validation", "Parameter tags: want an array, tags[]")
	}
	expired := c.queryFlag("showExpired")
	since, before := int64(c.queryInt("sinceId", 0, math.MaxInt)), int64(c.queryInt("maxId", 0, math.MaxInt))
	wanted := func(f storedFile) bool {
		return c.seesFile(f) && (expired || !f.expired()) && f.ID > since && (before == 0 || f.ID < before) &&
			f.matches(query.Get("q")) && (query.Get("runId") == "" || f.RunID != nil && *f.RunID == query.Get("runId"))
	}
	files := each[storedFile](tx, key("file", ""), true)
	if len(tags) > 0 {
		files = c.taggedFiles(tx, tags)
	}
	return collect(p, files, wanted, func(f storedFile) storageapi.File {
		out, err := c.fileAnswer(f, nil)
		tx.fail(err)
		return out
	}), nil
}

// taggedFiles yields the files that have one of the tags, the newest first.
func (c *request) taggedFiles(tx *txn, tags []string) iter.Seq[storedFile] {
	return func(yield func(storedFile) bool) {
		var ids []int64
		for _, tag := range tags {
			ids = append(ids, all[int64](tx, key("file-tag", c.branch, tag, ""))...)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		for _, id := range slices.Backward(ids) {
			var f storedFile
			if tx.get(fileKey(id), &f); tx.err != nil || !yield(f) {
				return
			}
		}
	}
}

// matches is a search for a part of the name or a tag.
func (f *storedFile) matches(q string) bool {
	return q == "" || strings.Contains(strings.ToLower(f.Name), strings.ToLower(q)) ||
		slices.ContainsFunc(f.Tags, func(tag string) bool { return strings.EqualFold(tag, q) })
}

func fileLock(id int64) string { return "file " + strconv.FormatInt(id, 10) }

type fileParams struct {
	File int64 `json:"fileId"`
}

func (c *request) deleteFile() (any, error) {
	f, err := c.pathFile()
	if err != nil {
		return nil, err
	}
	return c.perform(jobSpec{operation: "fileDelete", params: fileParams{f.ID}})
}

func (s *Server) fileDeleteJob(run *jobRun, p fileParams) error {
	err := run.finish(fileLock(p.File), func(tx *txn) (any, error) { dropFileOf(tx, p.File); return nil, nil })
	if err == nil {
		s.removeBlobs(p.File)
	}
	return err
}

// removeBlobs removes the blobs of a deleted file. If that fails, the next opening tries again.
func (s *Server) removeBlobs(id int64) {
	if err := s.blobs.removeAll(id); err != nil {
		s.log.Warn("platform: the blobs of a deleted file could not be removed", "file", id, "error", err)
	}
}

// expireFiles deletes expired files.
func (s *Server) expireFiles() error {
	files, err := viewed(s.store, func(tx *txn) ([]storedFile, error) { return all[storedFile](tx, key("file", "")), nil })
	for _, f := range files {
		if !f.expired() {
			continue
		}
		if err := s.store.update(fileLock(f.ID), func(tx *txn) error { dropFile(tx, f); return nil }); err != nil {
			return err
		}
		s.removeBlobs(f.ID)
	}
	return err
}

// sweepBlobs removes blobs without a file, and unfinished uploads. A running job may have blobs before it has a file, so no
// job may run.
func (s *Server) sweepBlobs() error {
	ids, err := s.blobs.files()
	if err != nil {
		return err
	}
	for _, id := range ids {
		found, err := viewed(s.store, func(tx *txn) (bool, error) { return tx.has(fileKey(id)), nil })
		if err != nil {
			return err
		}
		if !found {
			s.removeBlobs(id)
		} else if err := s.blobs.removeUnfinished(id); err != nil {
			return err
		}
	}
	return nil
}

// changeTags changes the tags of the file of the path.
func (c *request) changeTags(change func(tags []string) []string) (any, error) {
	id, err := c.knownID("id", "File", fileNotFound)
	if err != nil {
		return nil, err
	}
	return c.change(fileLock(id), func(tx *txn) (any, error) {
		f, err := c.findFile(tx, id)
		if err != nil {
			return nil, err
		}
		dropFile(tx, f)
		f.Tags = change(slices.Clone(f.Tags))
		putFile(tx, f)
		return nil, nil
	})
}

func (c *request) addFileTag() (any, error) {
	in := c.input(fileCode)
	tag := in.required("tag")
	if tag != "" && !validTag(tag) {
		in.fail("tag", "want 1 to 255 characters")
	}
	if err := c.fault(); err != nil {
		return nil, err
	}
	return c.changeTags(func(tags []string) []string {
		if slices.Contains(tags, tag) {
			return tags
		}
		return append(tags, tag)
	})
}

func (c *request) removeFileTag() (any, error) {
	return c.changeTags(func(tags []string) []string {
		return slices.DeleteFunc(tags, func(tag string) bool { return tag == c.r.PathValue("tag") })
	})
}

// refreshFile renews the credentials of an upload while the file can still be uploaded. They allow to replace the bytes, so
// the right to read the file is not enough.
func (c *request) refreshFile() (any, error) {
	f, err := c.pathFile()
	if err != nil {
		return nil, err
	}
	if int64(f.Creator.ID) != c.token.ID && !c.token.CanManageBuckets {
		return nil, accessDenied("the upload of file %d, which was made with another token", f.ID)
	}
	if time.Since(f.Created.Time) > uploadLife {
		return nil, refuse(http.StatusBadRequest, fileCode, "The file is too old to be uploaded")
	}
	return c.fileAnswer(f, c.addUpload)
}

func (c *request) fileContent() (any, error) {
	f, err := c.pathFile()
	if err != nil {
		return nil, err
	}
	if f.Sliced {
		return nil, refuse(http.StatusBadRequest, fileCode, "The file is sliced")
	}
	blob, err := c.s.blobs.open(f.ID, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(http.StatusNotFound, notUploaded, "File %d has not been uploaded", f.ID)
	}
	if err != nil {
		return nil, err
	}
	info, err := blob.Stat()
	if err == nil && info.Size() > maxFileContent {
		err = refuse(http.StatusBadRequest, fileCode, "The file has %d bytes, at most %d are given this way", info.Size(), maxFileContent)
	}
	if err != nil {
		return nil, errors.Join(err, blob.Close())
	}
	return rawAnswer(func(w http.ResponseWriter) {
		defer blob.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
		_, _ = io.Copy(w, blob) // an error means that the client has gone
	}), nil
}
