package platform

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/forebay/forebay/storageapi"
)

const (
	rowCode  = "storage.componentsRows.validation"
	rowsPath = configPath + "/rows"
	rowPath  = rowsPath + "/{row}"
)

func (s *Server) rowRoutes() []route {
	return []route{
		{method: "GET", path: rowsPath, summary: "List rows", branch: optionalBranch, run: (*call).listRows},
		{method: "POST", path: rowsPath, summary: "Create a row", branch: optionalBranch, run: (*call).createRow},
		{method: "GET", path: rowPath, summary: "Row detail", branch: optionalBranch, run: (*call).getRow},
		{method: "PUT", path: rowPath, summary: "Update a row", branch: optionalBranch, run: (*call).updateRow},
		{method: "PUT", path: rowPath + "/state", summary: "Update the state of a row", branch: optionalBranch, run: (*call).updateRowState},
		{method: "DELETE", path: rowPath, summary: "Delete a row", branch: optionalBranch, run: (*call).deleteRow},
		{method: "GET", path: rowPath + "/versions", summary: "List row versions, the newest first", branch: optionalBranch, run: (*call).listRowVersions},
		{method: "GET", path: rowPath + "/versions/{version}", summary: "Row version detail", branch: optionalBranch, run: (*call).getRowVersion},
		{method: "POST", path: rowPath + "/versions/{version}/rollback", summary: "Roll a row back to a version", branch: optionalBranch, run: (*call).rollbackRow},
		{method: "POST", path: rowPath + "/versions/{version}/create", summary: "Copy a row", branch: optionalBranch, run: (*call).copyRow},
	}
}

func rowNotFound(row string) *apiError {
	return refuse(http.StatusNotFound, "storage.configuration.row.notFound", "Row %q not found", cut(row, 255))
}

// openRow finds a row of the latest version.
func (c *configuration) openRow(row string) (rowRef, error) {
	at := c.head.Latest.find(row)
	if at < 0 {
		return rowRef{}, rowNotFound(row)
	}
	return c.head.Latest.Rows[at], nil
}

// changeRow runs a change of the row of the path.
func (c *call) changeRow(change func(conf *configuration, ref rowRef) (rowRef, error)) (out storageapi.ConfigurationRow, err error) {
	_, err = c.changeConfiguration(false, func(conf *configuration) error {
		ref, err := conf.openRow(c.r.PathValue("row"))
		if err != nil {
			return err
		}
		if ref, err = change(conf, ref); err != nil {
			return err
		}
		out, err = conf.answerRow(ref, include{true, true, true})
		return err
	})
	return out, err
}

