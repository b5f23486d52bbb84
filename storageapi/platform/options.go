package platform

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/storageapi"

	"github.com/forebay/forebay/driverkit/warnlog"
)

// Options configure a [Server].
type Options struct {
	// Token is the master token of the project, which may do everything. It is required at the first opening of a
	// directory. Given later, it replaces the one before. At least 16 characters. Only a hash of it is stored.
	Token storageapi.Secret
	// ProgrammaticTokens stand for the master token in calls that name the project with [storageapi.ProjectHeader] and send
	// them as "Authorization: Bearer". They begin with "kbc_at_" or "kbc_pat_" and have at least 16 characters. They hold
	// while they are given here. No call makes, lists or ends one. Default: none.
	ProgrammaticTokens []storageapi.Secret
	// ProjectID and ProjectName describe the one project of the server. Defaults: 1 and "Project".
	ProjectID   int64
	ProjectName string
	// Stack is the name of the stack in the API portal. Default: the host of the request.
	Stack string
	// PublicURL is the address under which clients reach the handler, for example "https://storage.example.com". It is
	// the beginning of every address in a response. By default it is taken from the request, which is right unless a
	// proxy stands in front.
	PublicURL string
	// Services are further services for the index and the portal, such as one with the id "stream". Queue and encryption
	// are there already.
	Services []PortalService
	// Components are the components that can have configurations and that the queue can run. Their ids are unique.
	Components []Component
	// VariablesComponent is the component whose configurations hold variables for others (variables_id). It is added to
	// Components when it is not there. The default is [DefaultVariablesComponent].
	VariablesComponent string
	// AnyComponent accepts configurations of components that are not in Components. They cannot be run.
	AnyComponent bool
	// S3 switches file uploads and downloads to S3 credentials. Default: nil, Azure credentials.
	S3 *S3Options
	// Features are listed in the index, ProjectFeatures in the project of a token.
	Features, ProjectFeatures []string
	// StorageJobs and QueueJobs are how many jobs of a kind run at once. Defaults: 4 and 2.
	StorageJobs, QueueJobs int
	// KeepJobs and KeepEvents are how long the records of jobs that have ended and of events are kept. The default of each is 90
	// days, negative means forever. Clients that store the id of a job find nothing under it after that time.
	KeepJobs, KeepEvents time.Duration
	// Grace is how long a component may continue after its job was terminated or the server is being closed. The default is
	// 30 s. Then the job ends without it. Its goroutine is left alone, its client and its log no longer do anything.
	Grace time.Duration
	// Logger gets failures inside the server, and never a token. Default: warnings and errors go to [slog.Default].
	// [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// PortalService is a service for the index and the portal.
type PortalService struct {
	// ID and URL are listed in the index.
	ID, URL string
	// Name is the label in the portal. Default: ID.
	Name string
	// OpenAPISpecURL is the address of the machine-readable description. Without one the service is not in the portal.
	OpenAPISpecURL string
}

// Component is a component and, if it can be run, its program.
type Component struct {
	// Component is the description; ID is required, the default of Type is "other".
	storageapi.Component
	// Runner is the program. Without one the component has configurations but cannot be run.
	Runner Runner
	// ImageParameters is a JSON object that every run finds under image_parameters of its configuration. Nil means {}.
	ImageParameters json.RawMessage
}

func (o Options) withDefaults() Options {
	o.ProjectID, o.ProjectName = cmp.Or(o.ProjectID, 1), cmp.Or(o.ProjectName, "Project")
	o.StorageJobs, o.QueueJobs = cmp.Or(o.StorageJobs, 4), cmp.Or(o.QueueJobs, 2)
	o.KeepJobs, o.KeepEvents = cmp.Or(o.KeepJobs, keepRecords), cmp.Or(o.KeepEvents, keepRecords)
	o.Grace = cmp.Or(o.Grace, 30*time.Second)
	o.VariablesComponent = cmp.Or(o.VariablesComponent, DefaultVariablesComponent)
	if !slices.ContainsFunc(o.Components, func(c Component) bool { return c.ID == o.VariablesComponent }) {
		o.Components = append(slices.Clone(o.Components), Component{Component: storageapi.Component{
			ID: o.VariablesComponent, Type: "other", Name: "Variables", Description: "Variables of configurations, and rows with their values",
		}})
	}
	o.Logger = warnlog.Or(o.Logger)
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	return o
}

// keepRecords is how long jobs and events are kept by default.
const keepRecords = 90 * 24 * time.Hour

// minTokenLength keeps a token from being guessed in passing.
const minTokenLength = 16

// Validate reports every breach at once.
func (o Options) Validate() error {
	var problems []error
	if o.Token != "" && len(o.Token) < minTokenLength {
		problems = append(problems, fmt.Errorf("the token has %d characters, want at least %d", len(o.Token), minTokenLength))
	}
	if strings.ContainsAny(string(o.Token), "\r\n\x00 ") {
		problems = append(problems, errors.New("the token contains a space or a line break"))
	}
	for i, t := range o.ProgrammaticTokens {
		if len(t) < minTokenLength || !isProgrammatic(string(t)) || strings.ContainsAny(string(t), "\r\n\x00 ") {
			problems = append(problems, fmt.Errorf("programmatic token %d: want at least %d characters that begin with %q or %q, and no space", i, minTokenLength, accessTokenPrefix, personalTokenPrefix))
		}
	}
	if o.ProjectID < 0 || o.StorageJobs < 0 || o.QueueJobs < 0 || o.Grace < 0 {
		problems = append(problems, errors.New("ProjectID, StorageJobs, QueueJobs or Grace is negative"))
	}
	if o.PublicURL != "" {
		if u, err := url.Parse(o.PublicURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
			problems = append(problems, errors.New("PublicURL: want an http or https address without query, such as https://storage.example.com"))
		}
	}
	services := make(map[string]bool)
	for _, s := range o.Services {
		if s.ID == "" || s.URL == "" || slices.Contains(ownServices, s.ID) || services[s.ID] {
			problems = append(problems, fmt.Errorf("service %q: want a separate address and id, other than %s", s.ID, strings.Join(ownServices, " and ")))
		}
		services[s.ID] = true
	}
	components := make(map[string]bool)
	for _, c := range o.Components {
		if !validID(c.ID) || components[c.ID] {
			problems = append(problems, fmt.Errorf("component %q: want a separate id", c.ID))
		}
		components[c.ID] = true
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("platform: options: %w", errors.Join(problems...))
}
