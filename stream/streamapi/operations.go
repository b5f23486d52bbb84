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
	filePath   = sinkPath + "/files/{fileId}"
	totalPath  = sinkPath + "/statistics/total"
	filesPath  = sinkPath + "/statistics/files"
	taskPath   = "/v1/tasks/{taskId...}"
	failedPath = branchPath + "/failed-files"

	erasePath   = branchPath + "/erase"
	damagesPath = branchPath + "/damage"
	damagePath  = damagesPath + "/{damageId}"

	rejectsPath  = sinkPath + "/quarantine"
	rejectedPath = rejectsPath + "/{recordId}"
	archivePath  = sinkPath + "/archive"
	shadowPath   = sinkPath + "/shadow"
)

// operations is the whole API. Routing, checks, description and tests are made of it.
func (a *api) operations() []operation {
	const (
		get    = http.MethodGet
		post   = http.MethodPost
		put    = http.MethodPut
		patch  = http.MethodPatch
		remove = http.MethodDelete
	)
	source := []catalog.Code{catalog.SourceNotFound}
	sink := []catalog.Code{catalog.SourceNotFound, catalog.SinkNotFound}
	file := append(slices.Clip(sink), catalog.FileNotFound)
	and := func(codes []catalog.Code, more ...catalog.Code) []catalog.Code {
		return append(slices.Clip(codes), more...)
	}

	// read is for every member. It changes nothing.
	read := func(path, id, summary string, answer any, codes []catalog.Code, handle func(*request) (any, error), query ...parameter) operation {
		return operation{
			method: get, path: path, id: id, summary: summary, access: member, query: query,
			status: http.StatusOK, result: answer, codes: codes, handle: handle,
		}
	}
	// task starts a task, do changes something at once. One change of a source or sink excludes others, which get Busy.
	task := func(method, path, id, summary string, body any, codes []catalog.Code, handle func(*request) (any, error), query ...parameter) operation {
		return operation{
			method: method, path: path, id: id, summary: summary, access: admin, query: query, body: body,
			status: http.StatusAccepted, result: taskBody{}, codes: and(codes, catalog.Busy), handle: handle,
		}
	}
	do := func(method, path, id, summary string, codes []catalog.Code, handle func(*request) (any, error)) operation {
		return operation{method: method, path: path, id: id, summary: summary, access: admin, status: http.StatusOK, codes: codes, handle: handle}
	}

	cascade := parameter{name: "cascade", doc: "Erase the source with its sinks, versions, waiting rows, tables and raw records.", schema: false}
	signal := parameter{
		name: "signal", doc: "Signal of the sample, for an OTLP source: its sample is one flat record in JSON, not an export request. Default: logs.",
		schema: "", enum: []string{"logs", "metrics", "traces"},
	}
	overlap := parameter{
		name: overlapParameter, doc: fmt.Sprintf("How long the old secret is accepted in addition to the new one, for example 30m or 24h; at most %s. Default: not at all. "+
			"A secret that is older ends at once in either case.", catalog.MaxSecretOverlap), schema: "", check: checkOverlap,
	}
	revision := parameter{name: revisionParameter, doc: "Revision of the record that was read; required.", schema: 0}
	failed := parameter{name: "failedFiles", doc: "Only files whose import has failed and not succeeded yet.", schema: false}

	// Reading the content of a record is not for every member, because it is what senders have sent.
	record := append(slices.Clip(sink), catalog.RecordNotFound)
	content := read(rejectedPath, "getRejectedRecord", "Read a rejected record with its request and body", rejectedContent{}, record, a.getRejected)
	content.access = admin
	try := do(post, rejectedPath+"/test", "testRejectedRecord", "Map a rejected record by the columns of now and store nothing", and(record, catalog.SinkDisabled), a.testRejected)
	try.result = rejectedTest{}
	edit := do(put, rejectedPath+"/body", "editRejectedRecord", "Give a rejected record another body, which a replay maps; the first body is kept too",
		and(record, catalog.RecordChanged), a.editRejected)
	edit.raw, edit.query, edit.result = true, []parameter{revision}, rejectedContent{}
	replay := do(post, rejectedPath+"/replay", "replayRejectedRecord", "Map a rejected record by the columns of now and make it a row, exactly once",
		and(record, catalog.SinkDisabled), a.replayRejected)
	replay.result = rejectsResult{}

	discard := do(remove, rejectedPath, "discardRejectedRecord", "Delete a rejected record for good", record, a.discardRejected)
	discard.query = []parameter{{name: reasonParameter, doc: "Why it is discarded, for people: the log has it.", schema: ""}}

	cancelRejects := do(remove, rejectsPath+"/replay", "cancelRejectsReplay",
		"End the replay of rejected records that runs for a sink, or read the last replay; replayed records stay replayed, the rest stays in the quarantine",
		and(sink, catalog.TaskNotFound), a.cancelRejects)
	cancelRejects.result = taskBody{}

	cancel := do(remove, archivePath+"/replay", "cancelReplay", "End the replay of archived records that runs for a sink; stored rows stay",
		and(sink, catalog.TaskNotFound), a.cancelReplay)
	cancel.result = taskBody{}

	// The report has cells of records.
	startShadow := do(post, shadowPath, "startShadow", "Try other columns of a sink together with its own on the records that arrive, and store nothing",
		and(sink, catalog.SinkDisabled, catalog.ShadowRuns, catalog.ShadowLimit), a.startShadow)
	startShadow.body, startShadow.result = &shadowStart{}, shadowBody{}
	report := read(shadowPath, "getShadow", "Read what the last shadow of a sink has found so far", shadowBody{}, and(sink, catalog.ShadowNotFound), a.getShadow)
	report.access = admin
	endShadow := do(remove, shadowPath, "endShadow", "End the shadow of a sink and read its last report", and(sink, catalog.ShadowNotFound), a.endShadow)
	endShadow.result = shadowBody{}

	// The reason of damage may quote errors and paths of the server.
	damages := read(damagesPath, "listDamage", "List the records of damage of the server that responds: rows that its disk has lost", damagesBody{}, nil, a.listDamage)
	damages.access = admin

	erase := do(post, erasePath, "eraseRecords", "Erase the records of a person where the server that responds keeps them, and report the data that remains elsewhere",
		[]catalog.Code{catalog.BadRequest, catalog.SourceNotFound, catalog.Busy}, a.erase)
	erase.body, erase.result, erase.slow = &eraseRequest{}, eraseBody{}, true

	index := read("/v1", "apiIndex", "Index of the API", indexBody{}, nil, a.index)
	index.access = open
	test := read(sourcePath+"/test", "testSource", "Render a sample by all sinks and store nothing", testBody{}, source, a.testSource, signal)
	test.method, test.raw = post, true
	rotate := do(post, sourcePath+"/rotate-secret", "rotateSecret", "Give a source a new secret; the old one ends at once, or after the overlap",
		and(source, catalog.Busy), a.rotateSecret)
	rotate.query, rotate.result = []parameter{overlap}, sourceBody{}

	return []operation{
		index,
		task(post, branchPath+"/sources", "createSource", "Create a source, with its sinks if there are any", &sourceCreate{},
			[]catalog.Code{catalog.SourceAlreadyExists, catalog.SourceLimit, catalog.SinkAlreadyExists}, a.createSource),
		read(branchPath+"/sources", "listSources", "List the sources", sourcesBody{}, nil, a.listSources(false), pageParameters...),
		read(branchPath+"/sources/deleted", "listDeletedSources", "List the deleted sources", sourcesBody{}, nil, a.listSources(true), pageParameters...),
		read(sourcePath, "getSource", "Read a source", sourceBody{}, source, a.getSource),
		task(patch, sourcePath, "updateSource", "Change the name, description or type of a source", &sourceUpdate{}, source, a.updateSource),
		task(remove, sourcePath, "deleteSource", "Delete a source and its sinks", nil, source, a.deleteSource, cascade),
		read(sourcePath+"/settings", "getSourceSettings", "Read the settings of a source", settingsBody{}, source, a.settings),
		task(patch, sourcePath+"/settings", "updateSourceSettings", "Change settings of a source; reading them lists the keys",
			&settingsUpdate{}, and(source, catalog.Forbidden), a.updateSettings),
		test,
		do(remove, sourcePath+"/statistics/clear", "clearSourceStatistics", "Start the statistics of all sinks anew", and(source, catalog.Busy), a.clear),
		do(post, sourcePath+"/retry", "retrySource", "Repeat all failed steps of the sinks of a source at once", source, a.retry),
		task(put, sourcePath+"/disable", "disableSource", "Refuse events for a source", nil, source, a.change(a.cat.Disable)),
		task(put, sourcePath+"/enable", "enableSource", "Accept events for a source again", nil, source, a.change(a.cat.Enable)),
		rotate,
		task(put, sourcePath+"/undelete", "undeleteSource", "Bring a deleted source back", nil,
			[]catalog.Code{catalog.DeletedSourceNotFound, catalog.SourceLimit}, a.change(a.cat.Undelete)),
		read(sourcePath+"/versions", "listSourceVersions", "List the versions of a source", versionsBody{}, source, a.versions, pageParameters...),
		read(sourcePath+"/versions/{versionNumber}", "getSourceVersion", "Read a version of a source with its content",
			versionBody{}, and(source, catalog.SourceVersionNotFound), a.version),
		task(put, sourcePath+"/versions/{versionNumber}/rollback", "rollbackSource", "Make an old version of a source the newest", nil,
			and(source, catalog.SourceVersionNotFound), a.rollback),

		task(post, sourcePath+"/sinks", "createSink", "Create a sink", &sinkCreate{},
			and(source, catalog.SinkAlreadyExists, catalog.SinkLimit), a.createSink),
		read(sourcePath+"/sinks", "listSinks", "List the sinks of a source", sinksBody{}, source, a.listSinks(false), pageParameters...),
		read(sourcePath+"/sinks/deleted", "listDeletedSinks", "List the deleted sinks of a source", sinksBody{}, source, a.listSinks(true), pageParameters...),
		read(sinkPath, "getSink", "Read a sink", sinkBody{}, sink, a.getSink),
		task(patch, sinkPath, "updateSink", "Change a sink", &sinkUpdate{}, sink, a.updateSink),
		task(remove, sinkPath, "deleteSink", "Delete a sink", nil, sink, a.change(a.cat.Delete)),
		read(sinkPath+"/settings", "getSinkSettings", "Read the settings of a sink", settingsBody{}, sink, a.settings),
		task(patch, sinkPath+"/settings", "updateSinkSettings", "Change settings of a sink; reading them lists the keys",
			&settingsUpdate{}, and(sink, catalog.Forbidden), a.updateSettings),
		read(totalPath, "sinkStatisticsTotal", "Counters of a sink", totalBody{}, sink, a.sinkTotal),
		read(filesPath, "sinkStatisticsFiles", "Files of a sink", filesBody{}, sink, a.sinkFiles, failed),
		read(failedPath, "listFailedFiles", "List the files of all sinks whose last attempt has failed, of the server that responds", failedFilesBody{}, source, a.failedFiles,
			parameter{name: "sourceId", doc: "Only files of this source. Default: all.", schema: ""},
			parameter{name: "afterId", doc: "The nextId of the page before. Default: the first page.", schema: ""}),
		do(remove, sinkPath+"/statistics/clear", "clearSinkStatistics", "Start the statistics of a sink anew", and(sink, catalog.Busy), a.clear),
		do(post, sinkPath+"/retry", "retrySink", "Repeat all failed steps of a sink at once, after the cause was fixed", sink, a.retry),
		do(post, filePath+"/retry", "retryFile", "Repeat the failed step of a file at once, after the cause was fixed", file, a.retryFile),
		do(remove, filePath, "discardFile", "Give up a file that is not in its table; its rows are lost", and(file, catalog.ImportRuns), a.discardFile),
		do(post, filePath+"/split", "splitFile", "Import a file that is held without the rows that the target refuses, although the cause is probably not in the rows",
			and(file, catalog.FileNotHeld), a.splitFile),
		do(post, filePath+"/quarantine", "quarantineFile", "Move the rows of a file that are not in its table to the quarantine of the sink",
			and(file, catalog.FileNotHeld, catalog.QuarantineFull), a.quarantineFile),
		read(rejectsPath, "listRejectedRecords", "List the records that a sink has rejected and kept, without their content", rejectsBody{}, sink, a.listRejected,
			append(slices.Clip(pageParameters), rejectsParameters...)...),
		content, try, edit, replay,
		discard,
		task(post, rejectsPath+"/replay", "replayRejectedRecords", "Replay a selection of rejected records, or all, each exactly once", &rejectsSelection{},
			and(sink, catalog.SinkDisabled), a.replaySelected),
		cancelRejects,
		task(post, rejectsPath+"/discard", "discardRejectedRecords", "Delete a selection of rejected records, or all, for good", &rejectsDiscard{},
			sink, a.discardSelected),
		task(post, archivePath+"/replay", "replayArchive", "Map archived raw records by the columns of now and make them rows, each once for each run", &replayBody{},
			and(sink, catalog.SinkDisabled), a.replayArchive),
		cancel,
		read(archivePath+"/runs", "listReplays", "List the replays that a sink remembers, the last 16", replaysBody{}, sink, a.listReplays),
		startShadow, report, endShadow,
		erase,
		damages,
		do(remove, damagePath, "forgetDamage", "Remove a record of damage that was read, so that its alert ends; the counters keep its rows", []catalog.Code{catalog.DamageNotFound}, a.forgetDamage),
		task(put, sinkPath+"/disable", "disableSink", "Stop a sink from taking events", nil, sink, a.change(a.cat.Disable)),
		task(put, sinkPath+"/enable", "enableSink", "Let a sink accept events again", nil, sink, a.change(a.cat.Enable)),
		task(put, sinkPath+"/copies/{copyId}/switch", "switchSink", "Give a sink the table of another sink of the source and delete that one, in one change", nil,
			and(sink, catalog.SinkDisabled), a.switchSink),
		task(put, sinkPath+"/undelete", "undeleteSink", "Bring a deleted sink back", nil,
			and(source, catalog.DeletedSinkNotFound, catalog.SinkLimit), a.change(a.cat.Undelete)),
		read(sinkPath+"/versions", "listSinkVersions", "List the versions of a sink", versionsBody{}, sink, a.versions, pageParameters...),
		read(sinkPath+"/versions/{versionNumber}", "getSinkVersion", "Read a version of a sink with its content",
			versionBody{}, and(sink, catalog.SinkVersionNotFound), a.version),
		task(put, sinkPath+"/versions/{versionNumber}/rollback", "rollbackSink", "Make an old version of a sink the newest", nil,
			and(sink, catalog.SinkVersionNotFound), a.rollback),
		read(taskPath, "getTask", "Read a task", taskBody{}, []catalog.Code{catalog.TaskNotFound}, a.getTask),
		read(branchPath+"/aggregation/sources", "aggregateSources", "List the sources with their sinks and statistics",
			aggregationBody{}, nil, a.aggregate, pageParameters...),
	}
}
