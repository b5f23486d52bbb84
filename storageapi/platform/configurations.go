package platform

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/storageapi"
)

const (
	configCode        = "storage.components.validation"
	badConfiguration  = "validation.invalidConfigurationFormat"
	badState          = "validation.invalidStateFormat"
	configsPath       = "/components/{component}/configs"
	configPath        = configsPath + "/{config}"
	configCreatedText = "Configuration created"
	configUpdatedText = "Configuration updated"
)

func (s *Server) componentRoutes() []route {
	return []route{
		{method: "GET", path: "/components", summary: "List components with configurations", branch: optionalBranch, query: "include componentType isDeleted", result: []componentShape{}, read: (*request).listComponents},
		{method: "GET", path: "/components/{component}", summary: "Component detail", branch: optionalBranch, public: true, result: storageapi.Component{}, run: (*request).getComponent},
	}
}

func (s *Server) configurationRoutes() []route {
	return []route{
		{method: "GET", path: configsPath, summary: "List configurations", branch: optionalBranch, query: "isDeleted", result: []storageapi.Configuration{}, read: (*request).listConfigurations},
		{method: "POST", path: configsPath, summary: "Create a configuration", branch: optionalBranch, body: "name! configurationId description configuration state isDisabled changeDescription *", status: http.StatusCreated, result: storageapi.Configuration{}, run: (*request).createConfiguration},
		{method: "GET", path: configPath, summary: "Configuration detail", branch: optionalBranch, result: storageapi.Configuration{}, read: ofConfiguration((*request).getConfiguration)},
		{method: "PUT", path: configPath, summary: "Update a configuration", branch: optionalBranch, body: rowBody + " rowsSortOrder", result: storageapi.Configuration{}, run: (*request).updateConfiguration},
		{method: "PUT", path: configPath + "/state", summary: "Update the state of a configuration", branch: optionalBranch, body: "state!", result: storageapi.Configuration{}, run: (*request).updateConfigurationState},
		{method: "DELETE", path: configPath, summary: "Delete a configuration, or purge it from the trash", branch: optionalBranch, body: "changeDescription", run: (*request).deleteConfiguration},
		{method: "POST", path: configPath + "/restore", summary: "Restore a configuration from the trash", branch: optionalBranch, body: "changeDescription", result: storageapi.Configuration{}, run: (*request).restoreConfiguration},
		{method: "POST", path: configPath + "/reset-to-default", summary: "Reset a configuration of a branch", branch: optionalBranch, run: (*request).resetConfiguration},
		{method: "GET", path: "/search/component-configurations", summary: "Search configurations", branch: requiredBranch, query: "componentId configurationId metadataKeys include", result: []storageapi.ConfigurationMatch{}, read: (*request).searchConfigurations},
	}
}

func (c *request) pathConfiguration() configID {
	return configID{c.branch, c.r.PathValue("component"), c.r.PathValue("config")}
}

// configID returns the configuration of the path if the caller may use its component.
func (c *request) configID() (configID, error) {
	id := c.pathConfiguration()
	if _, err := c.s.component(id.component); err != nil {
		return id, err
	}
	if !c.token.mayUse(id.component) {
		return id, accessDenied("component %q", id.component)
	}
	if id.config != "" && !validID(id.config) {
		return id, notFound(id)
	}
	return id, nil
}

// openConfiguration reads the configuration of the path, a live one or one in the trash.
func (c *request) openConfiguration(tx *txn, deleted bool) (*configuration, error) {
	id, err := c.configID()
	if err != nil {
		return nil, err
	}
	return openConfiguration(tx, id, c.creator(), deleted)
}

// changeConfiguration runs a change of the configuration of the path, a live one or one in the trash.
func (c *request) changeConfiguration(deleted bool, change func(conf *configuration) (any, error)) (any, error) {
	return c.change(c.pathConfiguration().lock(), func(tx *txn) (any, error) {
		conf, err := c.openConfiguration(tx, deleted)
		if err != nil {
			return nil, err
		}
		return change(conf)
	})
}

