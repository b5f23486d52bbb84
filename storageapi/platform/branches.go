package platform

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/forebay/forebay/storageapi"
)

type devBranch struct {
	ID          int64               `json:"id"`
	Name        string              `json:"name"`
	Description string              `json:"description"`
	Created     storageapi.Time     `json:"created"`
	IsDefault   bool                `json:"isDefault"`
	Creator     storageapi.TokenRef `json:"creator"`
}

func (b devBranch) answer() storageapi.DevBranch {
	return storageapi.DevBranch{
		ID: storageapi.IntID(b.ID), Name: b.Name, Description: b.Description, Created: b.Created, IsDefault: b.IsDefault, CreatorToken: b.Creator,
	}
}

// key is the branch as an element of keys.
func (b devBranch) key() string { return strconv.FormatInt(b.ID, 10) }

func (s *Server) branchRoutes() []route {
	return []route{
		{method: "GET", path: "/dev-branches", summary: "List branches", result: []storageapi.DevBranch{}, read: (*request).listBranches},
		{method: "POST", path: "/dev-branches", summary: "Create a branch", body: "name! description", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).createBranch},
		{method: "GET", path: "/dev-branches/{id}", summary: "Branch detail", result: storageapi.DevBranch{}, read: (*request).getBranch},
		{method: "PUT", path: "/dev-branches/{id}", summary: "Update a branch", body: "name description", result: storageapi.DevBranch{}, run: (*request).updateBranch},
		{method: "DELETE", path: "/dev-branches/{id}", summary: "Delete a branch", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).deleteBranch},
	}
}

// findBranch reads the branch of the path.
func (c *request) findBranch() error {
	name := c.r.PathValue("branch")
	if name == "" || name == "default" || name == c.branch {
		return nil
	}
	id, err := c.knownID("branch", "Branch", branchNotFound)
	if err != nil {
		return err
	}
	return c.s.store.view(func(tx *txn) error {
		b, err := getBranch(tx, id)
		if err != nil {
			return err
		}
		c.branch, c.dev = b.key(), !b.IsDefault
		return nil
	})
}

func getBranch(tx *txn, id int64) (devBranch, error) {
	return find[devBranch](tx, branchKey(id), refuse(http.StatusNotFound, branchNotFound, "Branch %d not found", id))
}

// listBranches returns development branches in the order of their ids, then the default branch.
func (c *request) listBranches(tx *txn) (any, error) {
	var list, last []storageapi.DevBranch
	for b := range each[devBranch](tx, key("branch", ""), false) {
		if b.IsDefault {
			last = append(last, b.answer())
		} else {
			list = append(list, b.answer())
		}
	}
	return append(list, last...), nil
}

// pathBranch reads the branch whose number is the last element of the path.
func (c *request) pathBranch(tx *txn) (devBranch, error) {
	return pathRecord[devBranch](c, tx, "Branch", branchNotFound, branchKey)
}

func (c *request) getBranch(tx *txn) (any, error) {
	b, err := c.pathBranch(tx)
	return b.answer(), err
}

type branchParams struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// branchesLock is held by every change of a branch.
const branchesLock = "branches"

const (
	branchCode     = "storage.devBranch.validation"
	branchNotFound = "storage.devBranch.notFound"
)

var errNotMaster = accessDenied("only a master token can change branches")

func (c *request) createBranch() (any, error) {
	if !c.token.Master {
		return nil, errNotMaster
	}
	in := c.input(branchCode)
	p := branchParams{ID: c.newID(), Name: in.required("name"), Description: in.textOr("description", "")}
	return c.startJob(jobSpec{operation: "devBranchCreate", params: p})
}

// checkBranchName refuses a name that another branch has.
func checkBranchName(tx *txn, id int64, name string) error {
	return refuseIf(tx, key("branch", ""), func(b devBranch) bool { return b.Name == name && b.ID != id }, func(devBranch) error {
		return refuse(http.StatusBadRequest, "storage.devBranch.alreadyExists", "There already is a branch with name %q", cut(name, 255))
	})
}