func (c *call) listRows() (reply, error) {
	var rows []storageapi.ConfigurationRow
	err := c.readConfiguration(func(conf *configuration) (err error) {
		rows, err = conf.answerRows(conf.head.Latest, include{true, true, true})
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(rows)
}

func (c *call) getRow() (reply, error) {
	var out storageapi.ConfigurationRow
	err := c.readConfiguration(func(conf *configuration) error {
		ref, err := conf.openRow(c.r.PathValue("row"))
		if err != nil {
			return err
		}
		out, err = conf.answerRow(ref, include{true, true, true})
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

// addRow adds a row to the latest version. It goes to the end of an order that is set.
func (c *configuration) addRow(id string, row rowVersion, text, rowText, configText string) (rowRef, error) {
	ref, err := c.putRow(id, row, text, rowText)
	if err != nil {
		return ref, err
	}
	next := c.head.Latest
	next.Rows = next.withRow(ref)
	if len(next.SortOrder) > 0 {
		next.SortOrder = append(slices.Clone(next.SortOrder), id)
	}
	return ref, c.commit(next, nil, text, configText)
}

func (c *call) createRow() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	id := in.textOr("rowId", "")
	if id != "" && !validID(id) {
		in.fail("rowId", "want at most 255 characters without \"/\" and control characters")
	}
	row := rowVersion{
		Name: in.textOr("name", ""), Description: in.textOr("description", ""), Disabled: in.flagOr("isDisabled", false),
		Content: in.configuration(),
	}
	state, text := in.content("state", badState), in.textOr("changeDescription", "")
	if err := in.err(rowCode); err != nil {
		return failed(err)
	}
	if row.Content == nil {
		row.Content = emptyObject()
	}
	if state == nil {
		state = emptyObject()
	}
	var out storageapi.ConfigurationRow
	_, err = c.changeConfiguration(false, func(conf *configuration) error {
		if id == "" {
			if id, err = c.newRowID(conf); err != nil {
				return err
			}
		}
		if conf.head.Latest.find(id) >= 0 {
			return refuse(http.StatusBadRequest, "configurationRowAlreadyExists", "Row %q already exists", id)
		}
		added := fmt.Sprintf("Row %s added", id)
		ref, err := conf.addRow(id, row, text, added, added)
		if err != nil {
			return err
		}
		if err := conf.tx.put(conf.rowState(id), state); err != nil {
			return err
		}
		out, err = conf.answerRow(ref, include{true, true, true})
		return err
	})
	if err != nil {
		return failed(err)
	}
	return created(out)
}

// newRowID gives an id that no row of the configuration has or had, also none that somebody has chosen.
func (c *call) newRowID(conf *configuration) (string, error) {
	for {
		id, err := c.s.store.ids.takeText()
		if err != nil {
			return "", err
		}
		found, err := conf.tx.get(conf.row(id), &rowHead{})
		if err != nil || !found {
			return id, err
		}
	}
}

// replaceRow makes a new version of a row and of its configuration.
func (c *configuration) replaceRow(id string, row rowVersion, text, rowText, configText string) (rowRef, error) {
	ref, err := c.putRow(id, row, text, rowText)
	if err != nil {
		return ref, err
	}
	next := c.head.Latest
	next.Rows = next.withRow(ref)
	return ref, c.commit(next, nil, text, configText)
}

func (c *call) updateRow() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	name, description, disabled := in.text("name"), in.text("description"), in.flag("isDisabled")
	content, state, text := in.configuration(), in.content("state", badState), in.textOr("changeDescription", "")
	if err := in.err(rowCode); err != nil {
		return failed(err)
	}
	out, err := c.changeRow(func(conf *configuration, ref rowRef) (rowRef, error) {
		if state != nil {
			if err := conf.tx.put(conf.rowState(ref.ID), state); err != nil {
				return ref, err
			}
			if in.lacks("name", "description", "isDisabled", "configuration", "changeDescription") {
				return ref, nil
			}
		}
		row, err := conf.readRow(ref)
		if err != nil {
			return ref, err
		}
		if name != nil {
			row.Name = *name
		}
		if description != nil {
			row.Description = *description
		}
		if disabled != nil {
			row.Disabled = *disabled
		}
		if content != nil {
			row.Content = content
		}
		changed := fmt.Sprintf("Row %s changed", ref.ID)
		return conf.replaceRow(ref.ID, row, text, changed, changed)
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

func (c *call) updateRowState() (reply, error) {
	state, err := c.readStateBody(rowCode, badState)
	if err != nil {
		return failed(err)
	}
	out, err := c.changeRow(func(conf *configuration, ref rowRef) (rowRef, error) {
		return ref, conf.tx.put(conf.rowState(ref.ID), state)
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

func (c *call) deleteRow() (reply, error) {
	text, err := c.changeText()
	if err != nil {
		return failed(err)
	}
	_, err = c.changeConfiguration(false, func(conf *configuration) error {
		ref, err := conf.openRow(c.r.PathValue("row"))
		if err != nil {
			return err
		}
		return conf.commit(conf.head.Latest.withoutRow(ref.ID), nil, text, fmt.Sprintf("Row %s deleted", ref.ID))
	})
	if err != nil {
		return failed(err)
	}
	return noContent()
}

func rowVersionAnswer(row rowVersion, content json.RawMessage) storageapi.RowVersion {
	return storageapi.RowVersion{
		Version: row.Version, Created: row.At, CreatorToken: row.By, ChangeDescription: row.Text, Name: row.Name,
		Description: row.Description, IsDisabled: row.Disabled, VersionIdentifier: row.Identifier, Configuration: content,
	}
}

func (c *call) listRowVersions() (reply, error) {
	limit, offset, err := c.paging(1 << 30)
	if err != nil {
		return failed(err)
	}
	list := []storageapi.RowVersion{}
	err = c.readConfiguration(func(conf *configuration) error {
		id := c.r.PathValue("row")
		if _, err := conf.openRow(id); err != nil {
			return err
		}
		n := 0
		for _, rec := range conf.tx.scan(conf.key("row-version", id, ""), true) {
			if n++; n <= offset {
				continue
			}
			if n > offset+limit {
				break
			}
			var row rowVersion
			if err := rec.decode(&row); err != nil {
				return err
			}
			var content json.RawMessage
			if c.query("include") == "configuration" {
				content = row.Content
			}
			list = append(list, rowVersionAnswer(row, content))
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

// earlierRow reads the version of a row that the path names.
func (c *call) earlierRow(conf *configuration, ref rowRef) (rowVersion, error) {
	var row rowVersion
	found, err := conf.tx.get(conf.rowVersion(ref.ID, c.pathVersion()), &row)
	if err == nil && !found {
		err = refuse(http.StatusNotFound, "storage.configuration.row.version.notFound", "Version %d of row %q not found", c.pathVersion(), ref.ID)
	}
	return row, err
}

func (c *call) getRowVersion() (reply, error) {
	var out storageapi.RowVersion
	err := c.readConfiguration(func(conf *configuration) error {
		ref, err := conf.openRow(c.r.PathValue("row"))
		if err != nil {
			return err
		}
		row, err := c.earlierRow(conf, ref)
		out = rowVersionAnswer(row, row.Content)
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

func (c *call) rollbackRow() (reply, error) {
	text, err := c.changeText()
	if err != nil {
		return failed(err)
	}
	out, err := c.changeRow(func(conf *configuration, ref rowRef) (rowRef, error) {
		row, err := c.earlierRow(conf, ref)
		if err != nil {
			return ref, err
		}
		return conf.replaceRow(ref.ID, row, text, fmt.Sprintf("Rollback to version %d", row.Version),
			fmt.Sprintf("Row %s version %d rollback", ref.ID, row.Version))
	})
	if err != nil {
		return failed(err)
	}
	return created(out)
}

func (c *call) copyRow() (reply, error) {
	in, err := c.optionalInput()
	if err != nil {
		return failed(err)
	}
	targetConfig, text := in.textOr("targetConfigId", ""), in.textOr("changeDescription", "")
	if err := in.err(rowCode); err != nil {
		return failed(err)
	}
	id, err := c.configID()
	if err != nil {
		return failed(err)
	}
	target := id
	if targetConfig != "" {
		target.config = targetConfig
	}
	var out storageapi.ConfigurationRow
	err = c.s.store.update(target.lock(), func(tx *txn) error {
		source, err := openConfiguration(tx, id, c.creator(), false)
		if err != nil {
			return err
		}
		ref, err := source.openRow(c.r.PathValue("row"))
		if err != nil {
			return err
		}
		row, err := c.earlierRow(source, ref)
		if err != nil {
			return err
		}
		conf, err := openConfiguration(tx, target, c.creator(), false)
		if err != nil {
			return err
		}
		newID, err := c.newRowID(conf)
		if err != nil {
			return err
		}
		origin := fmt.Sprintf("opied from configuration %q (%s) row %s version %d", source.head.Latest.Name, id.config, ref.ID, row.Version)
		if ref, err = conf.addRow(newID, row, text, "C"+origin, fmt.Sprintf("Row %s c%s", newID, origin)); err != nil {
			return err
		}
		out, err = conf.answerRow(ref, include{true, true, true})
		return err
	})
	if err != nil {
		return failed(err)
	}
	return created(out)
}
