package platform

import (
	"net/http"
	"slices"
	"strings"
)

// absentPart is a part of the Storage API that this server does not implement. Nothing of it exists, so its lists are empty, and
// the call for one item of it returns 404. A call that would make an item returns 501, which clients do not
// retry.
type absentPart struct {
	name string
	// notFound is the code of an item that does not exist.
	notFound string
	// lists are the paths of lists, whose items are one element longer. actions are paths that only make or change something.
	lists, actions []string
}

var absentParts = []absentPart{
	{name: "workspaces", notFound: "storage.workspaces.notFound", lists: []string{"/workspaces", configPath + "/workspaces"}},
	{name: "snapshots", notFound: "storage.snapshots.notFound", lists: []string{"/snapshots", "/tables/{table}/snapshots"}},
	{name: "table triggers", notFound: "storage.triggers.notFound", lists: []string{"/triggers"}},
	{name: "aliases of tables", actions: []string{"/buckets/{bucket}/table-aliases", "/tables/{table}/alias-filter", "/tables/{table}/alias-columns-auto-sync"}},
	{name: "shared buckets", notFound: "storage.buckets.notFound", lists: []string{"/shared-buckets"}, actions: []string{
		"/buckets/{bucket}/share", "/buckets/{bucket}/share-organization", "/buckets/{bucket}/share-organization-project",
		"/buckets/{bucket}/share-to-projects", "/buckets/{bucket}/share-to-users", "/buckets/{bucket}/links",
	}},
}

func absentPartRoutes() (list []route) {
	add := func(method, path string, public bool, run func(c *request) (any, error)) {
		for _, pattern := range (route{path: path, branch: optionalBranch}).patterns() {
			list = append(list, route{method: method, path: pattern, branch: optionalBranch, public: public, api: absentAPI, run: run})
		}
	}
	for _, part := range absentParts {
		absent := func(*request) (any, error) {
			return nil, refuse(http.StatusNotImplemented, "notImplemented", "This server does not have %s", part.name)
		}
		for _, path := range part.lists {
			list = append(list, route{method: "GET", path: path, summary: "List " + part.name + ", of which there are none", branch: optionalBranch, result: []struct{}{}, read: (*request).emptyList})
			add("", path, true, absent)
			add("", path+"/{item}", false, func(c *request) (any, error) {
				return nil, refuse(http.StatusNotFound, part.notFound, "%q not found: this server does not have %s", cut(c.r.PathValue("item"), 80), part.name)
			})
			add("", path+"/{item}/{rest...}", false, absent)
		}
		for _, path := range part.actions {
			add("", path, true, absent)
		}
	}
	return list
}

// emptyList returns a list that has no items. The configuration or the table of the path must exist.
func (c *request) emptyList(tx *txn) (any, error) {
	var err error
	switch {
	case c.r.PathValue("config") != "":
		_, err = c.openConfiguration(tx, false)
	case c.r.PathValue("table") != "":
		_, err = c.pathTable(tx, false)
	}
	return []struct{}{}, err
}

// absentServices are the services of the platform that this server does not have. The index lists them, because clients look
// up their ids there. A call to an absent service returns 501 and its name.
var absentServices = []string{"import", "oauth", "billing", "scheduler", "sync-actions", "notification"}

// absentLists are the lists of absent services that clients read before they remove the items found. The lists are empty, and
// the call for one item returns 404.
var absentLists = map[string]string{"scheduler": "schedules", "notification": "project-subscriptions"}

const absentServicePath = "/absent/"

// absentRoutes handle the calls to absent services.
func absentRoutes() []route {
	list := []route{{path: absentServicePath, public: true, api: serviceAPI, run: (*request).absentService}}
	for id, name := range absentLists {
		path := absentServicePath + id + "/" + name
		list = append(list,
			route{method: "GET", path: path, api: serviceAPI, read: (*request).emptyList},
			route{path: path + "/{item}", api: serviceAPI, run: func(c *request) (any, error) {
				return nil, refuse(http.StatusNotFound, "", "%q not found in %s: this installation has no service %q", cut(c.r.PathValue("item"), 80), name, id)
			}},
		)
	}
	return list
}

func (c *request) absentService() (any, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(c.r.URL.Path, absentServicePath), "/")
	if !slices.Contains(absentServices, id) {
		return nil, refuse(http.StatusNotFound, "", "There is no service %q", cut(id, 80))
	}
	return nil, refuse(http.StatusNotImplemented, "", "This installation has no service %q", id)
}