// branchCreateJob makes the branch, with a copy of the configurations of the default one.
func (s *Server) branchCreateJob(run *jobRun, p branchParams) error {
	b := devBranch{ID: p.ID, Name: p.Name, Description: p.Description, Created: now(), Creator: run.record.Creator}
	return run.finish(branchesLock, func(tx *txn) (any, error) {
		if err := checkBranchName(tx, b.ID, b.Name); err != nil {
			return nil, err
		}
		if err := s.copyConfigurations(tx, s.defaultBranch.key(), b.key(), run.record.Creator); err != nil {
			return nil, err
		}
		tx.put(branchKey(b.ID), b)
		return b.answer(), nil
	})
}

func (c *request) updateBranch() (any, error) {
	if !c.token.Master {
		return nil, errNotMaster
	}
	in := c.input(branchCode)
	name, description := in.text("name"), in.text("description")
	if name != nil && *name == "" {
		in.fail("name", "This value should not be blank.")
	}
	return c.change(branchesLock, func(tx *txn) (any, error) {
		b, err := c.pathBranch(tx)
		if err != nil {
			return nil, err
		}
		if name != nil && *name != b.Name {
			if b.IsDefault {
				return nil, refuse(http.StatusBadRequest, branchCode, "The name of the default branch cannot be changed")
			}
			if err := checkBranchName(tx, b.ID, *name); err != nil {
				return nil, err
			}
			b.Name = *name
		}
		if description != nil {
			b.Description = *description
		}
		tx.put(branchKey(b.ID), b)
		return b.answer(), nil
	})
}

func (c *request) deleteBranch() (any, error) {
	if !c.token.Master {
		return nil, errNotMaster
	}
	b, err := seen(c, c.pathBranch)
	if err != nil {
		return nil, err
	}
	if b.IsDefault {
		return nil, refuse(http.StatusBadRequest, branchCode, "The default branch cannot be deleted")
	}
	return c.startJob(jobSpec{operation: "devBranchDelete", params: branchParams{ID: b.ID}})
}

// branchDeleteJob deletes the branch with its content.
func (s *Server) branchDeleteJob(run *jobRun, p branchParams) error {
	b := devBranch{ID: p.ID}
	var tables []table
	var files []storedFile
	defer s.store.locks.Hold(tokensLock)()
	err := run.finish(branchesLock, func(tx *txn) (any, error) {
		tables = all[table](tx, key("table", b.key(), ""))
		files = dropFiles(tx, func(f storedFile) bool { return f.Branch == b.key() })
		buckets := all[bucket](tx, key("bucket", b.key(), ""))
		for _, records := range branchedRecords() {
			tx.deleteAll(records + b.key() + sep)
		}
		for _, old := range buckets {
			dropPermissions(tx, old.ID)
		}
		tx.delete(branchKey(b.ID))
		return nil, nil
	})
	if err != nil {
		return err
	}
	s.parts.dropTables(tables)
	for _, f := range files {
		s.removeBlobs(f.ID)
	}
	return nil
}

// branchedRecords are the prefixes of keys that the branch follows.
func branchedRecords() (list []string) {
	for _, kind := range branchedKinds {
		list = append(list, key(kind, ""))
	}
	for _, owner := range []string{"branch", "bucket", "table", "column", "config"} {
		list = append(list, key("metadata", owner, ""))
	}
	return list
}

// sweepBranches deletes records of deleted branches. A call that was running while its branch was deleted may have stored
// some. They are unreachable, and no branch gets that id again.
func (s *Server) sweepBranches() error {
	return s.store.update(branchesLock, func(tx *txn) error {
		var names []string
		for b := range each[devBranch](tx, key("branch", ""), false) {
			names = append(names, b.key())
		}
		slices.Sort(names) // the order of the keys
		for _, records := range branchedRecords() {
			from := []byte(records)
			for _, name := range names {
				tx.deleteRange(from, []byte(records+name+sep))
				from = prefixEnd(records + name + sep)
			}
			tx.deleteRange(from, prefixEnd(records))
		}
		dropFiles(tx, func(f storedFile) bool { return !slices.Contains(names, f.Branch) })
		return nil
	})
}

// dropFiles deletes the records of files that are gone, and returns them.
func dropFiles(tx *txn, gone func(f storedFile) bool) []storedFile {
	files := slices.DeleteFunc(all[storedFile](tx, key("file", "")), func(f storedFile) bool { return !gone(f) })
	for _, f := range files {
		dropFile(tx, f)
	}
	return files
}

// emptyObject returns a new {}. A shared variable would not do, because decoding into a RawMessage overwrites its bytes.
func emptyObject() json.RawMessage { return json.RawMessage("{}") }
