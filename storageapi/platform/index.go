package platform

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

func (s *Server) indexRoutes() []route {
	return []route{
		{method: "GET", path: "", summary: "Index of the stack", public: true, query: "exclude", result: indexShape{}, run: (*request).index},
		{method: "GET", path: "/{$}", summary: "Index of the stack", public: true, query: "exclude", result: indexShape{}, run: (*request).index},
		{method: "GET", path: "/apis.json", summary: "APIs of the stack", public: true, api: portalAPI, run: (*request).portal},
		{method: "GET", path: "/health-check", summary: "Whether the server runs", public: true, api: portalAPI, run: (*request).health},
		{method: "GET", path: "/readiness-check", summary: "Whether the server can read and store", public: true, api: portalAPI, run: (*request).ready},
		describeRoute(storageAPI, "Storage"),
		describeRoute(queueAPI, "Queue"),
		describeRoute(encryptionAPI, "Encryption"),
	}
}

// describeRoute returns the route of the OpenAPI document of an API.
func describeRoute(of api, title string) route {
	return route{
		method: "GET", path: "/openapi/" + strings.ToLower(title) + ".json", summary: "Description of the " + title + " API", public: true, api: portalAPI,
		run: func(c *request) (any, error) { return c.s.describeAPI(of, title, c.base()), nil },
	}
}

var statusOK = map[string]string{"status": "ok"}

func (c *request) health() (any, error) { return statusOK, nil }

// revision is the release of the API that the server implements.
const revision = "1"

func (c *request) index() (any, error) {
	base := c.base()
	host := c.r.Host
	if _, rest, found := strings.Cut(c.s.opts.PublicURL, "://"); found {
		host, _, _ = strings.Cut(rest, "/")
	}
	out := storageapi.Index{
		Host: host, API: "storage", Version: "v2", Revision: revision, Documentation: base + "/openapi/storage.json",
		Services: c.s.serviceList(base), Features: notNil(c.s.opts.Features),
	}
	var components any
	switch {
	case c.query("exclude") == "components":
		return out, nil
	case c.query("exclude") == "componentDetails":
		components = c.s.briefComponents()
	default:
		components = c.s.componentList()
	}
	return struct {
		storageapi.Index
		Components any `json:"components"`
	}{out, components}, nil
}

// ready returns 503 with Retry-After while the store has failed. The call also triggers the next attempt to open it.
func (c *request) ready() (any, error) { return statusOK, c.s.store.db.Ready() }

func (c *request) portal() (any, error) {
	base := c.base()
	out := storageapi.Portal{Stack: cmp.Or(c.s.opts.Stack, c.r.Host)}
	for _, name := range []string{"Storage", "Queue", "Encryption"} {
		id := strings.ToLower(name)
		out.Services = append(out.Services, storageapi.PortalService{ID: id, Name: name, APIURL: base, OpenAPISpecURL: base + "/openapi/" + id + ".json"})
	}
	for _, service := range c.s.opts.Services {
		if service.OpenAPISpecURL == "" {
			continue
		}
		out.Services = append(out.Services, storageapi.PortalService{
			ID: service.ID, Name: cmp.Or(service.Name, service.ID), APIURL: service.URL, OpenAPISpecURL: service.OpenAPISpecURL,
		})
	}
	return out, nil
}

// describe fills in what every component has.
func describe(c Component) *Component {
	fill := func(field *string, value string) { *field = cmp.Or(*field, value) }
	fill(&c.Type, "other")
	fill(&c.Name, c.ID)
	c.Version = cmp.Or(c.Version, 1)
	c.HasRun = c.Runner != nil
	c.Flags = notNil(c.Flags)
	for _, object := range []*json.RawMessage{&c.ConfigurationSchema, &c.EmptyConfiguration, &c.UIOptions} {
		*object = orEmptyObject(*object)
	}
	d := &c.Data
	d.Vendor.Contact = notNil(d.Vendor.Contact)
	fill(&d.Definition.Type, "builtin")
	fill(&d.Definition.URI, c.ID)
	fill(&d.Definition.Tag, "latest")
	fill(&d.Definition.Repository.Region, "local")
	fill(&d.ConfigurationFormat, "json")
	fill(&d.Network, "bridge")
	fill(&d.Memory, "256m")
	fill(&d.DefaultBucketStage, "in")
	fill(&d.StagingStorage.Input, "local")
	return &c
}

// componentList returns the descriptions in the order in which they were given.
func (s *Server) componentList() []storageapi.Component {
	list := make([]storageapi.Component, 0, len(s.opts.Components))
	for _, c := range s.opts.Components {
		list = append(list, s.components[c.ID].Component)
	}
	return list
}

type briefComponent struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Ico64       string   `json:"ico64"`
	Ico128      string   `json:"ico128"`
	Features    []string `json:"features"`
	Flags       []string `json:"flags"`
	Description string   `json:"description"`
	Categories  []string `json:"categories"`
}

func (s *Server) briefComponents() []briefComponent {
	list := []briefComponent{}
	for _, c := range s.componentList() {
		list = append(list, briefComponent{
			ID: c.ID, Name: c.Name, Type: c.Type, Ico64: c.Ico64, Features: []string{}, Flags: c.Flags, Description: c.Description, Categories: []string{},
		})
	}
	return list
}

// component returns the description of a component, one made up if every id is accepted.
func (s *Server) component(id string) (*Component, error) {
	if c := s.components[id]; c != nil {
		return c, nil
	}
	if s.opts.AnyComponent && validID(id) {
		return describe(Component{Component: storageapi.Component{ID: id}}), nil
	}
	return nil, refuse(http.StatusNotFound, "notFound", "Component %q not found", cut(id, 255))
}
