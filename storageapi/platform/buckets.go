package platform

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

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
	bucketNotFound = "storage.buckets.notFound"
	bucketExists   = "storage.buckets.alreadyExists"
	backendName    = "directory"
	noPrefix       = "disable-legacy-bucket-prefix"
	bucketNotEmpty = "buckets.deleteNotEmpty"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,96}$`)

func (s *Server) bucketRoutes() []route {
	return []route{
		{method: "GET", path: "/buckets", summary: "List buckets", branch: optionalBranch, query: "include", result: []listedBucketShape{}, read: (*request).listBuckets},
		{method: "POST", path: "/buckets", summary: "Create a bucket", branch: optionalBranch, body: "name! stage description displayName backend color *", status: http.StatusCreated, result: listedBucketShape{}, run: (*request).createBucket},
		{method: "GET", path: "/buckets/{bucket}", summary: "Bucket detail with tables", branch: optionalBranch, query: "include", result: bucketShape{}, read: (*request).getBucket},
		{method: "PUT", path: "/buckets/{bucket}", summary: "Update a bucket", branch: optionalBranch, query: "async", body: "displayName color", result: listedBucketShape{}, async: true, run: (*request).updateBucket},
		{method: "DELETE", path: "/buckets/{bucket}", summary: "Delete a bucket", branch: optionalBranch, query: "force async", async: true, run: (*request).deleteBucket},
	}
}

func bucketLock(branch, id string) string { return "bucket " + branch + " " + id }

func bucketOwner(branch, id string) string { return "bucket" + sep + branch + sep + id }

// findBucket reads a bucket that the caller may read.
func (c *request) findBucket(tx *txn, id string) (bucket, error) {
	var b bucket
	if !tx.get(bucketKey(c.branch, id), &b) && (c.token.CanManageBuckets || c.token.Buckets[id] != "") {
		return b, refuse(http.StatusNotFound, bucketNotFound, "The bucket %q was not found in the project \"%d\"", cut(id, 120), c.s.opts.ProjectID)
	}
	if !c.token.mayRead(id) {
		return b, accessDenied("bucket %q", cut(id, 120))
	}
	return b, nil
}

func (c *request) bucketAnswer(tx *txn, b bucket) (storageapi.Bucket, []table) {
	tables := all[table](tx, key("table", c.branch, b.ID+"."))
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
	return out, tables
}

// bucketDetail is a bucket with its tables, or their address.
type bucketDetail struct {
	storageapi.Bucket
	Tables any `json:"tables"`
}

func (c *request) includes(name string) bool {
	return slices.Contains(strings.Split(c.query("include"), ","), name)
}

func (c *request) listBuckets(tx *txn) (any, error) {
	list := []bucketDetail{}
	for b := range each[bucket](tx, key("bucket", c.branch, ""), false) {
		if !c.token.mayRead(b.ID) {
			continue
		}
		out := c.briefBucket(tx, b)
		if c.includes("metadata") {
			out.Metadata = notes(tx, bucketOwner(c.branch, b.ID))
		}
		list = append(list, out)
	}
	return list, nil
}

// briefBucket describes a bucket with the address of its tables.
func (c *request) briefBucket(tx *txn, b bucket) bucketDetail {
	out, _ := c.bucketAnswer(tx, b)
	return bucketDetail{out, out.URI + "/tables"}
}

func (c *request) getBucket(tx *txn) (any, error) {
	b, err := c.findBucket(tx, c.r.PathValue("bucket"))
	if err != nil {
		return nil, err
	}
	out, tables := c.bucketAnswer(tx, b)
	out.Metadata = notes(tx, bucketOwner(c.branch, b.ID))
	items := []storageapi.Table{}
	for _, t := range tables {
		item := c.tableAnswer(t)
		c.addNotes(tx, t, &item, c.includes("metadata"), c.includes("columnMetadata"))
		items = append(items, item)
	}
	return bucketDetail{out, items}, nil
}

// checkBucketName refuses a name that another bucket shows.
func (c *request) checkBucketName(tx *txn, id, displayName string) error {
	taken := func(b bucket) bool { return b.ID != id && b.DisplayName == displayName }
	return refuseIf(tx, key("bucket", c.branch, ""), taken, func(b bucket) error {
		return refuse(http.StatusBadRequest, bucketExists, "The display name %q is taken by bucket %q", displayName, b.ID)
	})
}

// bucketFields are the fields that a request for a new bucket may have. They are the effective fields, and all other fields of a bucket, because
// clients send back buckets that they have read. Any other field is a misspelling and is refused.
var bucketFields = []string{
	"name", "stage", "description", "displayName", "backend", "color",
	"id", "bucketId", "branchId", "idBranch", "uri", "tables", "created", "lastChangeDate", "updated", "isReadOnly", "dataSizeBytes", "rowsCount", "isMaintenance",
	"sharing", "hasExternalSchema", "databaseName", "path", "isLinkedBucket", "owner", "metadata",
}

func (c *request) createBucket() (any, error) {
	if !c.token.CanManageBuckets {
		return nil, accessDenied("the token cannot create buckets")
	}
	in := c.input(bucketCode)
	name := in.required("name")
	in.name("name", name)
	b := bucket{Stage: in.textOr("stage", "in"), Description: in.textOr("description", ""), DisplayName: in.textOr("displayName", name), Color: in.text("color")}
	in.only(bucketFields...)
	if b.Stage != "in" && b.Stage != "out" {
		in.fail("stage", "want in or out")
	}
	in.name("displayName", b.DisplayName)
	if backend := in.textOr("backend", ""); backend != "" && backend != backendName {
		in.fail("backend", "want %s", backendName)
	}
	b.Name = name
	if !slices.Contains(c.s.opts.Features, noPrefix) {
		b.Name = "c-" + name
	}
	b.ID, b.Created = b.Stage+"."+b.Name, now()
	// One lock for all creations, because display names are unique over all buckets.
	return c.change(bucketLock(c.branch, ""), func(tx *txn) (any, error) {
		if tx.has(bucketKey(c.branch, b.ID)) {
			return nil, refuse(http.StatusBadRequest, bucketExists, "The bucket %q already exists", b.ID)
		}
		// Only a display name that the caller chose can be refused.
		err := c.checkBucketName(tx, b.ID, b.DisplayName)
		if err != nil && !in.has("displayName") {
			b.DisplayName = b.Stage + "-" + name
			err = c.checkBucketName(tx, b.ID, b.DisplayName)
		}
		if err != nil {
			return nil, err
		}
		tx.put(bucketKey(c.branch, b.ID), b)
		return c.briefBucket(tx, b), nil
	})
}

type bucketParams struct {
	Bucket      string  `json:"bucketId"`
	Force       bool    `json:"force,omitempty"`
	DisplayName *string `json:"displayName,omitempty"`
	Color       *string `json:"color,omitempty"`
}

func (c *request) updateBucket() (any, error) {
	in := c.input(bucketCode)
	p := bucketParams{Bucket: c.r.PathValue("bucket"), DisplayName: in.text("displayName"), Color: in.text("color")}
	if p.DisplayName != nil && !validName.MatchString(*p.DisplayName) {
		in.fail("displayName", "want 1 to 96 letters, digits, dashes and underscores")
	}
	return c.manageBucket("bucketUpdate", p)
}

// manageBucket runs an operation on an existing bucket that the caller may manage.
func (c *request) manageBucket(operation string, p bucketParams) (any, error) {
	err := c.view(func(tx *txn) error {
		_, err := c.findBucket(tx, p.Bucket)
		if err == nil && !c.token.CanManageBuckets {
			err = accessDenied("bucket %q", p.Bucket)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.perform(jobSpec{operation: operation, params: p})
}

func (s *Server) bucketUpdateJob(run *jobRun, p bucketParams) error {
	c := run.request()
	return run.finish(bucketLock(c.branch, ""), func(tx *txn) (any, error) {
		b, err := c.findBucket(tx, p.Bucket)
		if err != nil {
			return nil, err
		}
		if p.DisplayName != nil {
			if err := c.checkBucketName(tx, b.ID, *p.DisplayName); err != nil {
				return nil, err
			}
			b.DisplayName = *p.DisplayName
		}
		if p.Color != nil {
			b.Color = p.Color
		}
		b.Changed = now()
		tx.put(bucketKey(c.branch, b.ID), b)
		return c.briefBucket(tx, b), nil
	})
}

func (c *request) deleteBucket() (any, error) {
	return c.manageBucket("bucketDelete", bucketParams{Bucket: c.r.PathValue("bucket"), Force: c.queryFlag("force")})
}

// bucketDeleteJob deletes a bucket, its tables with their data, and the rights on it. It holds the locks of the bucket and
// of all its tables. Otherwise a change that started earlier could store a table again.
func (s *Server) bucketDeleteJob(run *jobRun, p bucketParams) error {
	branch := run.record.Branch
	// The lock order is bucket, its tables by id, tokens. A holder of a table lock or of the token lock acquires no further lock.
	defer s.store.locks.Hold(bucketLock(branch, ""))()
	defer s.store.locks.Hold(bucketLock(branch, p.Bucket))()
	tables, err := viewed(s.store, func(tx *txn) ([]table, error) { return all[table](tx, key("table", branch, p.Bucket+".")), nil })
	if err != nil {
		return err
	}
	for _, t := range tables {
		defer s.store.locks.Hold(tableLock(branch, t.ID))()
	}
	defer s.store.locks.Hold(tokensLock)()
	err = run.finish("", func(tx *txn) (_ any, err error) {
		tables, err = dropBucket(tx, branch, p)
		return nil, err
	})
	if err == nil {
		s.parts.dropTables(tables)
	}
	return err
}

// dropBucket deletes the records of a bucket and its tables. The caller then removes the data of the returned tables.
func dropBucket(tx *txn, branch string, p bucketParams) ([]table, error) {
	tables := all[table](tx, key("table", branch, p.Bucket+"."))
	if len(tables) > 0 && !p.Force {
		return nil, refuse(http.StatusBadRequest, bucketNotEmpty, "The bucket %q has %d tables: delete them first, or use force", p.Bucket, len(tables))
	}
	for _, t := range tables {
		dropTable(tx, branch, t)
	}
	tx.deleteAll(key("metadata", bucketOwner(branch, p.Bucket), ""))
	tx.delete(bucketKey(branch, p.Bucket))
	dropPermissions(tx, p.Bucket)
	return tables, nil
}

// findWritable checks that a bucket is there and that the caller may write to it.
func (c *request) findWritable(tx *txn, id string) error {
	if _, err := c.findBucket(tx, id); err != nil {
		return err
	}
	if !c.token.mayWrite(id) {
		return accessDenied("bucket %q is read-only for this token", cut(id, 120))
	}
	return nil
}
