package streamapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

// maintenance is the part of a catalog that the API needs for the quarantines, files, counters and shadows of sinks. A [catalog.Maintenance]
// has it without definitions.
type maintenance interface {
	Engine() *forebay.Engine
	Handle(sourceID, id string) catalog.SinkHandle
	Retry(ctx context.Context, ref catalog.Ref) error
	Task(id string) (catalog.Task, error)
}

var _, _ maintenance = (*catalog.Catalog)(nil), (*catalog.Maintenance)(nil)

// NewMaintenance returns the part of the Stream API that works on quarantines, files, counters, shadows and damage,
// for an engine whose sources are defined
// elsewhere. It has the paths, rights and responses of [New]. All other paths return 404. Close the maintenance after the last request.
func NewMaintenance(m *catalog.Maintenance, opts Options) (http.Handler, error) {
	return serveAPI(&api{on: m}, opts)
}

// maintains reports whether an operation needs no definitions.
func (op *operation) maintains() bool {
	return op.access == open ||
		slices.Contains([]string{sourcePath + "/retry", sinkPath + "/retry", totalPath, filesPath, failedPath, taskPath, erasePath, damagesPath, damagePath}, op.path) ||
		slices.ContainsFunc([]string{rejectsPath, filePath, shadowPath}, func(path string) bool { return strings.HasPrefix(op.path, path) })
}