// ofConfiguration adapts a read of the live configuration of the path.
func ofConfiguration(read func(c *request, conf *configuration) (any, error)) func(c *request, tx *txn) (any, error) {
	return func(c *request, tx *txn) (any, error) {
		conf, err := c.openConfiguration(tx, false)
		if err != nil {
			return nil, err
		}
		return read(c, conf)
	}
}

// edit holds the fields of a call that creates or changes a configuration or a row. A nil field stays unchanged.
type edit struct {
	name, description *string
	disabled          *bool
	content, state    json.RawMessage
	text              string
	stateAlone        bool // and nothing that makes a new version
}

func readEdit(in *input) edit {
	e := edit{
		name: in.text("name"), description: in.text("description"), disabled: in.flag("isDisabled"),
		content: in.configuration(), state: in.object("state", badState), text: in.textOr("changeDescription", ""),
	}
	e.stateAlone = e.state != nil && in.lacks("name", "description", "isDisabled", "configuration", "changeDescription")
	return e
}

// readChange is readEdit for a change of what exists.
func readChange(in *input) edit {
	in.notNull("configuration", badConfiguration)
	in.notNull("state", badState)
	return readEdit(in)
}

func (e edit) apply(name, description *string, disabled *bool) {
	if e.name != nil {
		*name = *e.name
	}
	if e.description != nil {
		*description = *e.description
	}
	if e.disabled != nil {
		*disabled = *e.disabled
	}
}

// orEmptyObject returns content, or {} if there is none.
func orEmptyObject(content json.RawMessage) json.RawMessage {
	if content == nil {
		return emptyObject()
	}
	return content
}

// configurationsOf reads all configurations of a component, live ones or those in the trash.
func configurationsOf(tx *txn, branch, component string, deleted bool, with include) []storageapi.Configuration {
	list := []storageapi.Configuration{}
	for head := range each[configHead](tx, key("config", branch, component, ""), false) {
		if head.Latest.Deleted == deleted {
			conf := &configuration{configID: configID{branch, component, head.ID}, tx: tx, head: head}
			list = append(list, conf.response(with))
		}
	}
	return list
}

func (c *request) listConfigurations(tx *txn) (any, error) {
	id, err := c.configID()
	if err != nil {
		return nil, err
	}
	return configurationsOf(tx, c.branch, id.component, c.queryFlag("isDeleted"), includeAll), nil
}

// listComponents returns components that have a configuration, with the requested parts only.
func (c *request) listComponents(tx *txn) (any, error) {
	deleted, with, kind := c.queryFlag("isDeleted"), c.includedParts(), c.query("componentType")
	var ids []string
	for k := range tx.scan(key("config", c.branch, ""), false) {
		id, _, _ := strings.Cut(k, sep)
		if !slices.Contains(ids, id) && c.token.mayUse(id) {
			ids = append(ids, id)
		}
	}
	list := []map[string]any{}
	for _, id := range ids {
		component, err := c.s.component(id)
		if err != nil {
			component = describe(Component{Component: storageapi.Component{ID: id}}) // it was registered once
		}
		if kind != "" && kind != component.Type {
			continue
		}
		items := []map[string]any{}
		for _, config := range configurationsOf(tx, c.branch, id, deleted, with) {
			items = append(items, with.trim(tx, config))
		}
		if len(items) > 0 {
			out := tx.without(component.Component)
			out["configurations"] = items
			list = append(list, out)
		}
	}
	return list, nil
}

// includedParts reads the parameter include.
func (c *request) includedParts() (with include) {
	in := c.reading(&input{}, "storage.validation", nil)
	parts := map[string]*bool{"configuration": &with.content, "rows": &with.rows, "state": &with.state, "": new(bool)}
	for name := range strings.SplitSeq(c.query("include"), ",") {
		if part := parts[name]; part != nil {
			*part = true
		} else {
			in.fail("include", "unknown value %q", cut(name, 80))
		}
	}
	return with
}

