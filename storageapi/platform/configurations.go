package platform

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

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
		{method: "GET", path: "/components", summary: "List components with configurations", branch: optionalBranch, run: (*call).listComponents},
		{method: "GET", path: "/components/{component}", summary: "Component detail", branch: optionalBranch, public: true, run: (*call).getComponent},
	}
}

func (s *Server) configurationRoutes() []route {
	return []route{
		{method: "GET", path: configsPath, summary: "List configurations", branch: optionalBranch, run: (*call).listConfigurations},
		{method: "POST", path: configsPath, summary: "Create a configuration", branch: optionalBranch, run: (*call).createConfiguration},
		{method: "GET", path: configPath, summary: "Configuration detail", branch: optionalBranch, run: (*call).getConfiguration},
		{method: "PUT", path: configPath, summary: "Update a configuration", branch: optionalBranch, run: (*call).updateConfiguration},
		{method: "PUT", path: configPath + "/state", summary: "Update the state of a configuration", branch: optionalBranch, run: (*call).updateConfigurationState},
		{method: "DELETE", path: configPath, summary: "Delete a configuration, or purge it from the trash", branch: optionalBranch, run: (*call).deleteConfiguration},
		{method: "POST", path: configPath + "/restore", summary: "Restore a configuration from the trash", branch: optionalBranch, run: (*call).restoreConfiguration},
		{method: "POST", path: configPath + "/reset-to-default", summary: "Reset a configuration of a branch", branch: optionalBranch, run: (*call).resetConfiguration},
	}
}

