package platform

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// bucket is the record of a bucket.
type bucket struct {
	ID          string          `json:"id"`
	Stage       string          `json:"stage"`
	Name        string          `json:"name"`
	DisplayName string          `json:"displayName"`
	Description string          `json:"description"`
	Color       *string         `json:"color,omitempty"`
	Created     storageapi.Time `json:"created"`
	Changed     storageapi.Time `json:"changed"`
}

const (
	bucketCode     = "storage.buckets.validation"
	bucketExists   = "storage.buckets.alreadyExists"
	backendName    = "directory"
	noPrefix       = "disable-legacy-bucket-prefix"
	bucketNotEmpty = "buckets.deleteNotEmpty"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,96}$`)

func (s *Server) bucketRoutes() []route {
	return []route{
		{method: "GET", path: "/buckets", summary: "List buckets", branch: optionalBranch, run: (*call).listBuckets},
		{method: "POST", path: "/buckets", summary: "Create a bucket", branch: optionalBranch, run: (*call).createBucket},
		{method: "GET", path: "/buckets/{bucket}", summary: "Bucket detail with tables", branch: optionalBranch, run: (*call).getBucket},
		{method: "PUT", path: "/buckets/{bucket}", summary: "Update a bucket", branch: optionalBranch, run: (*call).updateBucket},
		{method: "DELETE", path: "/buckets/{bucket}", summary: "Delete a bucket", branch: optionalBranch, run: (*call).deleteBucket},
		{method: "GET", path: "/buckets/{bucket}/metadata", summary: "List the metadata of a bucket", branch: optionalBranch, run: (*call).listBucketMetadata},
		{method: "POST", path: "/buckets/{bucket}/metadata", summary: "Set metadata of a bucket", branch: optionalBranch, run: (*call).setBucketMetadata},
		{method: "DELETE", path: "/buckets/{bucket}/metadata/{metadata}", summary: "Delete metadata of a bucket", branch: optionalBranch, run: (*call).deleteBucketMetadata},
	}
}

func bucketLock(branch, id string) string { return "bucket " + branch + " " + id }

func bucketOwner(branch, id string) string { return "bucket" + sep + branch + sep + id }

// findBucket reads a bucket that the caller may read.
func (c *call) findBucket(tx *txn, id string) (bucket, error) {
	var b bucket
	found, err := tx.get(bucketKey(c.branch, id), &b)
	if err != nil {
		return b, err
	}
	if !found && (c.token.CanManageBuckets || c.token.Buckets[id] != "") {
		return b, refuse(http.StatusNotFound, "storage.buckets.notFound", "The bucket %q was not found in the project \"%d\"", cut(id, 120), c.s.opts.ProjectID)
	}
	if !c.token.mayRead(id) {
		return b, accessDenied("bucket %q", cut(id, 120))
	}
	return b, nil
}

func (c *call) bucketAnswer(tx *txn, b bucket) (storageapi.Bucket, []table, error) {
	tables, err := all[table](tx, key("table", c.branch, b.ID+"."))
	if err != nil {
		return storageapi.Bucket{}, nil, err
	}
	out := storageapi.Bucket{
		URI: c.base() + storagePath + "/buckets/" + b.ID, ID: b.ID, Name: b.Name, DisplayName: b.DisplayName, Stage: b.Stage,
		Description: b.Description, Created: b.Created, LastChangeDate: b.Changed, Updated: b.Created, Backend: backendName, Color: b.Color,
		DatabaseName: "", Path: b.ID, IDBranch: storageapi.IntID(c.branchNumber()),
	}
	for _, t := range tables {
		out.DataSizeBytes += t.Bytes
		out.RowsCount += t.Rows
		if t.LastChange.After(out.LastChangeDate.Time) {
			out.LastChangeDate = t.LastChange
		}
	}
	return out, tables, nil
}

// bucketDetail adds what a bucket has where it is not a part of a table.
type bucketDetail struct {
	storageapi.Bucket
	Tables any `json:"tables"`
}

func (c *call) includes(name string) bool {
	return slices.Contains(strings.Split(c.query("include"), ","), name)
}

func (c *call) listBuckets() (reply, error) {
	list := []bucketDetail{}
	err := c.s.store.view(func(tx *txn) error {
		buckets, err := all[bucket](tx, key("bucket", c.branch, ""))
		if err != nil {
			return err
		}
		for _, b := range buckets {
			if !c.token.mayRead(b.ID) {
				continue
			}
			out, _, err := c.bucketAnswer(tx, b)
			if err != nil {
				return err
			}
			if c.includes("metadata") {
				if out.Metadata, err = notes(tx, bucketOwner(c.branch, b.ID)); err != nil {
					return err
				}
			}
			list = append(list, bucketDetail{out, out.URI + "/tables"})
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

func (c *call) getBucket() (reply, error) {
	var out bucketDetail
	err := c.s.store.view(func(tx *txn) error {
		b, err := c.findBucket(tx, c.r.PathValue("bucket"))
		if err != nil {
			return err
		}
		answer, tables, err := c.bucketAnswer(tx, b)
		if err != nil {
			return err
		}
		answer.Metadata, err = notes(tx, bucketOwner(c.branch, b.ID))
		if err != nil {
			return err
		}
		items := []storageapi.Table{}
		for _, t := range tables {
			item := c.tableAnswer(t)
			if err := c.addNotes(tx, t, &item, c.includes("metadata"), c.includes("columnMetadata")); err != nil {
				return err
			}
			items = append(items, item)
		}
		out = bucketDetail{answer, items}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

// checkBucketName refuses a name that another bucket shows.
func (c *call) checkBucketName(tx *txn, id, displayName string) error {
	buckets, err := all[bucket](tx, key("bucket", c.branch, ""))
	if err != nil {
		return err
	}
	for _, b := range buckets {
		if b.ID != id && b.DisplayName == displayName {
			return refuse(http.StatusBadRequest, bucketExists, "The display name %q is taken by bucket %q", displayName, b.ID)
		}
	}
	return nil
}

// bucketFields are what a new bucket may be described with: the fields that count, and the rest of a bucket's own, because clients
// send back what they have read. Anything else is a misspelt field, which would make a bucket other than the one that is meant.
var bucketFields = []string{
	"name", "stage", "description", "displayName", "backend", "color",
	"id", "bucketId", "branchId", "idBranch", "uri", "tables", "created", "lastChangeDate", "updated", "isReadOnly", "dataSizeBytes", "rowsCount", "isMaintenance",
	"sharing", "hasExternalSchema", "databaseName", "path", "isLinkedBucket", "owner", "metadata",
}

func (c *call) createBucket() (reply, error) {
	if !c.token.CanManageBuckets {
		return failed(accessDenied("the token cannot create buckets"))
	}
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	name := in.required("name")
	if name != "" && !validName.MatchString(name) {
		in.fail("name", "want 1 to 96 letters, digits, dashes and underscores")
	}
	b := bucket{Stage: in.textOr("stage", "in"), Description: in.textOr("description", ""), DisplayName: in.textOr("displayName", name), Color: in.text("color")}
	in.only(bucketFields...)
	if b.Stage != "in" && b.Stage != "out" {
		in.fail("stage", "want in or out")
	}
	if b.DisplayName != "" && !validName.MatchString(b.DisplayName) {
		in.fail("displayName", "want 1 to 96 letters, digits, dashes and underscores")
	}
	if backend := in.text("backend"); backend != nil && *backend != "" && *backend != backendName {
		in.fail("backend", "want %s", backendName)
	}
	if err := in.err(bucketCode); err != nil {
		return failed(err)
	}
	b.Name = name
	if !slices.Contains(c.s.opts.Features, noPrefix) {
		b.Name = "c-" + name
	}
	b.ID, b.Created = b.Stage+"."+b.Name, now()
	var out storageapi.Bucket
	// One lock for all creations, because display names are unique over all buckets.
	err = c.s.store.update(bucketLock(c.branch, ""), func(tx *txn) error {
		if found, err := tx.get(bucketKey(c.branch, b.ID), &bucket{}); err != nil {
			return err
		} else if found {
			return refuse(http.StatusBadRequest, bucketExists, "The bucket %q already exists", b.ID)
		}
		// The display name is only in the way when somebody has chosen it.
		if err := c.checkBucketName(tx, b.ID, b.DisplayName); err != nil {
			if in.has("displayName") {
				return err
			}
			b.DisplayName = b.Stage + "-" + name
			if err := c.checkBucketName(tx, b.ID, b.DisplayName); err != nil {
				return err
			}
		}
		if err := tx.put(bucketKey(c.branch, b.ID), b); err != nil {
			return err
		}
		out, _, err = c.bucketAnswer(tx, b)
		return err
	})
	if err != nil {
		return failed(err)
	}
	return created(bucketDetail{out, out.URI + "/tables"})
}

type bucketParams struct {
	Bucket      string  `json:"bucketId"`
	Force       bool    `json:"force,omitempty"`
	DisplayName *string `json:"displayName,omitempty"`
	Color       *string `json:"color,omitempty"`
}

func (c *call) updateBucket() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	p := bucketParams{Bucket: c.r.PathValue("bucket"), DisplayName: in.text("displayName"), Color: in.text("color")}
	if p.DisplayName != nil && !validName.MatchString(*p.DisplayName) {
		in.fail("displayName", "want 1 to 96 letters, digits, dashes and underscores")
	}
	if err := in.err(bucketCode); err != nil {
		return failed(err)
	}
	if err := c.checkManage(p.Bucket); err != nil {
		return failed(err)
	}
	if async, err := c.queryFlag("async"); err != nil {
		return failed(err)
	} else if async {
		return c.startJob(jobSpec{operation: "bucketUpdate", params: p})
	}
	var out storageapi.Bucket
	err = c.s.store.update(bucketLock(c.branch, ""), func(tx *txn) error {
		out, err = c.applyBucketUpdate(tx, p)
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(bucketDetail{out, out.URI + "/tables"})
}

// checkManage checks that a bucket is there and that the caller may change it.
func (c *call) checkManage(id string) error {
	return c.s.store.view(func(tx *txn) error {
		if _, err := c.findBucket(tx, id); err != nil {
			return err
		}
		if !c.token.CanManageBuckets {
			return accessDenied("bucket %q", id)
		}
		return nil
	})
}

func (c *call) applyBucketUpdate(tx *txn, p bucketParams) (storageapi.Bucket, error) {
	b, err := c.findBucket(tx, p.Bucket)
	if err != nil {
		return storageapi.Bucket{}, err
	}
	if p.DisplayName != nil {
		if err := c.checkBucketName(tx, b.ID, *p.DisplayName); err != nil {
			return storageapi.Bucket{}, err
		}
		b.DisplayName = *p.DisplayName
	}
	if p.Color != nil {
		b.Color = p.Color
	}
	b.Changed = now()
	if err := tx.put(bucketKey(c.branch, b.ID), b); err != nil {
		return storageapi.Bucket{}, err
	}
	out, _, err := c.bucketAnswer(tx, b)
	return out, err
}

func (s *Server) bucketUpdateJob(run *jobRun) error {
	var p bucketParams
	if err := run.decode(&p); err != nil {
		return err
	}
	c := run.call()
	return run.finish(bucketLock(c.branch, ""), func(tx *txn) (any, error) {
		out, err := c.applyBucketUpdate(tx, p)
		return bucketDetail{out, out.URI + "/tables"}, err
	})
}

func (c *call) deleteBucket() (reply, error) {
	force, err := c.queryFlag("force")
	if err != nil {
		return failed(err)
	}
	async, err := c.queryFlag("async")
	if err != nil {
		return failed(err)
	}
	p := bucketParams{Bucket: c.r.PathValue("bucket"), Force: force}
	if err := c.checkManage(p.Bucket); err != nil {
		return failed(err)
	}
	if async {
		return c.startJob(jobSpec{operation: "bucketDelete", params: p})
	}
	err = c.s.deleteBucket(c.branch, p, func(effect func(tx *txn) error) error { return c.s.store.update("", effect) })
	if err != nil {
		return failed(err)
	}
	return noContent()
}

// deleteBucket deletes a bucket, the data of its tables and the rights on it, in a change that commit makes. It holds the
// locks of the bucket and of all its tables: a change of one of them that began before could otherwise store it anew.
func (s *Server) deleteBucket(branch string, p bucketParams, commit func(effect func(tx *txn) error) error) error {
	// Bucket first, tables after it, in their order, tokens last: nobody who holds the lock of a table asks for another one,
	// nor does who holds that of the tokens.
	defer s.store.locks.lock(bucketLock(branch, ""))()
	defer s.store.locks.lock(bucketLock(branch, p.Bucket))()
	var tables []table
	err := s.store.view(func(tx *txn) (err error) {
		tables, err = all[table](tx, key("table", branch, p.Bucket+"."))
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range tables {
		defer s.store.locks.lock(tableLock(branch, t.ID))()
	}
	defer s.store.locks.lock(tokensLock)()
	var dropped []table
	err = commit(func(tx *txn) (err error) {
		dropped, err = dropBucket(tx, branch, p)
		return err
	})
	if err == nil {
		s.parts.dropTables(dropped)
	}
	return err
}

// dropBucket deletes a bucket with its tables, which are returned: their data is to be removed afterwards.
func dropBucket(tx *txn, branch string, p bucketParams) ([]table, error) {
	tables, err := all[table](tx, key("table", branch, p.Bucket+"."))
	if err != nil {
		return nil, err
	}
	if len(tables) > 0 && !p.Force {
		return nil, refuse(http.StatusBadRequest, bucketNotEmpty, "The bucket %q has %d tables: delete them first, or use force", p.Bucket, len(tables))
	}
	for _, t := range tables {
		if err := dropTable(tx, branch, t); err != nil {
			return nil, err
		}
	}
	if err := tx.deleteAll(key("metadata", bucketOwner(branch, p.Bucket), "")); err != nil {
		return nil, err
	}
	if err := tx.delete(bucketKey(branch, p.Bucket)); err != nil {
		return nil, err
	}
	return tables, dropPermissions(tx, p.Bucket)
}

func (s *Server) bucketDeleteJob(run *jobRun) error {
	var p bucketParams
	if err := run.decode(&p); err != nil {
		return err
	}
	return s.deleteBucket(run.record.Branch, p, func(effect func(tx *txn) error) error {
		return run.finish("", func(tx *txn) (any, error) { return nil, effect(tx) })
	})
}

func (c *call) listBucketMetadata() (reply, error) {
	var list []storageapi.Metadata
	err := c.s.store.view(func(tx *txn) error {
		b, err := c.findBucket(tx, c.r.PathValue("bucket"))
		if err != nil {
			return err
		}
		list, err = notes(tx, bucketOwner(c.branch, b.ID))
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

func (c *call) setBucketMetadata() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	added, provider := readNotes(in, "")
	if err := in.err(metadataCode); err != nil {
		return failed(err)
	}
	var list []storageapi.Metadata
	id := c.r.PathValue("bucket")
	err = c.s.store.update(bucketLock(c.branch, id), func(tx *txn) error {
		if err := c.findWritable(tx, id); err != nil {
			return err
		}
		if err := c.s.putNotes(tx, bucketOwner(c.branch, id), provider, added); err != nil {
			return err
		}
		list, err = notes(tx, bucketOwner(c.branch, id))
		return err
	})
	if err != nil {
		return failed(err)
	}
	return created(list)
}

func (c *call) deleteBucketMetadata() (reply, error) {
	id := c.r.PathValue("bucket")
	err := c.s.store.update(bucketLock(c.branch, id), func(tx *txn) error {
		if err := c.findWritable(tx, id); err != nil {
			return err
		}
		return deleteNote(tx, bucketOwner(c.branch, id), c.r.PathValue("metadata"))
	})
	if err != nil {
		return failed(err)
	}
	return noContent()
}

// findWritable checks that a bucket is there and that the caller may write to it.
func (c *call) findWritable(tx *txn, id string) error {
	if _, err := c.findBucket(tx, id); err != nil {
		return err
	}
	if !c.token.mayWrite(id) {
		return accessDenied("bucket %q is read-only for this token", cut(id, 120))
	}
	return nil
}
