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

// describeAPI makes the OpenAPI document of one API from its routes.
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
			described := rt.describe(types, name)
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

// describe makes the description of a route under a path.
func (rt route) describe(types schemas, path string) schema {
	parameters := []any{}
	for _, m := range pathParameter.FindAllStringSubmatch(path, -1) {
		parameters = append(parameters, schema{"name": m[1], "in": "path", "required": true, "schema": schema{"type": "string"}})
	}
	for _, name := range strings.Fields(rt.query) {
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
	answer(rt.success(nil), rt.result)
	if rt.async {
		answer(http.StatusAccepted, storageapi.Job{})
	}
	out := schema{"summary": rt.summary, "parameters": parameters, "responses": responses}
	if rt.body != "" {
		out["requestBody"] = rt.describeBody()
	}
	return out
}

// describeBody describes the fields of a body, which is JSON or a form.
func (rt route) describeBody() schema {
	properties, required, more := schema{}, []string{}, false
	for _, name := range strings.Fields(rt.body) {
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

// Shapes of responses that have no separate type in package storageapi.
type (
	indexShape struct {
		storageapi.Index
		Components []indexComponentShape `json:"components"`
	}
	indexComponentShape struct {
		storageapi.Component
		// In the brief form alone.
		Ico128     string   `json:"ico128"`
		Features   []string `json:"features"`
		Categories []string `json:"categories"`
	}
	importShape struct {
		storageapi.ImportResult
		Transaction any `json:"transaction"`
	}
	bucketShape struct {
		storageapi.Bucket
		Tables []storageapi.Table `json:"tables"`
	}
	listedBucketShape struct {
		storageapi.Bucket
		Tables string `json:"tables"`
	}
	componentShape struct {
		storageapi.Component
		Configurations []storageapi.Configuration `json:"configurations"`
	}
	idShape struct {
		ID string `json:"id"`
	}
	versionShape struct {
		Version string `json:"version"`
	}
	eventIDShape struct {
		ID   string `json:"id"`
		UUID string `json:"uuid"`
	}
)

// What several routes take in their query or body.
const (
	pageQuery      = "limit offset"
	jobsQuery      = pageQuery + " storage_job_status excluded_storage_job_status created_time created_time_from created_time_to start_time start_time_from start_time_to end_time end_time_from end_time_to"
	selectionQuery = "limit columns changedSince changedUntil whereFilters orderBy"
	versionsQuery  = pageQuery + " include"
	importBody     = "incremental withoutHeaders columns ignoredLinesCount delimiter enclosure escapedBy treatValuesAsNull deduplicationStrategy useTimestampFromDataFile"
	tableBody      = "name! primaryKey delimiter enclosure escapedBy"
	rowBody        = "name description configuration state isDisabled changeDescription *"
	queueQuery     = pageQuery + " component config status id runId branchId sortBy sortOrder"
	tokenBody      = "description bucketPermissions componentAccess canManageBuckets canReadAllFileUploads canPurgeTrash expiresIn"
)
