package platform

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/forebay/forebay/storageapi"
)

const metadataCode = "storage.metadata.validation"

// readNotes reads the field metadata, a list of keys and values, and who says so. fallback is the provider of a call that
// names none; with "" it must.
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

// putNotes stores notes on an owner. One with the key of an earlier one of the same provider replaces its value and
// keeps its id.
func (s *Server) putNotes(tx *txn, owner, provider string, notes []storageapi.KeyValue) error {
	for _, n := range notes {
		k := metadataKey(owner, provider, n.Key)
		var m storageapi.Metadata
		found, err := tx.get(k, &m)
		if err != nil {
			return err
		}
		if !found {
			id, err := s.ids()
			if err != nil {
				return err
			}
			m = storageapi.Metadata{ID: storageapi.ID(id), Key: n.Key, Provider: provider}
		}
		m.Value, m.Timestamp = n.Value, now()
		if err := tx.put(k, m); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) ids() (string, error) { return s.store.ids.takeText() }

// notes lists the notes on an owner.
func notes(tx *txn, owner string) ([]storageapi.Metadata, error) {
	list, err := all[storageapi.Metadata](tx, key("metadata", owner, ""))
	return notNil(list), err
}

// deleteNote deletes the note of an id.
func deleteNote(tx *txn, owner, id string) error {
	list, err := notes(tx, owner)
	if err != nil {
		return err
	}
	for _, m := range list {
		if string(m.ID) == id {
			return tx.delete(metadataKey(owner, m.Provider, m.Key))
		}
	}
	return refuse(http.StatusNotFound, "storage.metadata.notFound", "Metadata %q not found", cut(id, 80))
}

func branchOwner(branch string) string { return "branch" + sep + branch }

func (s *Server) branchMetadataRoutes() []route {
	return []route{
		{method: "GET", path: "/metadata", summary: "List the metadata of a branch", branch: requiredBranch, run: (*call).listBranchMetadata},
		{method: "POST", path: "/metadata", summary: "Set metadata of a branch", branch: requiredBranch, run: (*call).setBranchMetadata},
		{method: "DELETE", path: "/metadata/{metadata}", summary: "Delete metadata of a branch", branch: requiredBranch, run: (*call).deleteBranchMetadata},
	}
}

func (c *call) listBranchMetadata() (reply, error) {
	var list []storageapi.Metadata
	err := c.s.store.view(func(tx *txn) (err error) {
		list, err = notes(tx, branchOwner(c.branch))
		return err
	})
	return answered(list, err)
}

// changeBranchMetadata runs a change of the notes on the branch of the path. It holds the lock of all branches, so that no
// note is stored for one that is being deleted.
func (c *call) changeBranchMetadata(change func(tx *txn, owner string) error) error {
	if !c.token.CanManageBuckets {
		return accessDenied("the metadata of branch %s are read-only for this token", c.branch)
	}
	return c.s.store.update(branchesLock, func(tx *txn) error {
		if _, err := getBranch(tx, c.branchNumber()); err != nil {
			return err
		}
		return change(tx, branchOwner(c.branch))
	})
}

func (c *call) setBranchMetadata() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	added, provider := readNotes(in, "user")
	if err := in.err(metadataCode); err != nil {
		return failed(err)
	}
	var list []storageapi.Metadata
	err = c.changeBranchMetadata(func(tx *txn, owner string) (err error) {
		if err = c.s.putNotes(tx, owner, provider, added); err != nil {
			return err
		}
		list, err = notes(tx, owner)
		return err
	})
	if err != nil {
		return failed(err)
	}
	return created(list)
}

func (c *call) deleteBranchMetadata() (reply, error) {
	err := c.changeBranchMetadata(func(tx *txn, owner string) error { return deleteNote(tx, owner, c.r.PathValue("metadata")) })
	if err != nil {
		return failed(err)
	}
	return noContent()
}

const metadataPath = configPath + "/metadata"

func (s *Server) configurationMetadataRoutes() []route {
	return []route{
		{method: "GET", path: metadataPath, summary: "List the metadata of a configuration", branch: requiredBranch, run: (*call).listConfigurationMetadata},
		{method: "POST", path: metadataPath, summary: "Set metadata of a configuration", branch: requiredBranch, run: (*call).setConfigurationMetadata},
		{method: "DELETE", path: metadataPath + "/{metadata}", summary: "Delete metadata of a configuration", branch: requiredBranch, run: (*call).deleteConfigurationMetadata},
		{method: "GET", path: "/search/component-configurations", summary: "Search configurations", branch: requiredBranch, run: (*call).searchConfigurations},
	}
}

func (c *call) listConfigurationMetadata() (reply, error) {
	var list []storageapi.Metadata
	err := c.readConfiguration(func(conf *configuration) (err error) {
		list, err = notes(conf.tx, conf.metadataOwner())
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

func (c *call) setConfigurationMetadata() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	added, provider := readNotes(in, "user")
	if err := in.err(metadataCode); err != nil {
		return failed(err)
	}
	var list []storageapi.Metadata
	_, err = c.changeConfiguration(false, func(conf *configuration) (err error) {
		if err := c.s.putNotes(conf.tx, conf.metadataOwner(), provider, added); err != nil {
			return err
		}
		list, err = notes(conf.tx, conf.metadataOwner())
		return err
	})
	if err != nil {
		return failed(err)
	}
	return created(list)
}

func (c *call) deleteConfigurationMetadata() (reply, error) {
	_, err := c.changeConfiguration(false, func(conf *configuration) error {
		return deleteNote(conf.tx, conf.metadataOwner(), c.r.PathValue("metadata"))
	})
	if err != nil {
		return failed(err)
	}
	return noContent()
}

func (c *call) searchConfigurations() (reply, error) {
	query := c.r.URL.Query()
	keys := c.queryList("metadataKeys")
	list := []storageapi.ConfigurationMatch{}
	err := c.s.store.view(func(tx *txn) error {
		for k, rec := range tx.scan(key("config", c.branch, ""), false) {
			var head configHead
			if err := rec.decode(&head); err != nil {
				return err
			}
			component := k[:len(k)-len(head.ID)-len(sep)]
			if head.Latest.Deleted || !c.token.mayUse(component) ||
				query.Get("componentId") != "" && query.Get("componentId") != component ||
				query.Get("configurationId") != "" && query.Get("configurationId") != head.ID {
				continue
			}
			all, err := notes(tx, configID{c.branch, component, head.ID}.metadataOwner())
			if err != nil {
				return err
			}
			matching := all
			if len(keys) > 0 {
				matching = slices.DeleteFunc(all, func(m storageapi.Metadata) bool { return !slices.Contains(keys, m.Key) })
				if len(matching) == 0 {
					continue
				}
			}
			match := storageapi.ConfigurationMatch{ComponentID: component, ConfigurationID: head.ID}
			if query.Get("include") == "filteredMetadata" {
				if len(matching) == 0 {
					continue // a search that shows metadata finds what has some
				}
				match.Metadata = matching
			}
			list = append(list, match)
		}
		return nil
	})
	if err != nil {
		return failed(fmt.Errorf("search: %w", err))
	}
	return ok(list)
}
