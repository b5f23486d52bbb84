package platform

import "net/http"

// absentPaths are what clients of the platform know and this server does not have, by what it is called.
var absentPaths = map[string][]string{
	"workspaces":        {"/workspaces", "/workspaces/{rest...}", configPath + "/workspaces", configPath + "/workspaces/{rest...}"},
	"aliases of tables": {"/buckets/{bucket}/table-aliases", "/tables/{table}/alias-filter", "/tables/{table}/alias-columns-auto-sync"},
	"snapshots":         {"/tables/{table}/snapshots", "/snapshots", "/snapshots/{rest...}"},
	"shared buckets": {
		"/shared-buckets", "/buckets/{bucket}/share", "/buckets/{bucket}/share-organization", "/buckets/{bucket}/share-organization-project",
		"/buckets/{bucket}/share-to-projects", "/buckets/{bucket}/share-to-users", "/buckets/{bucket}/links",
	},
	"table triggers": {"/triggers", "/triggers/{rest...}"},
}

// absentPartRoutes answer the paths of absent parts with an error that says so. It is 501 so that clients do not try again.
func absentPartRoutes() (list []route) {
	for what, paths := range absentPaths {
		absent := func(*call) (any, error) {
			return nil, refuse(http.StatusNotImplemented, "notImplemented", "This server does not have %s", what)
		}
		for _, path := range paths {
			for _, pattern := range (route{path: path, branch: optionalBranch}).patterns() {
				list = append(list, route{path: pattern, summary: "Not a part of this server", public: true, api: absentAPI, run: absent})
			}
		}
	}
	return list
}
