package platform

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// storedFile is the record of a file.
type storedFile struct {
	ID        int64               `json:"id"`
	Branch    string              `json:"branch"`
	Name      string              `json:"name"`
	Created   storageapi.Time     `json:"created"`
	Expires   storageapi.Time     `json:"expires"` // zero: never
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
func putFile(tx *txn, f storedFile) error {
	for _, tag := range f.Tags {
		if err := tx.put(tagKey(f.Branch, tag, f.ID), f.ID); err != nil {
			return err
		}
	}
	return tx.put(fileKey(f.ID), f)
}

func dropFile(tx *txn, f storedFile) error {
	for _, tag := range f.Tags {
		if err := tx.delete(tagKey(f.Branch, tag, f.ID)); err != nil {
			return err
		}
	}
	return tx.delete(fileKey(f.ID))
}

func (s *Server) fileRoutes() []route {
	return []route{
		{method: "POST", path: "/files/prepare", summary: "Create a file and get the credentials of its upload", branch: optionalBranch, run: (*call).prepareFile},
		{method: "GET", path: "/files", summary: "List files, the newest first", branch: optionalBranch, run: (*call).listFiles},
		{method: "GET", path: "/files/{id}", summary: "File detail", branch: optionalBranch, run: (*call).getFile},
		{method: "DELETE", path: "/files/{id}", summary: "Delete a file", branch: optionalBranch, run: (*call).deleteFile},
		{method: "POST", path: "/files/{id}/tags", summary: "Add a tag", branch: optionalBranch, run: (*call).addFileTag},
		{method: "DELETE", path: "/files/{id}/tags/{tag}", summary: "Remove a tag", branch: optionalBranch, run: (*call).removeFileTag},
		{method: "PUT", path: "/files/{id}/refresh", summary: "Renew the credentials of an upload", branch: optionalBranch, run: (*call).refreshFile},
		{method: "GET", path: "/files/{id}/content", summary: "Content of a file that is not sliced", branch: optionalBranch, run: (*call).fileContent},
	}
}

func validTag(tag string) bool { return tag != "" && len(tag) <= 255 && !strings.Contains(tag, sep) }

func (c *call) prepareFile() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
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
	if err := in.err(fileCode); err != nil {
		return failed(err)
	}
	if f.ID, err = c.s.store.ids.take(); err != nil {
		return failed(err)
	}
	// With its folder on disk, uploads of many blobs at once need not make sure of it.
	if err := ensureDir(c.s.blobs.folder(f.ID)); err != nil {
		return failed(err)
	}
	if err := c.s.store.update("", func(tx *txn) error { return putFile(tx, f) }); err != nil {
		return failed(err)
	}
	out, err := c.fileAnswer(f)
	if err != nil {
		return failed(err)
	}
	if err = c.addUpload(&out, f); err != nil {
		return failed(err)
	}
	return created(out)
}

// addUpload adds what an upload of the file needs.
func (c *call) addUpload(out *storageapi.File, f storedFile) (err error) {
	if c.s.opts.S3 == nil {
		out.AzureUpload, err = c.azureUpload(f)
		return err
	}
	upload := &storageapi.S3UploadParams{Key: blobName(f.ID, f.Sliced), Bucket: ObjectBucket, ACL: "private"}
	if f.Encrypted {
		upload.Encryption = "AES256"
	}
	upload.Credentials, err = c.s.s3Credentials(f.ID, true, uploadLife)
	out.S3Upload = upload
	return err
}

// addDownload adds what a download of the file needs.
func (c *call) addDownload(out *storageapi.File, f storedFile) (err error) {
	if c.s.opts.S3 == nil {
		out.AzurePath = &storageapi.AzurePath{Name: blobName(f.ID, f.Sliced), Container: blobContainer}
		out.AzureCredentials, err = c.blobCredentials(f.ID, rightsRead, uploadLife)
		return err
	}
	out.S3Path = &storageapi.S3Path{Key: blobName(f.ID, f.Sliced), Bucket: ObjectBucket}
	credentials, err := c.s.s3Credentials(f.ID, false, uploadLife)
	out.S3Credentials = &credentials
	return err
}

func (c *call) azureUpload(f storedFile) (*storageapi.AzureUploadParams, error) {
	credentials, err := c.blobCredentials(f.ID, rightsWrite, uploadLife)
	if err != nil {
		return nil, err
	}
	return &storageapi.AzureUploadParams{
		BlobName: blobName(f.ID, f.Sliced), AccountName: blobAccount, Container: blobContainer, Credentials: *credentials,
	}, nil
}

func (c *call) fileAnswer(f storedFile) (storageapi.File, error) {
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
	return out, err
}

