package platform

import "net/http"

// absentPaths are the paths of the platform that this server does not implement, by the name of the missing part.
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

// absentPartRoutes answers absentPaths with 501 and the name of the part. Clients do not retry a 501.
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
