package streamapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
)

// maintenance is the part of a catalog that the API needs for the quarantines, files, counters and shadows of sinks. A [catalog.Maintenance]
// has it without definitions.
type maintenance interface {
	Engine() *forebay.Engine
	Rejected(ctx context.Context, sourceID, id string, f forebay.RejectedFilter, limit int) (catalog.RejectedPage, error)
	RejectedRecord(ctx context.Context, sourceID, id, recordID string) (forebay.RejectedContent, error)
	EditRejected(ctx context.Context, by catalog.By, sourceID, id, recordID string, revision int, body []byte) error
	TestRejected(ctx context.Context, sourceID, id, recordID string) ([]catalog.TestedCell, error)
	ReplayRejected(ctx context.Context, sourceID, id, recordID string) (catalog.RejectsResult, error)
	DiscardRejected(ctx context.Context, by catalog.By, sourceID, id, recordID, reason string) error
	ReplayRejects(sourceID, id string, s catalog.RejectedSelection) (catalog.Task, error)
	DiscardRejects(by catalog.By, sourceID, id string, s catalog.RejectedSelection, reason string) (catalog.Task, error)
	CancelRejects(ctx context.Context, sourceID, id string) (catalog.Task, error)
	Task(id string) (catalog.Task, error)

	SinkStatistics(ctx context.Context, sourceID, id string) (catalog.Statistics, error)
	Retry(ctx context.Context, ref catalog.Ref) error
	RetryFile(ctx context.Context, sourceID, id, fileID string) error
	DiscardFile(ctx context.Context, sourceID, id, fileID string) error
	SplitFile(ctx context.Context, sourceID, id, fileID string) error
	QuarantineFile(ctx context.Context, sourceID, id, fileID string) error

	Shadow(ctx context.Context, sourceID, id string, columns mapping.Columns, opts forebay.ShadowOptions) (forebay.ShadowReport, error)
	ShadowReport(sourceID, id string) (forebay.ShadowReport, error)
	ShadowCopy(ctx context.Context, sourceID, id, copyID string, opts forebay.ShadowOptions) (forebay.ShadowReport, error)
	EndShadow(sourceID, id string) (forebay.ShadowReport, error)
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