// seesFile reports whether the caller may see a file.
func (c *call) seesFile(f storedFile) bool {
	return f.Branch == c.branch && (c.token.CanReadAllFileUploads || int64(f.Creator.ID) == c.token.ID)
}

// findFile reads the file of an id.
func (c *call) findFile(tx *txn, id int64) (storedFile, error) {
	var f storedFile
	found, err := tx.get(fileKey(id), &f)
	if err != nil {
		return f, err
	}
	if !found || f.expired() || f.Branch != c.branch {
		return f, refuse(http.StatusNotFound, fileNotFound, "File %d not found", id)
	}
	if !c.seesFile(f) {
		return f, accessDenied("file %d", id)
	}
	return f, nil
}

func (c *call) pathFile() (f storedFile, err error) {
	id, err := c.knownID("id", "File", fileNotFound)
	if err != nil {
		return f, err
	}
	err = c.s.store.view(func(tx *txn) (err error) {
		f, err = c.findFile(tx, id)
		return err
	})
	return f, err
}

func (c *call) getFile() (reply, error) {
	f, err := c.pathFile()
	if err != nil {
		return failed(err)
	}
	out, err := c.fileAnswer(f)
	if err != nil {
		return failed(err)
	}
	if credentials, err := c.queryFlag("federationToken"); err != nil {
		return failed(err)
	} else if credentials {
		if err := c.addDownload(&out, f); err != nil {
			return failed(err)
		}
	}
	return ok(out)
}