// trim leaves out the parts that were not asked for.
func (with include) trim(tx *txn, config storageapi.Configuration) map[string]any {
	names := map[string]bool{"configuration": with.content, "state": with.state, "rows": with.rows}
	var absent []string
	for name, wanted := range names {
		if !wanted {
			absent = append(absent, name)
		}
	}
	out := tx.without(config, absent...)
	if with.rows {
		out["rows"] = eachWithout(tx, config.Rows, absent...)
	}
	return out
}

// eachWithout is [txn.without] for every item of a list.
func eachWithout[V any](tx *txn, list []V, absent ...string) []map[string]any {
	out := []map[string]any{}
	for _, v := range list {
		out = append(out, tx.without(v, absent...))
	}
	return out
}

// without returns the members of the JSON form of v, less some.
func (tx *txn) without(v any, absent ...string) map[string]any {
	raw := make(map[string]json.RawMessage)
	data, err := jsontext.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &raw)
	}
	tx.fail(err)
	out := make(map[string]any, len(raw))
	for name, value := range raw {
		if !slices.Contains(absent, name) {
			out[name] = value
		}
	}
	return out
}

func (c *request) getComponent() (any, error) {
	component, err := c.s.component(c.r.PathValue("component"))
	if err != nil {
		return nil, err
	}
	return component.Component, nil
}

func (c *request) getConfiguration(conf *configuration) (any, error) {
	return conf.response(includeAll), nil
}

func (c *request) createConfiguration() (any, error) {
	id, err := c.configID()
	if err != nil {
		return nil, err
	}
	in := c.input(configCode)
	id.config = in.textOr("configurationId", "")
	if id.config != "" && !validID(id.config) {
		in.fail("configurationId", "want at most 255 characters without \"/\" and control characters")
	}
	in.required("name")
	e := readEdit(in)
	return c.newConfiguration(id, func(tx *txn, id configID) (any, error) {
		conf := &configuration{configID: id, tx: tx, by: c.creator()}
		found := tx.get(id.key("config"), &conf.head)
		if found && !conf.head.Latest.Deleted {
			return nil, alreadyExists(id)
		}
		var v configVersion
		e.apply(&v.Name, &v.Description, &v.Disabled)
		conf.commit(v, orEmptyObject(e.content), e.text, configCreatedText)
		if found { // a configuration in the trash had this id. The new one does not inherit its state
			tx.deleteAll(id.key("row-state", ""))
		}
		tx.put(id.state(), orEmptyObject(e.state))
		return conf.changeAnswer(), nil
	})
}

const configExists = "configurationAlreadyExists"

func alreadyExists(id configID) error {
	return refuse(http.StatusBadRequest, configExists, "Configuration %q already exists", id.config)
}

// newConfiguration runs create for a new configuration. Without an id it takes the next number, and skips numbers that a
// caller has chosen as an id.
func (c *request) newConfiguration(id configID, create func(tx *txn, id configID) (any, error)) (any, error) {
	if id.config != "" {
		return c.change(id.lock(), func(tx *txn) (any, error) { return create(tx, id) })
	}
	for {
		var err error
		if id.config, err = c.s.store.ids.takeText(); err != nil {
			return nil, err
		}
		answer, err := c.change(id.lock(), func(tx *txn) (any, error) {
			// A configuration in the trash keeps its id. Only a caller that chose the id replaces it.
			if tx.has(id.key("config")) {
				return nil, alreadyExists(id)
			}
			return create(tx, id)
		})
		if e, internal := explain(err); err == nil || internal || e.code != configExists {
			return answer, err
		}
	}
}

