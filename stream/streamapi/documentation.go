package streamapi

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forebay/forebay/stream/internal/wire"
)

const documentationPath = "/v1/documentation"

//go:embed documentation.html
var documentationPage []byte

// documentation is the description of the API, derived from its operations.
type documentation struct {
	spec     *huma.OpenAPI
	registry huma.Registry
	json3    []byte // OpenAPI 3.1
	yaml3    []byte
	json     []byte // OpenAPI 3.0, for older clients
	yaml     []byte
}

// The names of the ways to send a token.
const (
	apiKeyScheme = "storage-api-token"
	bearerScheme = "bearer-token"
)

// pathParameters describe the placeholders of paths.
var pathParameters = map[string]struct {
	doc    string
	schema huma.Schema
}{
	"branchId":      {"Id of the branch, or \"default\".", huma.Schema{Type: huma.TypeString}},
	"sourceId":      {"Id of the source.", huma.Schema{Type: huma.TypeString, MinLength: ptr(1), MaxLength: ptr(48)}},
	"sinkId":        {"Id of the sink.", huma.Schema{Type: huma.TypeString, MinLength: ptr(1), MaxLength: ptr(48)}},
	"copyId":        {"Id of another sink of the source, whose table is the copy.", huma.Schema{Type: huma.TypeString, MinLength: ptr(1), MaxLength: ptr(48)}},
	"fileId":        {"Id of the file, as the list of files has it.", huma.Schema{Type: huma.TypeString, MinLength: ptr(1)}},
	"damageId":      {"Id of the record of damage, as the list of damage has it.", huma.Schema{Type: huma.TypeString, MinLength: ptr(1)}},
	"recordId":      {"Id of the record, as the list of the quarantine has it.", huma.Schema{Type: huma.TypeString, MinLength: ptr(1)}},
	"versionNumber": {"Number of the version.", huma.Schema{Type: huma.TypeInteger, Minimum: ptr(1.0)}},
	"taskId":        {"Id of the task, with its slashes.", huma.Schema{Type: huma.TypeString, MinLength: ptr(1)}},
}

func ptr[T any](v T) *T { return &v }

var placeholder = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// describe makes the description. It panics on a fault because the operations are constants of the program.
func describe(ops []operation, opts Options) *documentation {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[mappedColumn](), reflect.TypeFor[column]())
	d := &documentation{registry: registry, spec: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Stream API", Version: "1.0", Description: "Sources, sinks and their settings. Changes are tasks: poll the url of the response."},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			apiKeyScheme: {Type: "apiKey", In: "header", Name: tokenHeader, Description: "A token of the project."},
			bearerScheme: {Type: "http", Scheme: "bearer", Description: "The same token, for clients that can send no other header."},
		}},
	}}
	if opts.URL != "" {
		d.spec.Servers = []*huma.Server{{URL: opts.URL}}
	}
	errors := registry.Schema(reflect.TypeFor[wire.ErrorBody](), true, "Error")
	_, exchanges := opts.Auth.(ProgrammaticAuthenticator)
	exchanges = exchanges && !opts.NoProgrammaticTokens
	for i := range ops {
		o := d.describe(&ops[i], errors)
		if exchanges && ops[i].access != open {
			o.Parameters = append(o.Parameters, &huma.Param{
				Name: projectHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: ptr(1.0)},
				Description: "Id of the project; required with a programmatic token (kbc_at_, kbc_pat_), ignored with others.",
			})
		}
		d.spec.AddOperation(o)
	}
	d.addEmbedded(reflect.TypeFor[aggregatedBody](), reflect.TypeFor[aggregatedSink](), reflect.TypeFor[aggregatedStatistics](), reflect.TypeFor[failedFileBody]())
	for _, s := range registry.Map() {
		if s.AdditionalProperties == false {
			s.AdditionalProperties = nil // clients accept later versions of a response
		}
	}
	for i := range ops {
		if ops[i].body != nil {
			d.refuseUnknown(registry.Schema(reflect.TypeOf(ops[i].body), true, ""))
		}
	}
	d.render()
	return d
}

// refuseUnknown makes the schema of a request refuse unknown members at every depth. A call with a misspelt filter would change or
// delete more than its sender means.
func (d *documentation) refuseUnknown(s *huma.Schema) {
	if s.Ref != "" {
		s = d.registry.SchemaFromRef(s.Ref)
	}
	if s.Items != nil {
		d.refuseUnknown(s.Items)
	}
	if len(s.Properties) == 0 || s.AdditionalProperties != nil {
		return
	}
	s.AdditionalProperties = false
	for _, property := range s.Properties {
		d.refuseUnknown(property)
	}
}