// listFiles reads the index of the tags when there are some, and all files otherwise.
func (c *call) listFiles() (reply, error) {
	limit, offset, err := c.paging(1000)
	if err != nil {
		return failed(err)
	}
	query := c.r.URL.Query()
	if query.Has("tags") {
		return failed(refuse(http.StatusBadRequest, "storage.validation", "Parameter tags: want an array, tags[]"))
	}
	showExpired, err := c.queryFlag("showExpired")
	if err != nil {
		return failed(err)
	}
	since, err := c.queryInt("sinceId", 0, math.MaxInt)
	if err != nil {
		return failed(err)
	}
	before, err := c.queryInt("maxId", 0, math.MaxInt)
	if err != nil {
		return failed(err)
	}
	tags := c.queryList("tags")
	list := []storageapi.File{}
	err = c.s.store.view(func(tx *txn) error {
		n := 0
		add := func(f storedFile) (more bool, err error) {
			if !c.seesFile(f) || f.expired() && !showExpired || f.ID <= int64(since) || before > 0 && f.ID >= int64(before) ||
				!f.matches(query.Get("q")) || query.Get("runId") != "" && (f.RunID == nil || *f.RunID != query.Get("runId")) {
				return true, nil
			}
			if n++; n <= offset {
				return true, nil
			}
			out, err := c.fileAnswer(f)
			list = append(list, out)
			return len(list) < limit, err
		}
		if len(tags) == 0 {
			for _, rec := range tx.scan(key("file", ""), true) {
				var f storedFile
				if err := rec.decode(&f); err != nil {
					return err
				}
				if more, err := add(f); err != nil || !more {
					return err
				}
			}
			return nil
		}
		var ids []int64
		for _, tag := range tags {
			tagged, err := all[int64](tx, key("file-tag", c.branch, tag, ""))
			if err != nil {
				return err
			}
			ids = append(ids, tagged...)
		}
		slices.Sort(ids)
		slices.Reverse(ids)
		for _, id := range slices.Compact(ids) {
			var f storedFile
			if _, err := tx.get(fileKey(id), &f); err != nil {
				return err
			}
			if more, err := add(f); err != nil || !more {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

// matches is a search for a part of the name or a tag.
func (f *storedFile) matches(q string) bool {
	return q == "" || strings.Contains(strings.ToLower(f.Name), strings.ToLower(q)) ||
		slices.ContainsFunc(f.Tags, func(tag string) bool { return strings.EqualFold(tag, q) })
}

func fileLock(id int64) string { return "file " + strconv.FormatInt(id, 10) }

func (c *call) deleteFile() (reply, error) {
	f, err := c.pathFile()
	if err != nil {
		return failed(err)
	}
	if async, err := c.queryFlag("async"); err != nil {
		return failed(err)
	} else if async {
		return c.startJob(jobSpec{operation: "fileDelete", params: map[string]int64{"fileId": f.ID}})
	}
	err = c.s.store.update(fileLock(f.ID), func(tx *txn) error {
		latest, err := c.findFile(tx, f.ID)
		if err != nil {
			return err
		}
		return dropFile(tx, latest)
	})
	if err != nil {
		return failed(err)
	}
	c.s.removeBlobs(f.ID)
	return noContent()
}

func (s *Server) fileDeleteJob(run *jobRun) error {
	var p struct {
		FileID int64 `json:"fileId"`
	}
	if err := run.decode(&p); err != nil {
		return err
	}
	err := run.finish(fileLock(p.FileID), func(tx *txn) (any, error) {
		var f storedFile
		if found, err := tx.get(fileKey(p.FileID), &f); err != nil || !found {
			return nil, err
		}
		return nil, dropFile(tx, f)
	})
	if err == nil {
		s.removeBlobs(p.FileID)
	}
	return err
}

// removeBlobs removes what nothing refers to any more. What cannot be removed now is tried again at the next opening.
func (s *Server) removeBlobs(id int64) {
	if err := s.blobs.removeAll(id); err != nil {
		s.log.Warn("platform: the blobs of a deleted file could not be removed", "file", id, "error", err)
	}
}

// expireFiles deletes the files whose life is over.
func (s *Server) expireFiles() error {
	var expired []storedFile
	err := s.store.view(func(tx *txn) error {
		files, err := all[storedFile](tx, key("file", ""))
		for _, f := range files {
			if f.expired() {
				expired = append(expired, f)
			}
		}
		return err
	})
	for _, f := range expired {
		if err := s.store.update(fileLock(f.ID), func(tx *txn) error { return dropFile(tx, f) }); err != nil {
			return err
		}
		s.removeBlobs(f.ID)
	}
	return err
}

// sweepBlobs removes blobs whose file is gone, and what uploads have left unfinished. A job that runs may have blobs before
// it has a file, so no job may run.
func (s *Server) sweepBlobs() error {
	ids, err := s.blobs.files()
	if err != nil {
		return err
	}
	for _, id := range ids {
		var found bool
		err := s.store.view(func(tx *txn) (err error) {
			found, err = tx.get(fileKey(id), &storedFile{})
			return err
		})
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

func (c *call) changeFile(change func(f *storedFile) error) (reply, error) {
	id, err := c.knownID("id", "File", fileNotFound)
	if err != nil {
		return failed(err)
	}
	err = c.s.store.update(fileLock(id), func(tx *txn) error {
		f, err := c.findFile(tx, id)
		if err != nil {
			return err
		}
		if err := dropFile(tx, f); err != nil {
			return err
		}
		if err := change(&f); err != nil {
			return err
		}
		return putFile(tx, f)
	})
	if err != nil {
		return failed(err)
	}
	return noContent()
}

func (c *call) addFileTag() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	tag := in.required("tag")
	if tag != "" && !validTag(tag) {
		in.fail("tag", "want 1 to 255 characters")
	}
	if err := in.err(fileCode); err != nil {
		return failed(err)
	}
	return c.changeFile(func(f *storedFile) error {
		if !slices.Contains(f.Tags, tag) {
			f.Tags = append(slices.Clone(f.Tags), tag)
		}
		return nil
	})
}

func (c *call) removeFileTag() (reply, error) {
	return c.changeFile(func(f *storedFile) error {
		f.Tags = slices.DeleteFunc(slices.Clone(f.Tags), func(tag string) bool { return tag == c.r.PathValue("tag") })
		return nil
	})
}

// refreshFile renews the credentials of an upload, for as long as a file can be uploaded. They can replace the bytes, so
// the right to read a file is not enough.
func (c *call) refreshFile() (reply, error) {
	f, err := c.pathFile()
	if err != nil {
		return failed(err)
	}
	if int64(f.Creator.ID) != c.token.ID && !c.token.CanManageBuckets {
		return failed(accessDenied("the upload of file %d, which was made with another token", f.ID))
	}
	if time.Since(f.Created.Time) > uploadLife {
		return failed(refuse(http.StatusBadRequest, fileCode, "The file is too old to be uploaded"))
	}
	out, err := c.fileAnswer(f)
	if err == nil {
		err = c.addUpload(&out, f)
	}
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

func (c *call) fileContent() (reply, error) {
	f, err := c.pathFile()
	if err != nil {
		return failed(err)
	}
	if f.Sliced {
		return failed(refuse(http.StatusBadRequest, fileCode, "The file is sliced"))
	}
	blob, err := c.s.blobs.open(f.ID, "")
	if errors.Is(err, fs.ErrNotExist) {
		return failed(refuse(http.StatusNotFound, "storage.fileNotUploaded", "File %d has not been uploaded", f.ID))
	}
	if err != nil {
		return failed(err)
	}
	info, err := blob.Stat()
	if err == nil && info.Size() > maxFileContent {
		err = refuse(http.StatusBadRequest, fileCode, "The file has %d bytes, at most %d are given this way", info.Size(), maxFileContent)
	}
	if err != nil {
		return failed(errors.Join(err, blob.Close()))
	}
	return reply{write: func(w http.ResponseWriter) {
		defer blob.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
		_, _ = io.Copy(w, blob) // an error means that the client has gone
	}}, nil
}
