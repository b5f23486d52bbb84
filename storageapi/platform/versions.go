package platform

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

func (s *Server) versionRoutes() []route {
	return []route{
		{method: "GET", path: configPath + "/versions", summary: "List versions, the newest first", branch: optionalBranch, query: versionsQuery, result: []storageapi.ConfigurationVersion{}, read: ofConfiguration((*request).listVersions)},
		{method: "GET", path: configPath + "/versions/{version}", summary: "Version detail", branch: optionalBranch, result: storageapi.ConfigurationVersion{}, read: ofConfiguration((*request).getVersion)},
		{method: "POST", path: configPath + "/versions/{version}/rollback", summary: "Roll back to a version", branch: optionalBranch, body: "changeDescription", status: http.StatusCreated, result: versionShape{}, run: (*request).rollback},
		{method: "POST", path: configPath + "/versions/{version}/create", summary: "Copy a version to a new configuration", branch: optionalBranch, body: "name! description changeDescription", status: http.StatusCreated, result: idShape{}, run: (*request).copyConfiguration},
	}
}

// pathVersion is the version of the path, 0 if it is no number.
func (c *request) pathVersion() int { return int(min(c.pathID("version"), math.MaxInt32)) }

func versionAnswer(v configVersion) storageapi.ConfigurationVersion {
	return storageapi.ConfigurationVersion{
		Version: v.Version, Created: v.At, CreatorToken: v.By, ChangeDescription: v.Text, IsDeleted: v.Deleted,
		Name: v.Name, Description: v.Description, VersionIdentifier: v.Identifier,
	}
}

func (c *request) listVersions(conf *configuration) (any, error) {
	wanted := strings.Split(c.query("include"), ",")
	if c.query("include") == "" {
		wanted = []string{"name", "description"}
	}
	absent := slices.DeleteFunc([]string{"name", "description"}, func(name string) bool { return slices.Contains(wanted, name) })
	versions := each[configVersion](conf.tx, conf.key("config-version", ""), true)
	return collect(c.page(1<<30), versions, anyRecord, func(v configVersion) map[string]any {
		answer := versionAnswer(v)
		if slices.Contains(wanted, "configuration") {
			answer.Configuration = conf.readContent(v)
		}
		return conf.tx.without(answer, absent...)
	}), nil
}

func (c *request) getVersion(conf *configuration) (any, error) {
	v, err := conf.readVersion(c.pathVersion())
	if err != nil {
		return nil, err
	}
	answer := versionAnswer(v)
	answer.Configuration = conf.readContent(v)
	out := conf.tx.without(answer)
	out["rows"] = eachWithout(conf.tx, conf.answerRows(v, include{content: true}), "state")
	out["rowsSortOrder"], out["isDisabled"] = notNil(v.SortOrder), v.Disabled
	return out, nil
}

// changeText reads a body that has nothing but a changeDescription.
func (c *request) changeText() string {
	return c.optionalInput(configCode).textOr("changeDescription", "")
}

// rollback makes a new version that equals an earlier one. A row that has changed since gets its own new version. State
// stays as it is.
func (c *request) rollback() (any, error) {
	text := c.changeText()
	target := c.pathVersion()
	return c.changeConfiguration(false, func(conf *configuration) (any, error) {
		old, err := conf.readVersion(target)
		if err != nil {
			return nil, err
		}
		next := old
		next.Deleted = false
		next.Rows = nil
		for _, ref := range old.Rows {
			// A row that is still at the version of then has not changed.
			if at := conf.head.Latest.find(ref.ID); at >= 0 && conf.head.Latest.Rows[at].Version == ref.Version {
				next.Rows = append(next.Rows, ref)
				continue
			}
			origin := fmt.Sprintf("Rollback to version %d (via configuration rollback to version %d)", ref.Version, target)
			next.Rows = append(next.Rows, conf.putRow(ref.ID, conf.readRow(ref), text, origin))
		}
		conf.commit(next, nil, text, fmt.Sprintf("Rollback to version %d", target))
		return map[string]string{"version": strconv.Itoa(conf.head.Latest.Version)}, nil
	})
}

func (c *request) copyConfiguration() (any, error) {
	in := c.input(configCode)
	name, description, text := in.required("name"), in.text("description"), in.textOr("changeDescription", "")
	if err := c.fault(); err != nil {
		return nil, err
	}
	id, err := c.configID()
	if err != nil {
		return nil, err
	}
	target := id
	target.config = ""
	return c.newConfiguration(target, func(tx *txn, target configID) (any, error) {
		source, err := openConfiguration(tx, id, c.creator(), false)
		if err != nil {
			return nil, err
		}
		old, err := source.readVersion(c.pathVersion())
		if err != nil {
			return nil, err
		}
		origin := fmt.Sprintf("Copied from configuration %q (%s) version %d", source.head.Latest.Name, id.config, old.Version)
		old.Name = name
		if description != nil {
			old.Description = *description
		}
		return map[string]string{"id": target.config}, source.copyTo(target, old, text, origin)
	})
}

// copyTo makes an independent configuration of a version, with empty state.
func (c *configuration) copyTo(id configID, v configVersion, text, fallback string) error {
	target := &configuration{configID: id, tx: c.tx, by: c.by}
	if c.tx.get(id.key("config"), &target.head) && !target.head.Latest.Deleted {
		return alreadyExists(id)
	}
	target.become(c, v, text, fallback)
	return nil
}

// become makes a new version that copies a version of another configuration.
func (c *configuration) become(source *configuration, v configVersion, text, fallback string) {
	content, rows := source.readContent(v), v.Rows
	v.Deleted, v.Rows = false, nil
	for _, ref := range rows {
		v.Rows = append(v.Rows, c.putRow(ref.ID, source.readRow(ref), text, fallback))
	}
	c.commit(v, content, text, fallback)
}

// copyConfigurations copies every live configuration of one branch to another.
func (s *Server) copyConfigurations(tx *txn, from, to string, by storageapi.TokenRef) error {
	var sources []configID
	for k := range tx.scan(key("config", from, ""), false) {
		component, config, _ := strings.Cut(k, sep)
		sources = append(sources, configID{from, component, config})
	}
	for _, id := range sources {
		conf, err := openConfiguration(tx, id, by, false)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		v := conf.head.Latest
		origin := fmt.Sprintf("Copied from default branch configuration %q (%s) version %d", v.Name, id.config, v.Version)
		if err := conf.copyTo(configID{to, id.component, id.config}, v, "", origin); err != nil {
			return err
		}
	}
	return nil
}

// resetConfiguration gives a configuration of a branch the content it has in the default branch.
func (c *request) resetConfiguration() (any, error) {
	if !c.dev {
		return nil, refuse(http.StatusBadRequest, configCode, "Only a configuration of a development branch can be reset")
	}
	return c.changeConfiguration(false, func(conf *configuration) (any, error) {
		id := conf.configID
		id.branch = c.s.defaultBranch.key()
		source, err := openConfiguration(conf.tx, id, c.creator(), false)
		if err != nil {
			return nil, err
		}
		v := source.head.Latest
		conf.become(source, v, "", fmt.Sprintf("Reset to default branch version %d", v.Version))
		return nil, nil
	})
}

func isNotFound(err error) bool {
	e, internal := explain(err)
	return err != nil && !internal && e.status == http.StatusNotFound
}
