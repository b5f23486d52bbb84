package storageapi

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// ComponentConfigurations is a component with its configurations.
type ComponentConfigurations struct {
	Component
	// Configurations has the parts that were asked for.
	Configurations []Configuration `json:"configurations"`
}

// ComponentQuery selects what [Client.Components] lists.
type ComponentQuery struct {
	// Type, if not empty, is the only type of components that is listed.
	Type string
	// Configuration, Rows and State ask for these parts of the configurations.
	Configuration, Rows, State bool
	// Deleted lists configurations in the trash instead of the live ones.
	Deleted bool
}

// Components lists the components that have a configuration in the branch, with these configurations.
func (c *Client) Components(ctx context.Context, q ComponentQuery) iter.Seq2[ComponentConfigurations, error] {
	var include []string
	for name, wanted := range map[string]bool{"configuration": q.Configuration, "rows": q.Rows, "state": q.State} {
		if wanted {
			include = append(include, name)
		}
	}
	query := params("componentType", q.Type, "isDeleted", flag(q.Deleted), "include", strings.Join(include, ","))
	return list[ComponentConfigurations](ctx, c, request{path: c.scoped("components"), query: query})
}

func (c *Client) configs(component string, more ...string) string {
	return c.scoped(append([]string{"components", component, "configs"}, more...)...)
}

// Configurations lists the live configurations of a component, with rows and state.
func (c *Client) Configurations(ctx context.Context, component string) iter.Seq2[Configuration, error] {
	return list[Configuration](ctx, c, request{path: c.configs(component)})
}

// DeletedConfigurations lists the configurations of a component that are in the trash.
func (c *Client) DeletedConfigurations(ctx context.Context, component string) iter.Seq2[Configuration, error] {
	return list[Configuration](ctx, c, request{path: c.configs(component), query: url.Values{"isDeleted": {"true"}}})
}

// Configuration reads the latest version of a configuration.
func (c *Client) Configuration(ctx context.Context, component, id string) (*Configuration, error) {
	return fetch[Configuration](ctx, c, get(c.configs(component, id)))
}

// CreateConfiguration makes a configuration, with version 1.
func (c *Client) CreateConfiguration(ctx context.Context, component string, in ConfigurationCreate) (*Configuration, error) {
	return create(ctx, c, post(c.configs(component), in), in.ConfigurationID, func() (*Configuration, error) {
		return c.Configuration(ctx, component, in.ConfigurationID)
	})
}

// UpdateConfiguration changes a configuration, which makes a new version of it, and returns that.
func (c *Client) UpdateConfiguration(ctx context.Context, component, id string, in ConfigurationUpdate) (*Configuration, error) {
	return fetch[Configuration](ctx, c, put(c.configs(component, id), in))
}

// UpdateConfigurationByForm is [Client.UpdateConfiguration] with a form as the body, whose objects and arrays are
// URL-encoded JSON, for a server or proxy that accepts no other.
func (c *Client) UpdateConfigurationByForm(ctx context.Context, component, id string, in ConfigurationUpdate) (*Configuration, error) {
	form, err := formOf(in)
	if err != nil {
		return nil, err
	}
	return fetch[Configuration](ctx, c, put(c.configs(component, id), form))
}

// formOf writes the fields of v, as they are in JSON, to a form, text as it is, everything else as JSON.
func formOf(v any) (url.Values, error) {
	data, err := jsontext.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("storage api: encode form: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("storage api: encode form: %w", err)
	}
	form := make(url.Values, len(fields))
	for name, value := range fields {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		form.Set(name, text)
	}
	return form, nil
}

// stateBody is the body of the calls that set a state.
type stateBody struct {
	State json.RawMessage `json:"state"`
}

// UpdateConfigurationState replaces the state of a configuration, without a new version. {} makes the next run start afresh.
func (c *Client) UpdateConfigurationState(ctx context.Context, component, id string, state json.RawMessage) (*Configuration, error) {
	return fetch[Configuration](ctx, c, put(c.configs(component, id, "state"), stateBody{state}))
}

// delete makes a deletion. If a retry does not find the object, an earlier attempt has deleted it, which is a success.
func (c *Client) delete(ctx context.Context, r request) error {
	r.method = http.MethodDelete
	retried, err := c.do(ctx, r, nil)
	if retried && IsNotFound(err) {
		return nil
	}
	return err
}

// DeleteConfiguration moves a configuration to the trash. A second deletion would purge it, so the call is repeated only if the
// server cannot have started it.
func (c *Client) DeleteConfiguration(ctx context.Context, component, id string) error {
	return c.delete(ctx, request{path: c.configs(component, id), effect: creating})
}

// PurgeConfiguration deletes a configuration permanently. It fails with a [*Error] of status 400 unless the configuration is in
// the trash. The client checks that, not the server, so a concurrent restore is not detected.
func (c *Client) PurgeConfiguration(ctx context.Context, component, id string) error {
	if _, err := c.Configuration(ctx, component, id); err == nil {
		return &Error{
			Method: http.MethodDelete, Path: c.configs(component, id), Status: http.StatusBadRequest,
			Message: "the configuration is not in the trash: delete it first",
		}
	} else if !IsNotFound(err) {
		return err
	}
	return c.delete(ctx, request{path: c.configs(component, id)})
}

