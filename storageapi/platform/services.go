package platform

import (
	"slices"

	"github.com/forebay/forebay/storageapi"
)

// ownServices are served here.
var ownServices = []string{"queue", "encryption"}

// serviceList lists services for the index, which are this server's, the embedder's, then the absent ones.
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
			list = append(list, storageapi.Service{ID: id, URL: base + absentServicePath + id})
		}
	}
	return list
}
