package platform

import (
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// absentServices are the services of the platform that this server does not have. The index lists them, because clients look
// up their ids there. Every call to one is answered with 501 and its name.
var absentServices = []string{"import", "oauth", "billing", "scheduler", "sync-actions", "notification"}

// ownServices are served here.
var ownServices = []string{"queue", "encryption"}

// serviceList lists services for the index: this server's, the embedder's, then the absent ones.
func (s *Server) serviceList(base string) []storageapi.Service {
	var list []storageapi.Service
	for _, id := range ownServices {
		list = append(list, storageapi.Service{ID: id, URL: base})
	}
	for _, service := range s.opts.Services {
		list = append(list, storageapi.Service{ID: service.ID, URL: service.URL})
	}
	for _, id := range absentServices {
		if !slices.ContainsFunc(list, func(s storageapi.Service) bool { return s.ID == id }) {
			list = append(list, storageapi.Service{ID: id, URL: base + "/absent/" + id})
		}
	}
	return list
}

// absentRoutes answer the calls to services that are not there.
func (s *Server) absentRoutes() []route {
	absent := func(c *call) (any, error) {
		id, _, _ := strings.Cut(strings.TrimPrefix(c.r.URL.Path, "/absent/"), "/")
		if !slices.Contains(absentServices, id) {
			return nil, refuse(http.StatusNotFound, "", "There is no service %q", cut(id, 80))
		}
		return nil, refuse(http.StatusNotImplemented, "", "This installation has no service %q", id)
	}
	return []route{{path: "/absent/", summary: "Services that are not part of this installation", public: true, api: serviceAPI, run: absent}}
}