// configID reads component and configuration of the path, and checks the right to them.
func (c *call) configID() (configID, error) {
	id := configID{c.branch, c.r.PathValue("component"), c.r.PathValue("config")}
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

// change runs a change of a live configuration, or of one in the trash, and answers what it has become.
func (c *call) changeConfiguration(deleted bool, change func(conf *configuration) error) (out storageapi.Configuration, err error) {
	id, err := c.configID()
	if err != nil {
		return out, err
	}
	err = c.s.store.update(id.lock(), func(tx *txn) error {
		conf, err := openConfiguration(tx, id, c.creator(), deleted)
		if err != nil {
			return err
		}
		if err := change(conf); err != nil {
			return err
		}
		out, err = conf.changeAnswer()
		return err
	})
	return out, err
}

// readConfiguration runs read on a live configuration.
func (c *call) readConfiguration(read func(conf *configuration) error) error {
	id, err := c.configID()
	if err != nil {
		return err
	}
	return c.s.store.view(func(tx *txn) error {
		conf, err := openConfiguration(tx, id, c.creator(), false)
		if err != nil {
			return err
		}
		return read(conf)
	})
}

// configurationsOf reads all configurations of a component, live ones or those in the trash.
func configurationsOf(tx *txn, branch, component string, deleted bool, with include) ([]storageapi.Configuration, error) {
	heads, err := all[configHead](tx, key("config", branch, component, ""))
	if err != nil {
		return nil, err
	}
	list := []storageapi.Configuration{}
	for _, head := range heads {
		if head.Latest.Deleted != deleted {
			continue
		}
		conf := &configuration{configID: configID{branch, component, head.ID}, tx: tx, head: head}
		out, err := conf.partialAnswer(with)
		if err != nil {
			return nil, err
		}
		list = append(list, out)
	}
	return list, nil
}

func (c *call) listConfigurations() (reply, error) {
	id, err := c.configID()
	if err != nil {
		return failed(err)
	}
	deleted, err := c.queryFlag("isDeleted")
	if err != nil {
		return failed(err)
	}
	var list []storageapi.Configuration
	err = c.s.store.view(func(tx *txn) (err error) {
		list, err = configurationsOf(tx, c.branch, id.component, deleted, include{true, true, true})
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

// listComponents answers components that have a configuration, without what was not asked for.
func (c *call) listComponents() (reply, error) {
	deleted, err := c.queryFlag("isDeleted")
	if err != nil {
		return failed(err)
	}
	var with include
	in := &input{}
	for name := range strings.SplitSeq(c.query("include"), ",") {
		switch name {
		case "":
		case "configuration":
			with.content = true
		case "rows":
			with.rows = true
		case "state":
			with.state = true
		default:
			in.fail("include", "unknown value %q", cut(name, 80))
		}
	}
	if err := in.err("storage.validation"); err != nil {
		return failed(err)
	}
	list := []map[string]any{}
	err = c.s.store.view(func(tx *txn) error {
		var ids []string
		for k := range tx.scan(key("config", c.branch, ""), false) {
			id, _, _ := strings.Cut(k, sep)
			if !slices.Contains(ids, id) && c.token.mayUse(id) {
				ids = append(ids, id)
			}
		}
		for _, id := range ids {
			component, err := c.s.component(id)
			if err != nil {
				component = describe(Component{Component: storageapi.Component{ID: id}}) // it was registered once
			}
			if t := c.query("componentType"); t != "" && t != component.Type {
				continue
			}
			configs, err := configurationsOf(tx, c.branch, id, deleted, with)
			if err != nil {
				return err
			}
			if len(configs) == 0 {
				continue
			}
			out, err := without(component.Component)
			if err != nil {
				return err
			}
			items := []map[string]any{}
			for _, config := range configs {
				item, err := with.trim(config)
				if err != nil {
					return err
				}
				items = append(items, item)
			}
			out["configurations"] = items
			list = append(list, out)
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

// trim leaves out the parts that were not asked for.
func (with include) trim(config storageapi.Configuration) (map[string]any, error) {
	names := map[string]bool{"configuration": with.content, "state": with.state, "rows": with.rows}
	var absent []string
	for name, wanted := range names {
		if !wanted {
			absent = append(absent, name)
		}
	}
	out, err := without(config, absent...)
	if err != nil || !with.rows {
		return out, err
	}
	rows := []map[string]any{}
	for _, row := range config.Rows {
		item, err := without(row, absent...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, item)
	}
	out["rows"] = rows
	return out, nil
}

// without gives the fields of the JSON form of v, less some.
func without(v any, absent ...string) (map[string]any, error) {
	data, err := encodeJSON(v)
	if err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(raw))
	for name, value := range raw {
		if !slices.Contains(absent, name) {
			out[name] = value
		}
	}
	return out, nil
}

func (c *call) getComponent() (reply, error) {
	component, err := c.s.component(c.r.PathValue("component"))
	if err != nil {
		return failed(err)
	}
	return ok(component.Component)
}

func (c *call) getConfiguration() (reply, error) {
	var out storageapi.Configuration
	err := c.readConfiguration(func(conf *configuration) (err error) {
		out, err = conf.answer()
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

func (c *call) createConfiguration() (reply, error) {
	id, err := c.configID()
	if err != nil {
		return failed(err)
	}
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	id.config = in.textOr("configurationId", "")
	if id.config != "" && !validID(id.config) {
		in.fail("configurationId", "want at most 255 characters without \"/\" and control characters")
	}
	v := configVersion{Name: in.required("name"), Description: in.textOr("description", ""), Disabled: in.flagOr("isDisabled", false)}
	content, state, text := in.configuration(), in.content("state", badState), in.textOr("changeDescription", "")
	if err := in.err(configCode); err != nil {
		return failed(err)
	}
	var out storageapi.Configuration
	err = c.newConfiguration(id, func(tx *txn, id configID) error {
		conf := &configuration{configID: id, tx: tx, by: c.creator()}
		found, err := tx.get(id.key("config"), &conf.head)
		if err != nil {
			return err
		}
		if found && !conf.head.Latest.Deleted {
			return alreadyExists(id)
		}
		if content == nil {
			content = emptyObject()
		}
		if err := conf.commit(v, content, text, configCreatedText); err != nil {
			return err
		}
		if found { // the state of one that was in the trash under this id is not that of the new one
			if err := tx.deleteAll(id.key("row-state", "")); err != nil {
				return err
			}
		}
		if state == nil {
			state = emptyObject()
		}
		if err := tx.put(id.state(), state); err != nil {
			return err
		}
		out, err = conf.changeAnswer()
		return err
	})
	if err != nil {
		return failed(err)
	}
	return created(out)
}

const configExists = "configurationAlreadyExists"

func alreadyExists(id configID) error {
	return refuse(http.StatusBadRequest, configExists, "Configuration %q already exists", id.config)
}

// newConfiguration runs create for a new configuration. Without an id it is given one, and another one when somebody has
// chosen the same.
func (c *call) newConfiguration(id configID, create func(tx *txn, id configID) error) error {
	if id.config != "" {
		return c.s.store.update(id.lock(), func(tx *txn) error { return create(tx, id) })
	}
	for {
		var err error
		if id.config, err = c.s.store.ids.takeText(); err != nil {
			return err
		}
		err = c.s.store.update(id.lock(), func(tx *txn) error {
			// One in the trash has its id still: who makes a configuration without choosing the id does not take its place.
			if found, err := tx.get(id.key("config"), &configHead{}); err != nil {
				return err
			} else if found {
				return alreadyExists(id)
			}
			return create(tx, id)
		})
		if e, internal := explain(err); err == nil || internal || e.code != configExists {
			return err
		}
	}
}

// updateConfiguration makes a new version, unless the state is all that was sent.
func (c *call) updateConfiguration() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	name, description, disabled := in.text("name"), in.text("description"), in.flag("isDisabled")
	if name != nil && *name == "" {
		in.fail("name", "This value should not be blank.")
	}
	content, state, text := in.configuration(), in.content("state", badState), in.textOr("changeDescription", "")
	if string(in.fields["rowsSortOrder"]) == `""` { // how some clients write a list that they do not have in a form
		delete(in.fields, "rowsSortOrder")
	}
	order, reorder := in.texts("rowsSortOrder")
	if err := in.err(configCode); err != nil {
		return failed(err)
	}
	out, err := c.changeConfiguration(false, func(conf *configuration) error {
		if state != nil {
			if err := conf.tx.put(conf.state(), state); err != nil {
				return err
			}
			if in.lacks("name", "description", "isDisabled", "configuration", "rowsSortOrder", "changeDescription") {
				return nil
			}
		}
		next := conf.head.Latest
		if name != nil {
			next.Name = *name
		}
		if description != nil {
			next.Description = *description
		}
		if disabled != nil {
			next.Disabled = *disabled
		}
		if reorder {
			if err := checkOrder(next, order); err != nil {
				return err
			}
			next.SortOrder = order
		}
		return conf.commit(next, content, text, configUpdatedText)
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

// checkOrder refuses an order of rows that does not name each once. An empty one takes the order away.
func checkOrder(v configVersion, order []string) error {
	in := &input{}
	seen := make(map[string]bool)
	for _, id := range order {
		if v.find(id) < 0 || seen[id] {
			in.fail("rowsSortOrder", "there is no row %q, or it is named twice", cut(id, 80))
		}
		seen[id] = true
	}
	if err := in.err(configCode); err != nil {
		return err
	}
	if len(order) > 0 && len(order) != len(v.Rows) {
		return refuse(http.StatusBadRequest, "validation.invalidRowSortOrder", "rowsSortOrder has %d rows, the configuration has %d", len(order), len(v.Rows))
	}
	return nil
}

// readStateBody reads the body of the calls that set a state.
func (c *call) readStateBody(code, invalid string) (json.RawMessage, error) {
	in, err := c.input()
	if err != nil {
		return nil, err
	}
	in.only("state")
	state := in.content("state", invalid)
	if state == nil && len(in.violations) == 0 {
		in.failCode(invalid, "state", "This value should not be blank.")
	}
	return state, in.err(code)
}

func (c *call) updateConfigurationState() (reply, error) {
	state, err := c.readStateBody(configCode, configCode)
	if err != nil {
		return failed(err)
	}
	out, err := c.changeConfiguration(false, func(conf *configuration) error { return conf.tx.put(conf.state(), state) })
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

// deleteConfiguration puts a configuration into the trash, or deletes one that is there for good.
func (c *call) deleteConfiguration() (reply, error) {
	id, err := c.configID()
	if err != nil {
		return failed(err)
	}
	in, err := c.optionalInput()
	if err != nil {
		return failed(err)
	}
	text := in.textOr("changeDescription", "")
	if err := in.err(configCode); err != nil {
		return failed(err)
	}
	err = c.s.store.update(id.lock(), func(tx *txn) error {
		conf, err := openConfiguration(tx, id, c.creator(), false)
		if err == nil {
			next := conf.head.Latest
			next.Deleted = true
			return conf.commit(next, nil, text, "Configuration deleted")
		}
		if _, err := openConfiguration(tx, id, c.creator(), true); err != nil {
			return err
		}
		if c.dev {
			return refuse(http.StatusBadRequest, configCode, "A configuration of a development branch cannot be purged")
		}
		if !c.token.CanPurgeTrash {
			return accessDenied("the token cannot purge the trash")
		}
		return purge(tx, id)
	})
	if err != nil {
		return failed(err)
	}
	return noContent()
}

// purge deletes everything of a configuration.
func purge(tx *txn, id configID) error {
	if err := tx.deleteAll(key("metadata", id.metadataOwner(), "")); err != nil {
		return err
	}
	for _, k := range []string{id.key("config"), id.state()} {
		if err := tx.delete(k); err != nil {
			return err
		}
	}
	for _, kind := range []string{"config-version", "config-content", "row", "row-version", "row-state"} {
		if err := tx.deleteAll(id.key(kind, "")); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) restoreConfiguration() (reply, error) {
	in, err := c.optionalInput()
	if err != nil {
		return failed(err)
	}
	text := in.textOr("changeDescription", "")
	if err := in.err(configCode); err != nil {
		return failed(err)
	}
	out, err := c.changeConfiguration(true, func(conf *configuration) error {
		next := conf.head.Latest
		next.Deleted = false
		return conf.commit(next, nil, text, "Configuration restored")
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}
