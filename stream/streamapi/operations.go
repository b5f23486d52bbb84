package streamapi

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/forebay/forebay/catalog"
)

const (
	branchPath = "/v1/branches/{branchId}"
	sourcePath = branchPath + "/sources/{sourceId}"
	sinkPath   = sourcePath + "/sinks/{sinkId}"
)

// operations is the whole API: routing, checks, description and tests are made of it.
func (a *api) operations() []operation {
	sourceCodes := []catalog.Code{catalog.SourceNotFound}
	sinkCodes := []catalog.Code{catalog.SourceNotFound, catalog.SinkNotFound}
	busy := func(codes ...catalog.Code) []catalog.Code { return append(slices.Clip(codes), catalog.Busy) }
	cascade := parameter{name: "cascade", doc: "Erase the source with its sinks, versions, waiting rows and tables.", schema: false}
	signal := parameter{
		name: "signal", doc: "Signal of the sample, for an OTLP source: its sample is one flat record in JSON, not an export request. Default: logs.", schema: "", enum: []string{"logs", "metrics", "traces"},
	}
	overlap := parameter{
		name: overlapParameter, doc: fmt.Sprintf("How long the old secret is accepted beside the new one, for example 30m or 24h; at most %s. Default: not at all. "+
			"A secret that is older ends at once in either case.", catalog.MaxSecretOverlap), schema: "", check: checkOverlap,
	}
	failed := parameter{name: "failedFiles", doc: "Only files whose import has failed and not succeeded yet.", schema: false}

	return []operation{
		{
			method: http.MethodGet, path: "/v1", id: "apiIndex", summary: "Index of the API", access: open,
			status: http.StatusOK, answer: indexBody{}, handle: a.index,
		},
		{
			method: http.MethodPost, path: branchPath + "/sources", id: "createSource", summary: "Create a source, with its sinks if there are any",
			access: admin, body: &sourceCreate{}, status: http.StatusAccepted, answer: taskBody{},
			codes: busy(catalog.SourceAlreadyExists, catalog.SourceLimit, catalog.SinkAlreadyExists), handle: a.createSource,
		},
		{
			method: http.MethodGet, path: branchPath + "/sources", id: "listSources", summary: "List the sources",
			access: member, query: pageParameters, status: http.StatusOK, answer: sourcesBody{}, handle: a.listSources(false),
		},
		{
			method: http.MethodGet, path: branchPath + "/sources/deleted", id: "listDeletedSources", summary: "List the deleted sources",
			access: member, query: pageParameters, status: http.StatusOK, answer: sourcesBody{}, handle: a.listSources(true),
		},
		{
			method: http.MethodGet, path: sourcePath, id: "getSource", summary: "Read a source",
			access: member, status: http.StatusOK, answer: sourceBody{}, codes: sourceCodes, handle: a.getSource,
		},
		{
			method: http.MethodPatch, path: sourcePath, id: "updateSource", summary: "Change the name, description or type of a source",
			access: admin, body: &sourceUpdate{}, status: http.StatusAccepted, answer: taskBody{}, codes: busy(catalog.SourceNotFound), handle: a.updateSource,
		},
		{
			method: http.MethodDelete, path: sourcePath, id: "deleteSource", summary: "Delete a source and its sinks",
			access: admin, query: []parameter{cascade}, status: http.StatusAccepted, answer: taskBody{}, codes: busy(catalog.SourceNotFound), handle: a.deleteSource,
		},
		{
			method: http.MethodGet, path: sourcePath + "/settings", id: "getSourceSettings", summary: "Read the settings of a source",
			access: member, status: http.StatusOK, answer: settingsBody{}, codes: sourceCodes, handle: a.sourceSettings,
		},
		{
			method: http.MethodPatch, path: sourcePath + "/settings", id: "updateSourceSettings", summary: "Change settings of a source; reading them lists the keys",
			access: admin, body: &settingsUpdate{}, status: http.StatusAccepted, answer: taskBody{},
			codes: busy(catalog.SourceNotFound, catalog.Forbidden), handle: a.updateSourceSettings,
		},
		{
			method: http.MethodPost, path: sourcePath + "/test", id: "testSource", summary: "Render a sample by all sinks and store nothing",
			access: member, query: []parameter{signal}, raw: true, status: http.StatusOK, answer: testBody{}, codes: sourceCodes, handle: a.testSource,
		},
		{
			method: http.MethodDelete, path: sourcePath + "/statistics/clear", id: "clearSourceStatistics", summary: "Start the statistics of all sinks anew",
			access: admin, status: http.StatusOK, codes: busy(sourceCodes...), handle: a.clearSource,
		},
		{
			method: http.MethodPost, path: sourcePath + "/retry", id: "retrySource", summary: "Repeat at once what has failed at the sinks of a source",
			access: admin, status: http.StatusOK, codes: sourceCodes, handle: a.retrySource,
		},
		{
			method: http.MethodPut, path: sourcePath + "/disable", id: "disableSource", summary: "Refuse events for a source",
			access: admin, status: http.StatusAccepted, answer: taskBody{}, codes: busy(catalog.SourceNotFound), handle: a.sourceTask(a.cat.DisableSource),
		},
		{
			method: http.MethodPut, path: sourcePath + "/enable", id: "enableSource", summary: "Take events for a source again",
			access: admin, status: http.StatusAccepted, answer: taskBody{}, codes: busy(catalog.SourceNotFound), handle: a.sourceTask(a.cat.EnableSource),
		},
		{
			method: http.MethodPost, path: sourcePath + "/rotate-secret", id: "rotateSecret", summary: "Give a source a new secret; the old one ends at once, or after the overlap",
			access: admin, query: []parameter{overlap}, status: http.StatusOK, answer: sourceBody{}, codes: busy(catalog.SourceNotFound), handle: a.rotateSecret,
		},
		{
			method: http.MethodPut, path: sourcePath + "/undelete", id: "undeleteSource", summary: "Bring a deleted source back",
			access: admin, status: http.StatusAccepted, answer: taskBody{}, codes: busy(catalog.DeletedSourceNotFound, catalog.SourceLimit), handle: a.sourceTask(a.cat.UndeleteSource),
		},
		{
			method: http.MethodGet, path: sourcePath + "/versions", id: "listSourceVersions", summary: "List the versions of a source",
			access: member, query: pageParameters, status: http.StatusOK, answer: versionsBody{}, codes: sourceCodes, handle: a.sourceVersions,
		},
		{
			method: http.MethodGet, path: sourcePath + "/versions/{versionNumber}", id: "getSourceVersion", summary: "Read a version of a source with its content",
			access: member, status: http.StatusOK, answer: versionBody{}, codes: []catalog.Code{catalog.SourceNotFound, catalog.SourceVersionNotFound}, handle: a.sourceVersion,
		},
		{
			method: http.MethodPut, path: sourcePath + "/versions/{versionNumber}/rollback", id: "rollbackSource", summary: "Make an old version of a source the newest",
			access: admin, status: http.StatusAccepted, answer: taskBody{}, codes: busy(catalog.SourceNotFound, catalog.SourceVersionNotFound), handle: a.rollbackSource,
		},
		{
			method: http.MethodPost, path: sourcePath + "/sinks", id: "createSink", summary: "Create a sink",
			access: admin, body: &sinkCreate{}, status: http.StatusAccepted, answer: taskBody{},
			codes: busy(catalog.SourceNotFound, catalog.SinkAlreadyExists, catalog.SinkLimit), handle: a.createSink,
		},
		{
			method: http.MethodGet, path: sourcePath + "/sinks", id: "listSinks", summary: "List the sinks of a source",
			access: member, query: pageParameters, status: http.StatusOK, answer: sinksBody{}, codes: sourceCodes, handle: a.listSinks(false),
		},
		{
			method: http.MethodGet, path: sourcePath + "/sinks/deleted", id: "listDeletedSinks", summary: "List the deleted sinks of a source",
			access: member, query: pageParameters, status: http.StatusOK, answer: sinksBody{}, codes: sourceCodes, handle: a.listSinks(true),
		},
		{
			method: http.MethodGet, path: sinkPath, id: "getSink", summary: "Read a sink",
			access: member, status: http.StatusOK, answer: sinkBody{}, codes: sinkCodes, handle: a.getSink,
		},
		{
			method: http.MethodPatch, path: sinkPath, id: "updateSink", summary: "Change a sink",
			access: admin, body: &sinkUpdate{}, status: http.StatusAccepted, answer: taskBody{}, codes: busy(sinkCodes...), handle: a.updateSink,
		},
		{
			method: http.MethodDelete, path: sinkPath, id: "deleteSink", summary: "Delete a sink",
			access: admin, status: http.StatusAccepted, answer: taskBody{}, codes: busy(sinkCodes...), handle: a.sinkTask(a.cat.DeleteSink),
		},
		{
			method: http.MethodGet, path: sinkPath + "/settings", id: "getSinkSettings", summary: "Read the settings of a sink",
			access: member, status: http.StatusOK, answer: settingsBody{}, codes: sinkCodes, handle: a.sinkSettings,
		},
		{
			method: http.MethodPatch, path: sinkPath + "/settings", id: "updateSinkSettings", summary: "Change settings of a sink; reading them lists the keys",
			access: admin, body: &settingsUpdate{}, status: http.StatusAccepted, answer: taskBody{},
			codes: busy(catalog.SourceNotFound, catalog.SinkNotFound, catalog.Forbidden), handle: a.updateSinkSettings,
		},
		{
			method: http.MethodGet, path: sinkPath + "/statistics/total", id: "sinkStatisticsTotal", summary: "Counters of a sink",
			access: member, status: http.StatusOK, answer: totalBody{}, codes: sinkCodes, handle: a.sinkTotal,
		},
		{
			method: http.MethodGet, path: sinkPath + "/statistics/files", id: "sinkStatisticsFiles", summary: "Files of a sink",
			access: member, query: []parameter{failed}, status: http.StatusOK, answer: filesBody{}, codes: sinkCodes, handle: a.sinkFiles,
		},
		{
			method: http.MethodDelete, path: sinkPath + "/statistics/clear", id: "clearSinkStatistics", summary: "Start the statistics of a sink anew",
			access: admin, status: http.StatusOK, codes: busy(sinkCodes...), handle: a.clearSink,
		},
		{
			method: http.MethodPost, path: sinkPath + "/retry", id: "retrySink", summary: "Repeat at once what has failed at a sink, after its cause was mended",
			access: admin, status: http.StatusOK, codes: sinkCodes, handle: a.retrySink,
		},
		{
			method: http.MethodDelete, path: sinkPath + "/files/{fileId}", id: "discardFile", summary: "Give up a file that is not in its table; its rows are lost",
			access: admin, status: http.StatusOK, codes: append(slices.Clip(sinkCodes), catalog.FileNotFound, catalog.ImportRuns), handle: a.discardFile,
		},
		{
			method: http.MethodPut, path: sinkPath + "/disable", id: "disableSink", summary: "Stop a sink from taking events",
			access: admin, status: http.StatusAccepted, answer: taskBody{}, codes: busy(sinkCodes...), handle: a.sinkTask(a.cat.DisableSink),
		},
		{
			method: http.MethodPut, path: sinkPath + "/enable", id: "enableSink", summary: "Let a sink take events again",
			access: admin, status: http.StatusAccepted, answer: taskBody{}, codes: busy(sinkCodes...), handle: a.sinkTask(a.cat.EnableSink),
		},
		{
			method: http.MethodPut, path: sinkPath + "/undelete", id: "undeleteSink", summary: "Bring a deleted sink back",
			access: admin, status: http.StatusAccepted, answer: taskBody{},
			codes: busy(catalog.SourceNotFound, catalog.DeletedSinkNotFound, catalog.SinkLimit), handle: a.sinkTask(a.cat.UndeleteSink),
		},
		{
			method: http.MethodGet, path: sinkPath + "/versions", id: "listSinkVersions", summary: "List the versions of a sink",
			access: member, query: pageParameters, status: http.StatusOK, answer: versionsBody{}, codes: sinkCodes, handle: a.sinkVersions,
		},
		{
			method: http.MethodGet, path: sinkPath + "/versions/{versionNumber}", id: "getSinkVersion", summary: "Read a version of a sink with its content",
			access: member, status: http.StatusOK, answer: versionBody{}, codes: append(slices.Clip(sinkCodes), catalog.SinkVersionNotFound), handle: a.sinkVersion,
		},
		{
			method: http.MethodPut, path: sinkPath + "/versions/{versionNumber}/rollback", id: "rollbackSink", summary: "Make an old version of a sink the newest",
			access: admin, status: http.StatusAccepted, answer: taskBody{}, codes: append(busy(sinkCodes...), catalog.SinkVersionNotFound), handle: a.rollbackSink,
		},
		{
			method: http.MethodGet, path: "/v1/tasks/{taskId...}", id: "getTask", summary: "Read a task",
			access: member, status: http.StatusOK, answer: taskBody{}, codes: []catalog.Code{catalog.TaskNotFound}, handle: a.getTask,
		},
		{
			method: http.MethodGet, path: branchPath + "/aggregation/sources", id: "aggregateSources", summary: "List the sources with their sinks and statistics",
			access: member, query: pageParameters, status: http.StatusOK, answer: aggregationBody{}, handle: a.aggregate,
		},
	}
}
