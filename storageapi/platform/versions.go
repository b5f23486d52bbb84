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
		{method: "GET", path: configPath + "/versions", summary: "List versions, the newest first", branch: optionalBranch, run: (*call).listVersions},
		{method: "GET", path: configPath + "/versions/{version}", summary: "Version detail", branch: optionalBranch, run: (*call).getVersion},
		{method: "POST", path: configPath + "/versions/{version}/rollback", summary: "Roll back to a version", branch: optionalBranch, run: (*call).rollback},
		{method: "POST", path: configPath + "/versions/{version}/create", summary: "Copy a version to a new configuration", branch: optionalBranch, run: (*call).copyConfiguration},
	}
}

// pathVersion is the version of the path, 0 if it is no number.
func (c *call) pathVersion() int { return int(min(c.pathID("version"), math.MaxInt32)) }

func versionAnswer(v configVersion) storageapi.ConfigurationVersion {
	return storageapi.ConfigurationVersion{
		Version: v.Version, Created: v.At, CreatorToken: v.By, ChangeDescription: v.Text, IsDeleted: v.Deleted,
		Name: v.Name, Description: v.Description, VersionIdentifier: v.Identifier,
	}
}

func (c *call) listVersions() (reply, error) {
	limit, offset, err := c.paging(1 << 30)
	if err != nil {
		return failed(err)
	}
	wanted := strings.Split(c.query("include"), ",")
	if c.query("include") == "" {
		wanted = []string{"name", "description"}
	}
	list := []map[string]any{}
	err = c.readConfiguration(func(conf *configuration) error {
		n := 0
		for _, rec := range conf.tx.scan(conf.key("config-version", ""), true) {
			if n++; n <= offset {
				continue
			}
			if n > offset+limit {
				break
			}
			var v configVersion
			if err := rec.decode(&v); err != nil {
				return err
			}
			out := versionAnswer(v)
			var absent []string
			for _, name := range []string{"name", "description"} {
				if !slices.Contains(wanted, name) {
					absent = append(absent, name)
				}
			}
			if slices.Contains(wanted, "configuration") {
				var err error
				if out.Configuration, err = conf.readContent(v); err != nil {
					return err
				}
			}
			item, err := without(out, absent...)
			if err != nil {
				return err
			}
			list = append(list, item)
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

func (c *call) getVersion() (reply, error) {
	var out map[string]any
	err := c.readConfiguration(func(conf *configuration) error {
		v, err := conf.readVersion(c.pathVersion())
		if err != nil {
			return err
		}
		answer := versionAnswer(v)
		if answer.Configuration, err = conf.readContent(v); err != nil {
			return err
		}
		if out, err = without(answer); err != nil {
			return err
		}
		rows, err := conf.answerRows(v, include{content: true})
		if err != nil {
			return err
		}
		items := []map[string]any{}
		for _, row := range rows {
			item, err := without(row, "state")
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		out["rows"], out["rowsSortOrder"], out["isDisabled"] = items, notNil(v.SortOrder), v.Disabled
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

// changeText reads a body that has nothing but a changeDescription.
func (c *call) changeText() (string, error) {
	in, err := c.optionalInput()
	if err != nil {
		return "", err
	}
	text := in.textOr("changeDescription", "")
	return text, in.err(configCode)
}

// rollback makes a new version that is identical with an earlier one. A row that is not as it was then gets a new
// version of its own; state stays as it is.
func (c *call) rollback() (reply, error) {
	text, err := c.changeText()
	if err != nil {
		return failed(err)
	}
	target := c.pathVersion()
	out, err := c.changeConfiguration(false, func(conf *configuration) error {
		old, err := conf.readVersion(target)
		if err != nil {
			return err
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
			row, err := conf.readRow(ref)
			if err != nil {
				return err
			}
			restored, err := conf.putRow(ref.ID, row, text, fmt.Sprintf("Rollback to version %d (via configuration rollback to version %d)", ref.Version, target))
			if err != nil {
				return err
			}
			next.Rows = append(next.Rows, restored)
		}
		return conf.commit(next, nil, text, fmt.Sprintf("Rollback to version %d", target))
	})
	if err != nil {
		return failed(err)
	}
	return created(map[string]string{"version": strconv.Itoa(out.Version)})
}

func (c *call) copyConfiguration() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	name, description, text := in.required("name"), in.text("description"), in.textOr("changeDescription", "")
	if err := in.err(configCode); err != nil {
		return failed(err)
	}
	id, err := c.configID()
	if err != nil {
		return failed(err)
	}
	target := id
	target.config = ""
	err = c.newConfiguration(target, func(tx *txn, fresh configID) error {
		target = fresh
		source, err := openConfiguration(tx, id, c.creator(), false)
		if err != nil {
			return err
		}
		old, err := source.readVersion(c.pathVersion())
		if err != nil {
			return err
		}
		origin := fmt.Sprintf("Copied from configuration %q (%s) version %d", source.head.Latest.Name, id.config, old.Version)
		return source.copyTo(target, old, func(v *configVersion) {
			v.Name = name
			if description != nil {
				v.Description = *description
			}
		}, text, origin)
	})
	if err != nil {
		return failed(err)
	}
	return created(map[string]string{"id": target.config})
}

// copyTo makes an independent configuration of a version, with empty state. adjust may change the copy.
func (c *configuration) copyTo(id configID, old configVersion, adjust func(v *configVersion), text, fallback string) error {
	target := &configuration{configID: id, tx: c.tx, by: c.by}
	if found, err := c.tx.get(id.key("config"), &target.head); err != nil {
		return err
	} else if found && !target.head.Latest.Deleted {
		return alreadyExists(id)
	}
	next := old
	next.Deleted, next.Rows = false, nil
	adjust(&next)
	for _, ref := range old.Rows {
		row, err := c.readRow(ref)
		if err != nil {
			return err
		}
		copied, err := target.putRow(ref.ID, row, text, fallback)
		if err != nil {
			return err
		}
		next.Rows = append(next.Rows, copied)
	}
	content, err := c.readContent(old)
	if err != nil {
		return err
	}
	return target.commit(next, content, text, fallback)
}

// copyConfigurations copies every live configuration of one branch to another.
func (s *Server) copyConfigurations(tx *txn, from, to string, by storageapi.TokenRef) error {
	type place struct{ component, config string }
	var places []place
	for k := range tx.scan(key("config", from, ""), false) {
		component, config, _ := strings.Cut(k, sep)
		places = append(places, place{component, config})
	}
	for _, p := range places {
		source := configID{from, p.component, p.config}
		conf, err := openConfiguration(tx, source, by, false)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		v := conf.head.Latest
		origin := fmt.Sprintf("Copied from default branch configuration %q (%s) version %d", v.Name, p.config, v.Version)
		if err := conf.copyTo(configID{to, p.component, p.config}, v, func(*configVersion) {}, "", origin); err != nil {
			return err
		}
	}
	return nil
}

// resetConfiguration gives a configuration of a branch the content it has in the default branch.
func (c *call) resetConfiguration() (reply, error) {
	if !c.dev {
		return failed(refuse(http.StatusBadRequest, configCode, "Only a configuration of a development branch can be reset"))
	}
	_, err := c.changeConfiguration(false, func(conf *configuration) error {
		id := conf.configID
		id.branch = c.s.defaultBranch.key()
		source, err := openConfiguration(conf.tx, id, c.creator(), false)
		if err != nil {
			return err
		}
		next := source.head.Latest
		next.Rows = nil
		origin := fmt.Sprintf("Reset to default branch version %d", source.head.Latest.Version)
		for _, ref := range source.head.Latest.Rows {
			row, err := source.readRow(ref)
			if err != nil {
				return err
			}
			copied, err := conf.putRow(ref.ID, row, "", origin)
			if err != nil {
				return err
			}
			next.Rows = append(next.Rows, copied)
		}
		content, err := source.readContent(source.head.Latest)
		if err != nil {
			return err
		}
		return conf.commit(next, content, "", origin)
	})
	if err != nil {
		return failed(err)
	}
	return noContent()
}

func isNotFound(err error) bool {
	e, internal := explain(err)
	return err != nil && !internal && e.status == http.StatusNotFound
}
