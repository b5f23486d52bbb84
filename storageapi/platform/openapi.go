package platform

import (
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// describeAPI makes the OpenAPI document of one API from its routes and their operations.
func (s *Server) describeAPI(which api, title, base string) any {
	paths := make(map[string]map[string]any)
	types := schemas{}
	failure := schema{
		"description": "An error", "content": jsonContent(types.of(reflect.TypeFor[storageapi.ErrorBody]())),
	}
	for _, rt := range s.routes {
		if rt.api != which {
			continue
		}
		for _, pattern := range rt.patterns() {
			name := strings.TrimSuffix(pattern, "/{$}")
			if paths[name] == nil {
				paths[name] = make(map[string]any)
			}
			described := operations[which][rt.method+" "+rt.path].describe(types, name)
			described["summary"] = rt.summary
			described["responses"].(schema)["default"] = failure
			if !rt.public {
				described["security"] = []any{schema{"token": []string{}}}
			}
			paths[name][strings.ToLower(rt.method)] = described
		}
	}
	return schema{
		"openapi": "3.0.3",
		"info":    schema{"title": title + " API", "version": revision},
		"servers": []any{schema{"url": base}},
		"paths":   paths,
		"components": schema{
			"schemas":         types,
			"securitySchemes": schema{"token": schema{"type": "apiKey", "in": "header", "name": storageapi.TokenHeader}},
		},
	}
}

func jsonContent(of schema) schema { return schema{"application/json": schema{"schema": of}} }

// describe makes the description of an operation under a path.
func (o operation) describe(types schemas, path string) schema {
	parameters := []any{}
	for _, m := range pathParameter.FindAllStringSubmatch(path, -1) {
		parameters = append(parameters, schema{"name": m[1], "in": "path", "required": true, "schema": schema{"type": "string"}})
	}
	for _, name := range strings.Fields(o.query) {
		parameters = append(parameters, schema{"name": name, "in": "query", "schema": schema{}})
	}
	responses := schema{}
	answer := func(status int, v any) {
		r := schema{"description": http.StatusText(status)}
		if t := reflect.TypeOf(v); t != nil {
			media := "application/json"
			if t == reflect.TypeFor[text]() {
				media = "*/*"
			}
			r["content"] = schema{media: schema{"schema": types.of(t)}}
		}
		responses[strconv.Itoa(status)] = r
	}
	answer(o.status, o.answer)
	if o.async {
		answer(http.StatusAccepted, storageapi.Job{})
	}
	out := schema{"parameters": parameters, "responses": responses}
	if o.body != "" {
		out["requestBody"] = o.describeBody()
	}
	return out
}

// describeBody describes the fields of a body, which is JSON or a form.
func (o operation) describeBody() schema {
	properties, required, more := schema{}, []string{}, false
	for _, name := range strings.Fields(o.body) {
		name, needed := strings.CutSuffix(name, "!")
		switch {
		case name == "*":
			more = true
			continue
		case needed:
			required = append(required, name)
		}
		properties[name] = schema{}
	}
	of := schema{"type": "object", "properties": properties, "additionalProperties": more}
	if len(required) > 0 {
		of["required"] = required
	}
	content := schema{}
	for _, media := range []string{"application/json", formMedia, "multipart/form-data"} {
		content[media] = schema{"schema": of}
	}
	return schema{"content": content}
}