func (d *documentation) describe(op *operation, errors *huma.Schema) *huma.Operation {
	tag := "Sources"
	switch {
	case strings.Contains(op.path, "{sinkId}") || strings.HasSuffix(op.path, "/sinks") || strings.HasSuffix(op.path, "/sinks/deleted"):
		tag = "Sinks"
	case strings.HasPrefix(op.path, "/v1/tasks"):
		tag = "Tasks"
	case op.access == open:
		tag = "Index"
	}
	o := &huma.Operation{
		Method: op.method, Path: placeholder.ReplaceAllString(op.path, "{$1}"), OperationID: op.id, Summary: op.summary, Tags: []string{tag},
		Responses: map[string]*huma.Response{},
	}
	for _, m := range pathNames(op.path) {
		p := pathParameters[m[1]]
		o.Parameters = append(o.Parameters, &huma.Param{Name: m[1], In: "path", Required: true, Description: p.doc, Schema: &p.schema})
	}
	for i, p := range op.query {
		o.Parameters = append(o.Parameters, &huma.Param{Name: p.name, In: "query", Description: p.doc, Schema: d.querySchema(&op.query[i])})
	}
	switch {
	case op.raw:
		// The empty schema is any content in both versions of OpenAPI. What one has for bytes the other refuses.
		o.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}}}
	case op.body != nil:
		o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: d.registry.Schema(reflect.TypeOf(op.body).Elem(), true, op.id)},
		}}
	}
	success := &huma.Response{Description: http.StatusText(op.status)}
	if op.result != nil {
		success.Content = map[string]*huma.MediaType{"application/json": {Schema: d.registry.Schema(reflect.TypeOf(op.result), true, op.id)}}
	}
	o.Responses[strconv.Itoa(op.status)] = success

	failures := map[int][]string{http.StatusBadRequest: {"stream.api.badRequest"}} // an unknown parameter
	if op.access != open {
		o.Security = []map[string][]string{{apiKeyScheme: {}}, {bearerScheme: {}}}
		failures[http.StatusBadRequest] = op.badRequests()
		failures[http.StatusUnauthorized] = []string{invalidToken.Name, "stream.api.masterTokenRequired"}
		failures[http.StatusRequestTimeout] = []string{"stream.api.internalError"}
		failures[http.StatusInternalServerError] = []string{"stream.api.internalError"}
		failures[http.StatusServiceUnavailable] = []string{unavailableName, "stream.api.shutdown"}
	}
	if op.access == admin || slices.ContainsFunc(op.query, func(p parameter) bool { return p.admin }) {
		failures[http.StatusForbidden] = []string{"stream.api.forbidden"}
	}
	if op.raw || op.body != nil {
		failures[http.StatusRequestEntityTooLarge] = []string{"stream.api.bodyTooLarge"}
	}
	if op.raw {
		failures[http.StatusUnsupportedMediaType] = []string{"stream.api.unsupportedMediaType"}
		failures[http.StatusUnprocessableEntity] = []string{"stream.api.unprocessableContent"}
	}
	for _, code := range op.codes {
		name := string(names) + string(code)
		if status := statusOf[code]; status != http.StatusForbidden {
			failures[status] = append(failures[status], name)
		}
	}
	for status, list := range failures {
		schema := errors
		if op.raw && status == http.StatusUnprocessableEntity {
			schema = &huma.Schema{AllOf: []*huma.Schema{errors, d.registry.Schema(reflect.TypeOf(op.result), true, op.id)}}
		}
		o.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: strings.Join(list, ", "),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: schema}},
		}
	}
	return o
}

// badRequests are the names of errors in the form of a request.
func (op *operation) badRequests() []string {
	list := []string{"badRequest", "missingField"}
	if len(op.query) > 0 || len(pathNames(op.path)) > 1 { // in addition to the branch
		list = append(list, "invalidFieldType", "invalidLength", "invalidRange", "invalidEnumValue")
	}
	if op.body != nil {
		list = append(list, "missingPayload", "decodePayload")
		for _, m := range schemaMessages {
			list = append(list, m.name)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	for i := range list {
		list[i] = string(names) + list[i]
	}
	return list
}

func pathNames(path string) [][]string { return placeholder.FindAllStringSubmatch(path, -1) }

// addEmbedded adds embedded types to the schemas of types. The library omits them because they are not exported.
func (d *documentation) addEmbedded(types ...reflect.Type) {
	for _, t := range types {
		s := d.registry.SchemaFromRef(d.registry.Schema(t, true, "").Ref)
		for i := range t.NumField() {
			if f := t.Field(i); f.Anonymous {
				s.AllOf = append(s.AllOf, d.registry.Schema(f.Type, true, ""))
			}
		}
	}
}

func (d *documentation) querySchema(p *parameter) *huma.Schema {
	s := *huma.SchemaFromType(d.registry, reflect.TypeOf(p.schema))
	switch {
	case p.name == "limit":
		s.Minimum, s.Maximum = ptr(1.0), ptr(float64(maxPage))
	case p.enum != nil:
		for _, v := range p.enum {
			s.Enum = append(s.Enum, v)
		}
	}
	s.PrecomputeMessages()
	return &s
}

// requestChecks returns the checks of an operation, by the schemas that describe it.
func (d *documentation) requestChecks(op *operation) *checks {
	k := &checks{op: op, registry: d.registry}
	if op.body != nil {
		k.body = d.registry.Schema(reflect.TypeOf(op.body).Elem(), true, op.id)
	}
	for i := range op.query {
		k.query = append(k.query, d.querySchema(&op.query[i]))
	}
	return k
}

func (d *documentation) render() {
	must := func(b []byte, err error) []byte {
		if err != nil {
			panic("streamapi: the API cannot be described: " + err.Error())
		}
		return b
	}
	d.json3 = must(json.MarshalIndent(d.spec, "", "  "))
	d.yaml3 = must(d.spec.YAML())
	d.json = must(d.spec.Downgrade())
	d.yaml = must(d.spec.DowngradeYAML())
}

func (d *documentation) mount(mux *http.ServeMux) {
	serve := func(path, contentType string, content []byte) {
		mux.HandleFunc("GET "+documentationPath+path, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			wire.SetCommonHeaders(h)
			h.Set("Content-Type", contentType)
			h.Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(content)
		})
	}
	const yaml = "application/yaml"
	serve("/openapi3.json", "application/json", d.json3)
	serve("/openapi3.yaml", yaml, d.yaml3)
	serve("/openapi.json", "application/json", d.json)
	serve("/openapi.yaml", yaml, d.yaml)
	serve("", "text/html; charset=utf-8", documentationPage)
	serve("/{$}", "text/html; charset=utf-8", documentationPage)
}
