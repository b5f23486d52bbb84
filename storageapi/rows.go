package storageapi

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
)

func (c *Client) rows(component, config string, more ...string) string {
	return c.configs(component, append([]string{config, "rows"}, more...)...)
}

// Rows lists the rows of a configuration in the order of their execution.
func (c *Client) Rows(ctx context.Context, component, config string) iter.Seq2[ConfigurationRow, error] {
	return list[ConfigurationRow](ctx, c, request{path: c.rows(component, config)})
}

// Row reads the latest version of a row.
func (c *Client) Row(ctx context.Context, component, config, id string) (*ConfigurationRow, error) {
	return fetch[ConfigurationRow](ctx, c, get(c.rows(component, config, id)))
}

// CreateRow adds a row to a configuration, which makes a new version of the configuration.
func (c *Client) CreateRow(ctx context.Context, component, config string, in RowCreate) (*ConfigurationRow, error) {
	return create(ctx, c, post(c.rows(component, config), in), in.RowID, func() (*ConfigurationRow, error) {
		return c.Row(ctx, component, config, in.RowID)
	})
}

// UpdateRow changes a row, which makes a new version of the row and of the configuration.
func (c *Client) UpdateRow(ctx context.Context, component, config, id string, in RowUpdate) (*ConfigurationRow, error) {
	return fetch[ConfigurationRow](ctx, c, put(c.rows(component, config, id), in))
}

// UpdateRowState replaces the state of a row, without a new version. {} makes its next run begin again.
func (c *Client) UpdateRowState(ctx context.Context, component, config, id string, state json.RawMessage) (*ConfigurationRow, error) {
	return fetch[ConfigurationRow](ctx, c, put(c.rows(component, config, id, "state"), stateBody{state}))
}

// DeleteRow deletes a row, which makes a new version of the configuration. The row comes back only when the configuration
// is rolled back to a version that has it.
func (c *Client) DeleteRow(ctx context.Context, component, config, id string) error {
	return c.delete(ctx, request{path: c.rows(component, config, id)})
}

// RowVersions lists the history of a row, the newest version first.
func (c *Client) RowVersions(ctx context.Context, component, config, id string) iter.Seq2[RowVersion, error] {
	return pages[RowVersion](ctx, c, request{path: c.rows(component, config, id, "versions")})
}

// RowVersion reads one version of a row with its content.
func (c *Client) RowVersion(ctx context.Context, component, config, id string, version int) (*RowVersion, error) {
	return fetch[RowVersion](ctx, c, get(c.rows(component, config, id, "versions", strconv.Itoa(version))))
}

// RollbackRow makes a new version of a row that is identical with an earlier one, and a new version of the configuration.
func (c *Client) RollbackRow(ctx context.Context, component, config, id string, version int, changeDescription string) (*ConfigurationRow, error) {
	return fetch[ConfigurationRow](ctx, c, post(c.rows(component, config, id, "versions", strconv.Itoa(version), "rollback"), changeBody{changeDescription}))
}

// RowCopy says where a copy of a row goes.
type RowCopy struct {
	// TargetConfigID is the configuration that gets the row, "" for the same one.
	TargetConfigID string `json:"targetConfigId,omitempty"`
	// ChangeDescription describes the change. The server has a default.
	ChangeDescription string `json:"changeDescription,omitempty"`
}

// CopyRow makes a new row from a version of a row, with a new id and empty state.
func (c *Client) CopyRow(ctx context.Context, component, config, id string, version int, in RowCopy) (*ConfigurationRow, error) {
	return fetch[ConfigurationRow](ctx, c, post(c.rows(component, config, id, "versions", strconv.Itoa(version), "create"), in))
}
