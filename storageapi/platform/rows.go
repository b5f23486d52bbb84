package platform

import (
	"cmp"
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
		{method: "GET", path: rowsPath, summary: "List rows", branch: optionalBranch, result: []storageapi.ConfigurationRow{}, read: ofConfiguration((*request).listRows)},
		{method: "POST", path: rowsPath, summary: "Create a row", branch: optionalBranch, body: "rowId " + rowBody, status: http.StatusCreated, result: storageapi.ConfigurationRow{}, run: (*request).createRow},
		{method: "GET", path: rowPath, summary: "Row detail", branch: optionalBranch, result: storageapi.ConfigurationRow{}, read: ofConfiguration((*request).getRow)},
		{method: "PUT", path: rowPath, summary: "Update a row", branch: optionalBranch, body: rowBody, result: storageapi.ConfigurationRow{}, run: (*request).updateRow},
		{method: "PUT", path: rowPath + "/state", summary: "Update the state of a row", branch: optionalBranch, body: "state!", result: storageapi.ConfigurationRow{}, run: (*request).updateRowState},
		{method: "DELETE", path: rowPath, summary: "Delete a row", branch: optionalBranch, body: "changeDescription", run: (*request).deleteRow},
		{method: "GET", path: rowPath + "/versions", summary: "List row versions, the newest first", branch: optionalBranch, query: versionsQuery, result: []storageapi.RowVersion{}, read: ofConfiguration((*request).listRowVersions)},
		{method: "GET", path: rowPath + "/versions/{version}", summary: "Row version detail", branch: optionalBranch, result: storageapi.RowVersion{}, read: ofConfiguration((*request).getRowVersion)},
		{method: "POST", path: rowPath + "/versions/{version}/rollback", summary: "Roll a row back to a version", branch: optionalBranch, body: "changeDescription", status: http.StatusCreated, result: storageapi.ConfigurationRow{}, run: (*request).rollbackRow},
		{method: "POST", path: rowPath + "/versions/{version}/create", summary: "Copy a row", branch: optionalBranch, body: "targetConfigId changeDescription", status: http.StatusCreated, result: storageapi.ConfigurationRow{}, run: (*request).copyRow},
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

// changeRow runs a change of the row of the path, and returns the row.
func (c *request) changeRow(change func(conf *configuration, ref rowRef) (rowRef, error)) (any, error) {
	return c.changeConfiguration(false, func(conf *configuration) (any, error) {
		ref, err := conf.openRow(c.r.PathValue("row"))
		if err != nil {
			return nil, err
		}
		if ref, err = change(conf, ref); err != nil {
			return nil, err
		}
		return conf.answerRow(ref, includeAll), nil
	})
}

func (c *request) listRows(conf *configuration) (any, error) {
	return conf.answerRows(conf.head.Latest, includeAll), nil
}

func (c *request) getRow(conf *configuration) (any, error) {
	ref, err := conf.openRow(c.r.PathValue("row"))
	if err != nil {
		return nil, err
	}
	return conf.answerRow(ref, includeAll), nil
}

// addRow adds a row to the latest version. It goes to the end of an order that is set.
func (c *configuration) addRow(id string, row rowVersion, text, rowText, configText string) rowRef {
	ref := c.putRow(id, row, text, rowText)
	next := c.head.Latest
	next.Rows = next.withRow(ref)
	if len(next.SortOrder) > 0 {
		next.SortOrder = append(slices.Clone(next.SortOrder), id)
	}
	c.commit(next, nil, text, configText)
	return ref
}

func (c *request) createRow() (any, error) {
	in := c.input(rowCode)
	id := in.textOr("rowId", "")
	if id != "" && !validID(id) {
		in.fail("rowId", "want at most 255 characters without \"/\" and control characters")
	}
	e := readEdit(in)
	return c.changeConfiguration(false, func(conf *configuration) (any, error) {
		if id == "" {
			id = c.newRowID(conf)
		}
		if conf.head.Latest.find(id) >= 0 {
			return nil, refuse(http.StatusBadRequest, "configurationRowAlreadyExists", "Row %q already exists", id)
		}
		row := rowVersion{Content: orEmptyObject(e.content)}
		e.apply(&row.Name, &row.Description, &row.Disabled)
		added := fmt.Sprintf("Row %s added", id)
		ref := conf.addRow(id, row, e.text, added, added)
		conf.tx.put(conf.rowState(id), orEmptyObject(e.state))
		return conf.answerRow(ref, includeAll), nil
	})
}

// newRowID returns an id that no row of the configuration has or had.
func (c *request) newRowID(conf *configuration) string {
	for {
		id, err := c.s.store.ids.takeText()
		if conf.tx.fail(err); !conf.tx.has(conf.row(id)) {
			return id
		}
	}
}

// replaceRow makes a new version of a row and of its configuration.
func (c *configuration) replaceRow(id string, row rowVersion, text, rowText, configText string) rowRef {
	ref := c.putRow(id, row, text, rowText)
	next := c.head.Latest
	next.Rows = next.withRow(ref)
	c.commit(next, nil, text, configText)
	return ref
}

func (c *request) updateRow() (any, error) {
	e := readChange(c.input(rowCode))
	return c.changeRow(func(conf *configuration, ref rowRef) (rowRef, error) {
		if e.state != nil {
			if conf.tx.put(conf.rowState(ref.ID), e.state); e.stateAlone {
				return ref, nil
			}
		}
		row := conf.readRow(ref)
		e.apply(&row.Name, &row.Description, &row.Disabled)
		if e.content != nil {
			row.Content = e.content
		}
		changed := fmt.Sprintf("Row %s changed", ref.ID)
		return conf.replaceRow(ref.ID, row, e.text, changed, changed), nil
	})
}

func (c *request) updateRowState() (any, error) {
	state := c.readStateBody(rowCode, badState)
	return c.changeRow(func(conf *configuration, ref rowRef) (rowRef, error) {
		conf.tx.put(conf.rowState(ref.ID), state)
		return ref, nil
	})
}

func (c *request) deleteRow() (any, error) {
	text := c.changeText()
	return c.changeConfiguration(false, func(conf *configuration) (any, error) {
		ref, err := conf.openRow(c.r.PathValue("row"))
		if err != nil {
			return nil, err
		}
		conf.commit(conf.head.Latest.withoutRow(ref.ID), nil, text, fmt.Sprintf("Row %s deleted", ref.ID))
		return nil, nil
	})
}

func rowVersionAnswer(row rowVersion) storageapi.RowVersion {
	return storageapi.RowVersion{
		Version: row.Version, Created: row.At, CreatorToken: row.By, ChangeDescription: row.Text, Name: row.Name,
		Description: row.Description, IsDisabled: row.Disabled, VersionIdentifier: row.Identifier, Configuration: row.Content,
	}
}

func (c *request) listRowVersions(conf *configuration) (any, error) {
	id := c.r.PathValue("row")
	if _, err := conf.openRow(id); err != nil {
		return nil, err
	}
	versions := each[rowVersion](conf.tx, conf.key("row-version", id, ""), true)
	return collect(c.page(1<<30), versions, anyRecord, func(row rowVersion) storageapi.RowVersion {
		if c.query("include") != "configuration" {
			row.Content = nil
		}
		return rowVersionAnswer(row)
	}), nil
}

// earlierRow reads the version of a row that the path names.
func (c *request) earlierRow(conf *configuration, ref rowRef) (rowVersion, error) {
	absent := refuse(http.StatusNotFound, "storage.configuration.row.version.notFound", "Version %d of row %q not found", c.pathVersion(), ref.ID)
	return find[rowVersion](conf.tx, conf.rowVersion(ref.ID, c.pathVersion()), absent)
}

func (c *request) getRowVersion(conf *configuration) (any, error) {
	ref, err := conf.openRow(c.r.PathValue("row"))
	if err != nil {
		return nil, err
	}
	row, err := c.earlierRow(conf, ref)
	return rowVersionAnswer(row), err
}

func (c *request) rollbackRow() (any, error) {
	text := c.changeText()
	return c.changeRow(func(conf *configuration, ref rowRef) (rowRef, error) {
		row, err := c.earlierRow(conf, ref)
		if err != nil {
			return ref, err
		}
		return conf.replaceRow(ref.ID, row, text, fmt.Sprintf("Rollback to version %d", row.Version),
			fmt.Sprintf("Row %s version %d rollback", ref.ID, row.Version)), nil
	})
}

func (c *request) copyRow() (any, error) {
	in := c.optionalInput(rowCode)
	targetConfig, text := in.textOr("targetConfigId", ""), in.textOr("changeDescription", "")
	id, err := c.configID()
	if err != nil {
		return nil, err
	}
	target := id
	target.config = cmp.Or(targetConfig, id.config)
	return c.change(target.lock(), func(tx *txn) (any, error) {
		source, err := openConfiguration(tx, id, c.creator(), false)
		if err != nil {
			return nil, err
		}
		ref, err := source.openRow(c.r.PathValue("row"))
		if err != nil {
			return nil, err
		}
		row, err := c.earlierRow(source, ref)
		if err != nil {
			return nil, err
		}
		conf, err := openConfiguration(tx, target, c.creator(), false)
		if err != nil {
			return nil, err
		}
		newID := c.newRowID(conf)
		origin := fmt.Sprintf("opied from configuration %q (%s) row %s version %d", source.head.Latest.Name, id.config, ref.ID, row.Version)
		ref = conf.addRow(newID, row, text, "C"+origin, fmt.Sprintf("Row %s c%s", newID, origin))
		return conf.answerRow(ref, includeAll), nil
	})
}
