package platform

import (
	"net/http"
	"slices"

	"github.com/forebay/forebay/storageapi"
)

const metadataCode = "storage.metadata.validation"

// readNotes reads the fields metadata, a list of keys and values, and provider. fallback is the default provider. If it is "",
// the call must name one.
func readNotes(in *input, fallback string) (notes []storageapi.KeyValue, provider string) {
	if provider = in.textOr("provider", fallback); provider == "" {
		in.fail("provider", "This value should not be blank.")
	} else if !validID(provider) {
		in.fail("provider", "want 1 to 255 characters without \"/\" and control characters")
	}
	const name = "metadata"
	in.decode(name, &notes, "an array of objects with key and value")
	for _, n := range notes {
		if n.Key == "" || len(n.Key) > 255 || !validID(n.Key) {
			in.fail(name, "key %q: want 1 to 255 characters without \"/\" and control characters", cut(n.Key, 80))
		}
	}
	return notes, provider
}

// putNotes stores notes on an owner. A note with an existing key of the provider replaces the value and keeps the id.
func (s *Server) putNotes(tx *txn, owner, provider string, notes []storageapi.KeyValue) {
	for _, n := range notes {
		k := metadataKey(owner, provider, n.Key)
		var m storageapi.Metadata
		if !tx.get(k, &m) {
			id, err := s.store.ids.takeText()
			tx.fail(err)
			m = storageapi.Metadata{ID: storageapi.ID(id), Key: n.Key, Provider: provider}
		}
		m.Value, m.Timestamp = n.Value, now()
		tx.put(k, m)
	}
}

func notes(tx *txn, owner string) []storageapi.Metadata {
	return notNil(all[storageapi.Metadata](tx, key("metadata", owner, "")))
}

func deleteNote(tx *txn, owner, id string) error {
	for _, m := range notes(tx, owner) {
		if string(m.ID) == id {
			tx.delete(metadataKey(owner, m.Provider, m.Key))
			return nil
		}
	}
	return refuse(http.StatusNotFound, "storage.metadata.notFound", "Metadata %q not found", cut(id, 80))
}

// annotated is a kind of objects that have notes.
type annotated struct {
	what   string // for the summaries
	path   string
	branch branchScope
	// provider is the default provider. If it is empty, every call must name one.
	provider string
	// lock names the lock of the object of the path. Holding it keeps notes from being stored during its deletion.
	lock func(c *request) string
	// owner finds the object of the path and checks the right to read, or to change, its notes.
	owner func(c *request, tx *txn, change bool) (string, error)
}

func branchOwner(branch string) string { return "branch" + sep + branch }

func (s *Server) metadataRoutes() []route {
	branches := annotated{
		what: "a branch", branch: requiredBranch, provider: "user", lock: func(*request) string { return branchesLock },
		owner: func(c *request, tx *txn, change bool) (string, error) {
			if !change {
				return branchOwner(c.branch), nil
			}
			if !c.token.CanManageBuckets {
				return "", accessDenied("the metadata of branch %s are read-only for this token", c.branch)
			}
			_, err := getBranch(tx, c.branchNumber())
			return branchOwner(c.branch), err
		},
	}
	configurations := annotated{
		what: "a configuration", path: configPath, branch: requiredBranch, provider: "user",
		lock: func(c *request) string { return c.pathConfiguration().lock() },
		owner: func(c *request, tx *txn, _ bool) (string, error) {
			conf, err := c.openConfiguration(tx, false)
			if err != nil {
				return "", err
			}
			return conf.metadataOwner(), nil
		},
	}
	buckets := annotated{
		what: "a bucket", path: "/buckets/{bucket}", branch: optionalBranch,
		lock: func(c *request) string { return bucketLock(c.branch, c.r.PathValue("bucket")) },
		owner: func(c *request, tx *txn, change bool) (string, error) {
			id := c.r.PathValue("bucket")
			if change {
				return bucketOwner(c.branch, id), c.findWritable(tx, id)
			}
			_, err := c.findBucket(tx, id)
			return bucketOwner(c.branch, id), err
		},
	}
	tables := annotated{
		what: "a table", path: "/tables/{table}", branch: optionalBranch,
		lock: func(c *request) string { return tableLock(c.branch, c.r.PathValue("table")) },
		owner: func(c *request, tx *txn, change bool) (string, error) {
			t, err := c.pathTable(tx, change)
			return tableOwner(c.branch, t.ID), err
		},
	}
	ofTables := tables.routes()
	for i := range ofTables {
		if ofTables[i].method == "POST" { // it sets notes of the columns as well
			ofTables[i].body += " columnsMetadata"
			ofTables[i].result, ofTables[i].run = storageapi.TableMetadata{}, (*request).setTableMetadata
		}
	}
	return slices.Concat(branches.routes(), configurations.routes(), buckets.routes(), ofTables)
}

