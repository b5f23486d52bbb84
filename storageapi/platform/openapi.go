package platform

import (
	"regexp"
	"strings"
)

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// describeAPI makes the OpenAPI document of one API from its routes: paths, methods and parameters of the path.
func (s *Server) describeAPI(which api, title, base string) any {
	paths := make(map[string]map[string]any)
	for _, rt := range s.routes {
		if rt.api != which {
			continue
		}
		for _, pattern := range rt.patterns() {
			name := strings.TrimSuffix(pattern, "/{$}")
			var parameters []any
			for _, m := range pathParameter.FindAllStringSubmatch(name, -1) {
				parameters = append(parameters, map[string]any{
					"name": m[1], "in": "path", "required": true, "schema": map[string]string{"type": "string"},
				})
			}
			operation := map[string]any{
				"summary": rt.summary, "parameters": notNil(parameters),
				"responses": map[string]any{"default": map[string]string{"description": "JSON"}},
			}
			if !rt.public {
				operation["security"] = []any{map[string]any{"token": []string{}}}
			}
			if paths[name] == nil {
				paths[name] = make(map[string]any)
			}
			paths[name][strings.ToLower(rt.method)] = operation
		}
	}
	return map[string]any{
		"openapi": "3.0.3",
		"info":    map[string]string{"title": title + " API", "version": revision},
		"servers": []any{map[string]string{"url": base}},
		"paths":   paths,
		"components": map[string]any{"securitySchemes": map[string]any{
			"token": map[string]string{"type": "apiKey", "in": "header", "name": "X-StorageApi-Token"},
		}},
	}
}