// RestoreConfiguration takes a configuration out of the trash, as a new version.
func (c *Client) RestoreConfiguration(ctx context.Context, component, id string) (*Configuration, error) {
	return fetch[Configuration](ctx, c, post(c.configs(component, id, "restore"), struct{}{}))
}

// ConfigurationVersions lists the history of a configuration, the newest version first.
func (c *Client) ConfigurationVersions(ctx context.Context, component, id string) iter.Seq2[ConfigurationVersion, error] {
	return pages[ConfigurationVersion](ctx, c, request{path: c.configs(component, id, "versions")})
}

// ConfigurationVersion reads one version with content and rows.
func (c *Client) ConfigurationVersion(ctx context.Context, component, id string, version int) (*ConfigurationVersion, error) {
	return fetch[ConfigurationVersion](ctx, c, get(c.configs(component, id, "versions", strconv.Itoa(version))))
}

// RollbackConfiguration makes a new version that is identical with an earlier one, and returns its number. State
// stays as it is. An empty changeDescription leaves the text to the server.
func (c *Client) RollbackConfiguration(ctx context.Context, component, id string, version int, changeDescription string) (int, error) {
	type answer struct {
		Version IntID `json:"version"`
	}
	r := post(c.configs(component, id, "versions", strconv.Itoa(version), "rollback"), changeBody{changeDescription})
	out, err := fetch[answer](ctx, c, r)
	if err != nil {
		return 0, err
	}
	return int(out.Version), nil
}

type changeBody struct {
	ChangeDescription string `json:"changeDescription,omitempty"`
}

// ConfigurationCopy says how a copy differs from its origin.
type ConfigurationCopy struct {
	// Name is required.
	Name string `json:"name"`
	// Description is copied from the origin if nil.
	Description *string `json:"description,omitempty"`
	// ChangeDescription describes the change. The server has a default.
	ChangeDescription string `json:"changeDescription,omitempty"`
}

// CopyConfiguration makes an independent configuration of a version, with empty state, and returns its id.
func (c *Client) CopyConfiguration(ctx context.Context, component, id string, version int, in ConfigurationCopy) (string, error) {
	out, err := c.newID(ctx, post(c.configs(component, id, "versions", strconv.Itoa(version), "create"), in))
	return string(out), err
}

// newID makes a call that returns the id of a new object.
func (c *Client) newID(ctx context.Context, r request) (ID, error) {
	var out struct {
		ID ID `json:"id"`
	}
	err := c.call(ctx, r, &out)
	return out.ID, err
}

// ResetConfiguration gives a configuration of a development branch the content that it has in the default branch.
func (c *Client) ResetConfiguration(ctx context.Context, component, id string) error {
	return c.call(ctx, request{method: http.MethodPost, path: c.configs(component, id, "reset-to-default"), body: struct{}{}}, nil)
}

// ConfigurationMetadata lists the notes on a configuration, in the client's branch or the default one.
func (c *Client) ConfigurationMetadata(ctx context.Context, component, id string) iter.Seq2[Metadata, error] {
	return list[Metadata](ctx, c, request{path: c.inBranch().configs(component, id, "metadata")})
}

// SetConfigurationMetadata sets notes on a configuration and returns all of them. A note of the same key is replaced.
func (c *Client) SetConfigurationMetadata(ctx context.Context, component, id string, notes ...KeyValue) ([]Metadata, error) {
	return c.setNotes(ctx, c.inBranch().configs(component, id, "metadata"), "", notes)
}

// DeleteConfigurationMetadata deletes one note.
func (c *Client) DeleteConfigurationMetadata(ctx context.Context, component, id, metadataID string) error {
	return c.delete(ctx, request{path: c.inBranch().configs(component, id, "metadata", metadataID)})
}

// inBranch names the branch in paths that require one.
func (c *Client) inBranch() *Client {
	if c.branch == "" {
		return c.Branch("default")
	}
	return c
}

// ConfigurationSearch selects configurations. Empty fields select all.
type ConfigurationSearch struct {
	// ComponentID and ConfigurationID are compared as a whole.
	ComponentID, ConfigurationID string
	// MetadataKeys selects configurations that have a note with one of the keys.
	MetadataKeys []string
	// IncludeMetadata asks for the notes that made a configuration match.
	IncludeMetadata bool
}

// ConfigurationMatch is a result of a search.
type ConfigurationMatch struct {
	// ComponentID and ConfigurationID name the configuration.
	ComponentID     string `json:"idComponent"`
	ConfigurationID string `json:"configurationId"`
	// Metadata are the notes that matched, if they were asked for.
	Metadata []Metadata `json:"metadata,omitempty"`
}

// SearchConfigurations lists the configurations that match, in the client's branch or the default one.
func (c *Client) SearchConfigurations(ctx context.Context, q ConfigurationSearch) iter.Seq2[ConfigurationMatch, error] {
	query := params("componentId", q.ComponentID, "configurationId", q.ConfigurationID)
	if q.IncludeMetadata {
		query.Set("include", "filteredMetadata")
	}
	query["metadataKeys[]"] = q.MetadataKeys
	return list[ConfigurationMatch](ctx, c, request{path: c.inBranch().scoped("search", "component-configurations"), query: query})
}