// updateConfiguration makes a new version, unless the state is all that was sent.
func (c *request) updateConfiguration() (any, error) {
	in := c.input(configCode)
	e := readChange(in)
	if e.name != nil && *e.name == "" {
		in.fail("name", "This value should not be blank.")
	}
	if string(in.fields["rowsSortOrder"]) == `""` { // how some clients write a list that they do not have in a form
		delete(in.fields, "rowsSortOrder")
	}
	order, reorder := in.texts("rowsSortOrder")
	return c.changeConfiguration(false, func(conf *configuration) (any, error) {
		if e.state != nil {
			conf.tx.put(conf.state(), e.state)
			if e.stateAlone && !reorder {
				return conf.changeAnswer(), nil
			}
		}
		next := conf.head.Latest
		e.apply(&next.Name, &next.Description, &next.Disabled)
		if reorder {
			if err := checkOrder(next, order); err != nil {
				return nil, err
			}
			next.SortOrder = order
		}
		conf.commit(next, e.content, e.text, configUpdatedText)
		return conf.changeAnswer(), nil
	})
}

// checkOrder refuses an order of rows that does not name each once. An empty one takes the order away.
func checkOrder(v configVersion, order []string) error {
	in := &input{code: configCode}
	for i, id := range order {
		if v.find(id) < 0 || slices.Contains(order[:i], id) {
			in.fail("rowsSortOrder", "there is no row %q, or it is named twice", cut(id, 80))
		}
	}
	if err := in.err(); err != nil {
		return err
	}
	if len(order) > 0 && len(order) != len(v.Rows) {
		return refuse(http.StatusBadRequest, "validation.invalidRowSortOrder", "rowsSortOrder has %d rows, the configuration has %d", len(order), len(v.Rows))
	}
	return nil
}

func (c *request) readStateBody(code, invalid string) json.RawMessage {
	in := c.input(code)
	in.only("state")
	state := in.object("state", invalid)
	if state == nil && len(in.violations) == 0 {
		in.failCode(invalid, "state", "This value should not be blank.")
	}
	return state
}

func (c *request) updateConfigurationState() (any, error) {
	state := c.readStateBody(configCode, configCode)
	return c.changeConfiguration(false, func(conf *configuration) (any, error) {
		conf.tx.put(conf.state(), state)
		return conf.changeAnswer(), nil
	})
}

// deleteConfiguration moves a configuration into the trash, or purges one that is there.
func (c *request) deleteConfiguration() (any, error) {
	id, err := c.configID()
	if err != nil {
		return nil, err
	}
	text := c.changeText()
	return c.change(id.lock(), func(tx *txn) (any, error) {
		conf, err := openConfiguration(tx, id, c.creator(), false)
		if err == nil {
			next := conf.head.Latest
			next.Deleted = true
			conf.commit(next, nil, text, "Configuration deleted")
			return nil, nil
		}
		if _, err := openConfiguration(tx, id, c.creator(), true); err != nil {
			return nil, err
		}
		if c.dev {
			return nil, refuse(http.StatusBadRequest, configCode, "A configuration of a development branch cannot be purged")
		}
		if !c.token.CanPurgeTrash {
			return nil, accessDenied("the token cannot purge the trash")
		}
		purge(tx, id)
		return nil, nil
	})
}

// purge deletes everything of a configuration.
func purge(tx *txn, id configID) {
	tx.deleteAll(key("metadata", id.metadataOwner(), ""))
	tx.delete(id.key("config"), id.state())
	for _, kind := range []string{"config-version", "config-content", "row", "row-version", "row-state"} {
		tx.deleteAll(id.key(kind, ""))
	}
}

func (c *request) restoreConfiguration() (any, error) {
	text := c.changeText()
	return c.changeConfiguration(true, func(conf *configuration) (any, error) {
		next := conf.head.Latest
		next.Deleted = false
		conf.commit(next, nil, text, "Configuration restored")
		return conf.changeAnswer(), nil
	})
}