func (a annotated) routes() []route {
	path, body := a.path+"/metadata", "provider metadata"
	if a.provider == "" {
		body = "provider! metadata"
	}
	return []route{
		{
			method: "GET", path: path, summary: "List the metadata of " + a.what, branch: a.branch, result: []storageapi.Metadata{},
			read: func(c *request, tx *txn) (any, error) {
				owner, err := a.owner(c, tx, false)
				if err != nil {
					return nil, err
				}
				return notes(tx, owner), nil
			},
		},
		{
			method: "POST", path: path, summary: "Set metadata of " + a.what, branch: a.branch, body: body, status: http.StatusCreated, result: []storageapi.Metadata{},
			run: func(c *request) (any, error) {
				added, provider := readNotes(c.input(metadataCode), a.provider)
				return a.change(c, func(tx *txn, owner string) (any, error) {
					c.s.putNotes(tx, owner, provider, added)
					return notes(tx, owner), nil
				})
			},
		},
		{
			method: "DELETE", path: path + "/{metadata}", summary: "Delete metadata of " + a.what, branch: a.branch,
			run: func(c *request) (any, error) {
				return a.change(c, func(tx *txn, owner string) (any, error) {
					return nil, deleteNote(tx, owner, c.r.PathValue("metadata"))
				})
			},
		},
	}
}

func (a annotated) change(c *request, do func(tx *txn, owner string) (any, error)) (any, error) {
	return c.change(a.lock(c), func(tx *txn) (any, error) {
		owner, err := a.owner(c, tx, true)
		if err != nil {
			return nil, err
		}
		return do(tx, owner)
	})
}

// setTableMetadata sets notes of a table and its columns.
func (c *request) setTableMetadata() (any, error) {
	in := c.input(metadataCode)
	added, provider := readNotes(in, "")
	var groups map[string][]storageapi.ColumnNote
	in.decode("columnsMetadata", &groups, "an object of arrays of objects with columnName, key and value")
	return c.change(tableLock(c.branch, c.r.PathValue("table")), func(tx *txn) (any, error) {
		t, err := c.pathTable(tx, true)
		if err != nil {
			return nil, err
		}
		c.s.putNotes(tx, tableOwner(t.Branch, t.ID), provider, added)
		for _, group := range groups {
			for _, n := range group {
				if t.find(n.ColumnName) < 0 || !validID(n.Key) {
					return nil, refuse(http.StatusBadRequest, metadataCode, "Column %q, key %q: no such column or a bad key", cut(n.ColumnName, 80), cut(n.Key, 80))
				}
				c.s.putNotes(tx, columnOwner(t.Branch, t.ID, n.ColumnName), provider, []storageapi.KeyValue{{Key: n.Key, Value: n.Value}})
			}
		}
		return c.tableNotes(tx, t), nil
	})
}

// tableNotes reads the notes on a table and its columns.
func (c *request) tableNotes(tx *txn, t table) storageapi.TableMetadata {
	out := storageapi.TableMetadata{Metadata: notes(tx, tableOwner(t.Branch, t.ID)), ColumnsMetadata: storageapi.Map[[]storageapi.Metadata]{}}
	for _, col := range t.Columns {
		if list := notes(tx, columnOwner(t.Branch, t.ID, col.Name)); len(list) > 0 {
			out.ColumnsMetadata[col.Name] = list
		}
	}
	return out
}

// addNotes adds those notes to the description of a table that are wanted.
func (c *request) addNotes(tx *txn, t table, out *storageapi.Table, own, columns bool) {
	if !own && !columns {
		return
	}
	all := c.tableNotes(tx, t)
	if own {
		out.Metadata = all.Metadata
	}
	if columns {
		out.ColumnMetadata = all.ColumnsMetadata
	}
}

func (c *request) searchConfigurations(tx *txn) (any, error) {
	query, keys := c.r.URL.Query(), c.queryList("metadataKeys")
	// one accepts a parameter that is absent, or is the value.
	one := func(name, value string) bool { return query.Get(name) == "" || query.Get(name) == value }
	list := []storageapi.ConfigurationMatch{}
	for k, data := range tx.scan(key("config", c.branch, ""), false) {
		var head configHead
		if !tx.decode(k, data, &head) {
			break
		}
		component := k[:len(k)-len(head.ID)-len(sep)]
		if head.Latest.Deleted || !c.token.mayUse(component) || !one("componentId", component) || !one("configurationId", head.ID) {
			continue
		}
		matching := notes(tx, configID{c.branch, component, head.ID}.metadataOwner())
		if len(keys) > 0 {
			matching = slices.DeleteFunc(matching, func(m storageapi.Metadata) bool { return !slices.Contains(keys, m.Key) })
		}
		filtered := query.Get("include") == "filteredMetadata"
		if len(matching) == 0 && (len(keys) > 0 || filtered) {
			continue // a search that shows metadata finds only configurations that have some
		}
		match := storageapi.ConfigurationMatch{ComponentID: component, ConfigurationID: head.ID}
		if filtered {
			match.Metadata = matching
		}
		list = append(list, match)
	}
	return list, nil
}
