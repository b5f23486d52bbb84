package storageapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// Index describes a stack, its services and its components.
type Index struct {
	// Host is the name of the stack's host, API "storage", Version "v2", Revision the release of the server.
	Host     string `json:"host"`
	API      string `json:"api"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	// Documentation is an address for people.
	Documentation string `json:"documentation"`
	// Components are all that can have configurations.
	Components []Component `json:"components,omitempty"`
	// Services is the authoritative list of the hosts of the stack. Storage itself is not in it.
	Services []Service `json:"services"`
	// URLTemplates are addresses of the user interface by name, with placeholders between "&&".
	URLTemplates Map[string] `json:"urlTemplates"`
	// Features are switched on for the whole stack.
	Features []string `json:"features"`
}

// FeatureNoBucketPrefix is the feature of stacks that give a new bucket just the name that was asked for. Others put
// "c-" before it.
const FeatureNoBucketPrefix = "disable-legacy-bucket-prefix"

// Service is one service of a stack.
type Service struct {
	// ID is the name of the service, such as "queue".
	ID string `json:"id"`
	// URL is the address to use.
	URL string `json:"url"`
}

// Service returns the address of a service, or "" if the stack has none of that id.
func (i *Index) Service(id string) string {
	for _, s := range i.Services {
		if s.ID == id {
			return s.URL
		}
	}
	return ""
}

// Component is a program that a configuration can be made for.
type Component struct {
	// ID is unique in the stack, Type is "extractor", "writer", "application", "transformation", "processor" or another.
	ID   string `json:"id"`
	Type string `json:"type"`
	// Name, Description and LongDescription are for people.
	Name            string `json:"name"`
	Description     string `json:"description"`
	LongDescription string `json:"longDescription"`
	// Version grows with each release.
	Version int `json:"version"`
	// HasUI and HasRun say whether the component has its own page, and whether it can be run.
	HasUI  bool `json:"hasUI"`
	HasRun bool `json:"hasRun"`
	// Ico32 and Ico64 are addresses of images.
	Ico32 string `json:"ico32"`
	Ico64 string `json:"ico64"`
	// Data says how the component is run.
	Data ComponentData `json:"data"`
	// Flags change how the component is listed and run.
	Flags []string `json:"flags"`
	// ConfigurationSchema, EmptyConfiguration and UIOptions are JSON objects.
	ConfigurationSchema json.RawMessage `json:"configurationSchema"`
	EmptyConfiguration  json.RawMessage `json:"emptyConfiguration"`
	UIOptions           json.RawMessage `json:"uiOptions"`
	// ConfigurationDescription may be nil.
	ConfigurationDescription *string `json:"configurationDescription"`
	// DocumentationURL is an address for people.
	DocumentationURL string `json:"documentationUrl"`
	// ConfigurationRowSchema and EmptyConfigurationRow are JSON objects, or nil.
	ConfigurationRowSchema json.RawMessage `json:"configurationRowSchema,omitempty"`
	EmptyConfigurationRow  json.RawMessage `json:"emptyConfigurationRow,omitempty"`
}

// ComponentData says how a component is run.
type ComponentData struct {
	// Definition is the program.
	Definition ComponentDefinition `json:"definition"`
	// Vendor is who keeps the component.
	Vendor ComponentVendor `json:"vendor"`
	// ConfigurationFormat is the format of the configuration file, such as "json".
	ConfigurationFormat string `json:"configuration_format"`
	// Network and Memory are the resources that the program may use, such as "bridge" and "256m".
	Network string `json:"network"`
	Memory  string `json:"memory"`
	// ForwardToken and ForwardTokenDetails say whether the program receives the token of its job, and its details.
	ForwardToken        bool `json:"forward_token"`
	ForwardTokenDetails bool `json:"forward_token_details"`
	// DefaultBucket says that tables without a mapping go to a bucket made for the configuration, in the stage
	// DefaultBucketStage.
	DefaultBucket      bool   `json:"default_bucket"`
	DefaultBucketStage string `json:"default_bucket_stage"`
	// StagingStorage says where the program finds its input.
	StagingStorage StagingStorage `json:"staging_storage"`
}

// ComponentDefinition names the program of a component.
type ComponentDefinition struct {
	// Type is the kind of registry, URI the program there, Tag its release.
	Type string `json:"type"`
	URI  string `json:"uri"`
	Tag  string `json:"tag"`
	// Repository is where the registry is.
	Repository Repository `json:"repository"`
}

// Repository is where a registry is.
type Repository struct {
	// Region is the region of the cloud.
	Region string `json:"region"`
}

// ComponentVendor is who keeps a component.
type ComponentVendor struct {
	// Contact are lines of an address.
	Contact []string `json:"contact"`
	// LicenseURL is the address of the licence.
	LicenseURL string `json:"licenseUrl"`
}

// StagingStorage says where a program finds its input.
type StagingStorage struct {
	// Input is the kind of storage, such as "local".
	Input string `json:"input"`
}

// Index reads the index of the stack, with all components. It needs no token.
func (c *Client) Index(ctx context.Context) (*Index, error) { return c.index(ctx, nil) }

// Services reads the index of the stack without the components, which make most of its size.
func (c *Client) Services(ctx context.Context) (*Index, error) {
	return c.index(ctx, url.Values{"exclude": {"components"}})
}

func (c *Client) index(ctx context.Context, query url.Values) (*Index, error) {
	return fetch[Index](ctx, c.WithToken(""), request{method: http.MethodGet, path: "/", query: query})
}

// Component reads the description of one component. It needs no token.
func (c *Client) Component(ctx context.Context, id string) (*Component, error) {
	return fetch[Component](ctx, c, get(path("components", id)))
}

// Portal lists the APIs of a stack with their machine-readable descriptions.
type Portal struct {
	// Stack is the name of the stack.
	Stack string `json:"stack"`
	// Services are the services of the stack.
	Services []PortalService `json:"services"`
}

// PortalService is one API of a stack.
type PortalService struct {
	// ID and Name are the service's id and its label.
	ID   string `json:"id"`
	Name string `json:"name"`
	// APIURL is the address to use. It takes precedence over the description.
	APIURL string `json:"apiUrl"`
	// OpenAPISpecURL is the exact address of the description. It ends in .json or .yaml.
	OpenAPISpecURL string `json:"openApiSpecUrl"`
}

// Portal reads the list of APIs from the portal of the stack. It needs no token, and sends none.
func (c *Client) Portal(ctx context.Context, portalURL string) (*Portal, error) {
	r := get("/apis.json")
	r.base = strings.TrimRight(portalURL, "/")
	return fetch[Portal](ctx, c.WithToken(""), r)
}
