package streamapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// sample gives every operation a body that is right.
func sample(op *operation) string {
	switch op.body.(type) {
	case *sourceCreate:
		return `{"type":"http","name":"Another"}`
	case *sourceUpdate, *sinkUpdate:
		return `{"description":"changed"}`
	case *sinkCreate:
		return strings.Replace(webSink, `"Events"`, `"Another"`, 1)
	case *settingsUpdate:
		return `{"settings":[{"key":"storage.level.local.encoding.sync.wait","value":false}]}`
	case *rejectsSelection, *rejectsDiscard:
		return `{"all":true}`
	case *replayBody:
		return `{"run":"sample"}`
	case *eraseRequest:
		return `{"text":"not there"}`
	case *shadowStart:
		return `{"mapping":{"columns":[{"type":"body","name":"body"}]}}`
	}
	return ""
}

// pathOf fills the placeholders of an operation's path.
func pathOf(op *operation, branch, source, sink, version, task string) string {
	path := strings.NewReplacer("{branchId}", branch, "{sourceId}", source, "{sinkId}", sink, "{versionNumber}", version, "{taskId...}", task,
		"{fileId}", "none", "{recordId}", "none", "{copyId}", "copy").Replace(op.path)
	if len(op.query) > 0 && op.query[0].name == revisionParameter {
		path += "?" + revisionParameter + "=0"
	}
	return path
}

// TestEveryOperation sends to each operation a request that succeeds and every kind that must not.
func TestEveryOperation(t *testing.T) {
	const maxRow = 10_000
	s := newService(t, serviceOptions{engine: forebay.Options{Target: refusing(), MaxRowBytes: maxRow, Archive: dir.Archive(t.TempDir(), dir.ArchiveOptions{})}})
	s.done("POST", b+"/sources", strings.Replace(webSource, `{"type":"table"`, `{"onReject":"quarantine","type":"table"`, 1))
	s.done("POST", b+"/sources", `{"type":"http","name":"Gone","sinks":[`+strings.Replace(webSink, "in.c-web.", "in.c-gone.", 1)+`]}`)
	s.done("DELETE", b+"/sources/gone", "")
	task := s.done("POST", b+"/sources", `{"type":"otlp","name":"Telemetry"}`).body["taskId"].(string)

	for _, op := range s.api.operations() {
		t.Run(op.id, func(t *testing.T) {
			s.t = t
			right := pathOf(&op, "default", "web", "events", "1", task)
			body := sample(&op)
			var undelete bool
			switch op.id {
			case "undeleteSource":
				right, undelete = pathOf(&op, "default", "gone", "", "", ""), true
			case "undeleteSink":
				s.done("DELETE", b+"/sources/web/sinks/events", "")
				undelete = true
			case "switchSink":
				s.want(404, "stream.api.sinkNotFound", testToken, op.method, right, "")
				s.done("POST", b+"/sources/web/sinks", strings.NewReplacer(`"name":"Events"`, `"name":"Copy"`, "in.c-web.events", "in.c-web.copy").Replace(webSink))
			case "discardFile", "retryFile":
				s.want(404, "stream.api.fileNotFound", testToken, op.method, right, "")
				right = strings.Replace(right, "none", s.waitingFile("web", "events"), 1)
			case "splitFile", "quarantineFile":
				s.want(404, "stream.api.fileNotFound", testToken, op.method, right, "")
				s.want(409, "stream.api.fileIsNotHeld", testToken, op.method, strings.Replace(right, "none", s.waitingFile("web", "events"), 1), "")
				right = strings.Replace(right, "none", s.heldFile("web", "events", 16), 1)
			case "getShadow", "endShadow":
				if _, err := s.cat.Handle("web", "events").ShadowReport(); err != nil {
					s.want(404, "stream.api.shadowNotFound", testToken, op.method, right, "")
					s.want(200, "", testToken, "POST", right, sample(&operation{body: &shadowStart{}}))
				}
			case "cancelRejectsReplay":
				if len(s.cat.Tasks()) == 0 || s.do(testToken, op.method, right, "").status == 404 {
					s.done("POST", right, `{"all":true}`)
				}
			case "replayArchive":
				s.done("PATCH", b+"/sources/web/settings", archiveOn)
			case "cancelReplay":
				s.want(404, "stream.api.taskNotFound", testToken, op.method, right, "")
				s.slowReplay("web", "events")
			case "getRejectedRecord", "testRejectedRecord", "editRejectedRecord", "replayRejectedRecord", "discardRejectedRecord":
				s.want(404, "stream.api.recordNotFound", testToken, op.method, right, "")
				_, address := s.secretOf("web")
				s.send(address, strings.Repeat("x", maxRow))
				list, err := s.cat.Handle("web", "events").Rejected(t.Context(), forebay.RejectedFilter{}, 100)
				if err != nil || len(list.Records) == 0 {
					t.Fatalf("got %+v, %v, want no error and len(list.Records) != 0", list, err)
				}
				// A row that the target refuses in the background is a record without a body.
				records := slices.DeleteFunc(list.Records, func(r forebay.RejectedRecord) bool { return r.Poison != nil })
				right = strings.Replace(right, "none", records[len(records)-1].ID, 1)
			}
			if op.access != open {
				s.want(400, "stream.api.missingField", "", op.method, right, body)
				s.want(401, "storage.tokenInvalid", "wrong", op.method, right, body)
				s.want(401, "storage.tokenInvalid", foreignToken, op.method, right, body)
				s.want(401, "stream.api.masterTokenRequired", limitedToken, op.method, right, body)
				if a := s.want(500, "stream.api.internalError", "broken", op.method, right, body); a.body["exceptionId"] != "stream-"+a.header.Get("X-Request-Id") {
					t.Errorf("exception id is %v", a.body["exceptionId"])
				}
			}
			if op.access != open {
				if a := s.want(503, "stream.api.unavailable", "away", op.method, right, body); a.header.Get("Retry-After") != "2" || strings.Contains(a.text, "reached") {
					t.Errorf("Retry-After %q, %s", a.header.Get("Retry-After"), a.text)
				}
			}
			if strings.Contains(op.path, "{branchId}") {
				s.want(400, "stream.api.badRequest", testToken, op.method, pathOf(&op, "12", "web", "events", "1", ""), body)
				s.want(400, "stream.api.badRequest", testToken, op.method, pathOf(&op, "main", "web", "events", "1", ""), body)
				s.want(400, "stream.api.badRequest", testToken, op.method, pathOf(&op, "+3", "web", "events", "1", ""), body)
			}
			switch op.access {
			case admin:
				s.want(403, "stream.api.forbidden", readerToken, op.method, right, body)
			case member:
				s.want(200, "", readerToken, op.method, right, body)
			}
			if strings.Contains(op.path, "{sourceId}") {
				name := "stream.api.sourceNotFound"
				if op.id == "undeleteSource" {
					name = "stream.api.deletedSourceNotFound"
				}
				s.want(404, name, testToken, op.method, pathOf(&op, "3", "nobody", "events", "1", ""), body)
				if !undelete {
					s.want(404, name, testToken, op.method, pathOf(&op, "3", "gone", "events", "1", ""), body)
				}
				s.want(400, "stream.api.invalidLength", testToken, op.method, pathOf(&op, "3", strings.Repeat("x", 49), "events", "1", ""), body)
			}
			if strings.Contains(op.path, "{sinkId}") {
				name := "stream.api.sinkNotFound"
				if op.id == "undeleteSink" {
					name = "stream.api.deletedSinkNotFound"
				}
				s.want(404, name, testToken, op.method, pathOf(&op, "3", "web", "nobody", "1", ""), body)
			}
			if strings.Contains(op.path, "{versionNumber}") {
				name := "stream.api.sourceVersionNotFound"
				if strings.Contains(op.path, "{sinkId}") {
					name = "stream.api.sinkVersionNotFound"
				}
				if a := s.want(404, name, testToken, op.method, pathOf(&op, "3", "web", "events", "99", ""), body); !strings.Contains(a.text, "0000000099") {
					t.Errorf("message is %v", a.body["message"])
				}
				s.want(400, "stream.api.invalidRange", testToken, op.method, pathOf(&op, "3", "web", "events", "0", ""), body)
				s.want(400, "stream.api.invalidFieldType", testToken, op.method, pathOf(&op, "3", "web", "events", "x", ""), body)
			}
			if a := s.want(400, "stream.api.badRequest", testToken, op.method, withParameter(right, "surprise=1"), body); !strings.Contains(a.text, `\"surprise\"`) {
				t.Errorf("an unknown parameter is answered %s, want its name", a.text)
			}
			if op.body != nil {
				s.wantUnknownMembers(op.method, right, body)
			}
			if op.body != nil {
				s.want(400, "stream.api.missingPayload", testToken, op.method, right, "")
				s.want(400, "stream.api.decodePayload", testToken, op.method, right, `{"name":`)
				s.want(400, "stream.api.decodePayload", testToken, op.method, right, body+"{}")
				s.want(400, "stream.api.invalidFieldType", testToken, op.method, right, `[]`)
				s.want(413, "stream.api.bodyTooLarge", testToken, op.method, right, `{"name":"`+strings.Repeat("x", maxBody)+`"}`)
			}
			if op.pages() {
				s.want(400, "stream.api.invalidRange", testToken, op.method, right+"?limit=0", "")
				s.want(400, "stream.api.invalidRange", testToken, op.method, right+"?limit=101", "")
				s.want(400, "stream.api.invalidFieldType", testToken, op.method, right+"?limit=ten", "")
			}
			switch {
			case op.id == "forgetDamage": // the disk has lost nothing
				s.want(404, "stream.api.damageNotFound", testToken, op.method, right, body)
			case op.status == http.StatusAccepted:
				s.done(op.method, right, body)
			default:
				s.want(op.status, "", testToken, op.method, right, body)
			}
			switch op.id { // put back what later operations need
			case "deleteSource":
				s.done("PUT", b+"/sources/web/undelete", "")
			case "deleteSink":
				s.done("PUT", b+"/sources/web/sinks/events/undelete", "")
			case "undeleteSource":
				s.done("DELETE", b+"/sources/gone", "")
			case "disableSource":
				s.done("PUT", b+"/sources/web/enable", "")
			}
		})
	}
	s.t = t
}

func withParameter(path, parameter string) string {
	if strings.Contains(path, "?") {
		return path + "&" + parameter
	}
	return path + "?" + parameter
}

// wantUnknownMembers sends a body with a member that no schema has, once in each of its objects.
func (s *service) wantUnknownMembers(method, path, body string) {
	s.t.Helper()
	for at := range len(body) {
		if body[at] != '{' {
			continue
		}
		added := body[:at+1] + `"surprise":1,` + body[at+1:]
		if strings.HasPrefix(strings.TrimSpace(body[at+1:]), "}") {
			added = body[:at+1] + `"surprise":1` + body[at+1:]
		}
		if !json.Valid([]byte(added)) {
			continue // the brace is inside of a text
		}
		if a := s.want(400, "", testToken, method, path, added); !strings.Contains(a.text, "surprise") {
			s.t.Errorf("%s %s with %s is answered %s, want an error that names the member", method, path, added, a.text)
		}
	}
}

func TestRequestChecks(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.done("POST", b+"/sources", webSource)
	sink := func(columns string) string {
		return `{"type":"table","name":"New","table":{"type":"` + DefaultTableType + `","tableId":"in.c-web.new","mapping":{"columns":` + columns + `}}}`
	}
	const id = `{"type":"uuid","name":"id"}`
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		error, message           string
	}{
		{"all problems at once", "POST", "/sources", `{"type":"mqtt","description":5}`, 400, "invalidFieldType", "body.description: expected string; body.name is missing, add it; body.type"},
		{
			"all faults of a sink at once", "POST", "/sources/web/sinks", `{"type":"table","name":"a\u0000b","description":"\u0001","table":{"type":"other","tableId":"in.web","mapping":{"columns":[` +
				id + `,` + id + `,{"type":"path","name":"p"},{"type":"template","name":"t"},{"type":"template","name":"u","template":{"language":"jsonnet","content":"1 +"}}]}}}`, 400, "invalidEnumValue",
			`body.table.type must be "` + DefaultTableType + `" but got "other"; body.table.mapping.columns[2].path is missing, add it; body.table.mapping.columns[3].template is missing, add it; ` +
				`name has the control character U+0000, which is not allowed; description has the control character U+0001, which is not allowed; ` +
				`table.tableId is "in.web", must have three parts with dots between: stage.bucket.table; `,
		},
		{"all faults of a sink, its columns", "POST", "/sources/web/sinks", strings.Replace(sink(`[`+id+`,`+id+`,{"type":"template","name":"u","template":{"language":"jsonnet","content":"1 +"}}]`), "in.c-web.new", "new", 1), 400, "badRequest", `stage.bucket.table; mapping: column 2 ("id"): name: column 1 has the same name; names are unique in a mapping; mapping: column 3 ("u"): template.content:1:4`},
		{"all faults of a sink that exists", "PATCH", "/sources/web/sinks/events", `{"name":" ","changeDescription":"\u0000","table":{"type":"other","tableId":"x","mapping":{"columns":[{"type":"path","name":"p"}]}}}`, 400, "invalidEnumValue", `but got "other"; body.table.mapping.columns[0].path is missing, add it; name is blank, must have a character that can be seen; table.tableId is "x", must have three parts`},
		{"all faults of the sinks of a source", "POST", "/sources", `{"type":"http","name":"\u0000a","sinks":[` + strings.Replace(sink("["+id+"]"), "in.c-web.new", "new", 1) + `,` + strings.Replace(sink("["+id+"]"), DefaultTableType, "other", 1) + `,` + sink("["+id+","+id+"]") + `]}`, 400, "invalidEnumValue", `body.sinks[1].table.type must be "` + DefaultTableType + `" but got "other"; name has the control character U+0000, which is not allowed; Sink 0: table.tableId is "new"`},
		{"all faults of a source", "PATCH", "/sources/web", `{"name":" ","description":"\u0001","changeDescription":"\u0002"}`, 400, "badRequest", "name is blank, must have a character that can be seen; description has the control character U+0001, which is not allowed; changeDescription has the control character U+0002"},
		{"faults of a sink of no source", "POST", "/sources/none/sinks", strings.Replace(sink("["+id+"]"), "in.c-web.new", "new", 1), 404, "sourceNotFound", "none"},
		{"sink without a table", "POST", "/sources/web/sinks", `{"type":"table","name":"x"}`, 400, "badRequest", "body.table is missing, add it"},
		{"sinks without a table", "POST", "/sources", `{"type":"http","name":"x","sinks":[{"type":"table","name":"x"},{"type":"table","name":"y"}]}`, 400, "badRequest", "body.sinks[0].table is missing, add it: a sink of type table needs it; body.sinks[1].table is missing, add it"},
		{"no type", "POST", "/sources", `{"name":"x"}`, 400, "missingField", "body.type is missing, add it"},
		{"unknown type", "POST", "/sources", `{"type":"mqtt","name":"x"}`, 400, "invalidEnumValue", "body.type"},
		{"long name", "POST", "/sources", `{"type":"http","name":"` + strings.Repeat("x", 41) + `"}`, 400, "invalidLength", "body.name"},
		{"empty name", "POST", "/sources", `{"type":"http","name":""}`, 400, "invalidLength", "body.name"},
		{"long id", "POST", "/sources", `{"type":"http","name":"x","sourceId":"` + strings.Repeat("x", 49) + `"}`, 400, "invalidLength", "body.sourceId"},
		{"no id can be made", "POST", "/sources", `{"type":"http","name":"数据"}`, 400, "badRequest", "name"},
		{"reserved id", "POST", "/sources", `{"type":"http","name":"Deleted"}`, 400, "badRequest", "reserved"},
		{"source exists", "POST", "/sources", `{"type":"http","name":"WEB"}`, 409, "sourceAlreadyExists", `"web"`},
		{"unknown member", "PATCH", "/sources/web", `{"colour":"red"}`, 400, "badRequest", "body.colour: unexpected property"},
		{"unknown member of a filter", "POST", "/sources/web/sinks/events/quarantine/discard", `{"filter":{"reason":"malformed","texts":"x1"}}`, 400, "badRequest", "body.filter.texts: unexpected property"},
		{"unknown parameter", "GET", "/sources/web/sinks/events/quarantine?colum=a", "", 400, "badRequest", "\"colum\""},
		{"bound of no record", "PATCH", "/sources/web/sinks/events", `{"quarantine":{"maxRecords":0}}`, 400, "invalidRange", "body.quarantine.maxRecords"},
		{"bound of no byte", "PATCH", "/sources/web/sinks/events", `{"quarantine":{"maxBytes":0}}`, 400, "invalidRange", "body.quarantine.maxBytes"},
		{"share of no record", "POST", "/sources/web/sinks/events/shadow", `{"sample":0,"mapping":{"columns":[` + id + `]}}`, 400, "invalidRange", "body.sample"},
		{"number above 64 bits", "PATCH", "/sources/web/sinks/events", `{"quarantine":{"maxBytes":1e30}}`, 400, "invalidFieldType", "body.quarantine.maxBytes: the value is out of range: number 1e30"},
		{"misspelt option of a column", "POST", "/sources/web/sinks", sink(`[` + id + `,{"type":"path","name":"x","path":"a","rawSring":true}]`), 400, "badRequest", "body.table.mapping.columns[1].rawSring: unexpected property"},
		{"misspelt option of a template", "POST", "/sources/web/sinks", sink(`[{"type":"template","name":"x","template":{"language":"jsonnet","content":"1","lang":""}}]`), 400, "badRequest", "columns[0].template.lang: unexpected property"},
		{"default of a template", "POST", "/sources/web/sinks", sink(`[{"type":"template","name":"x","defaultValue":"a","template":{"language":"jsonnet","content":"1"}}]`), 400, "badRequest", "defaultValue"},
		{"options of other types", "POST", "/sources/web/sinks", sink(`[{"type":"body","name":"x","path":"a","rawString":true},{"type":"uuid","name":"y","template":{"language":"jsonnet","content":"1"}}]`), 400, "badRequest", "column 2"},
		{"sink exists", "POST", "/sources/web/sinks", strings.Replace(sink("["+id+"]"), "New", "Events", 1), 409, "sinkAlreadyExists", `"events"`},
		{"table of another platform", "POST", "/sources/web/sinks", strings.Replace(sink("["+id+"]"), DefaultTableType, "other", 1), 400, "invalidEnumValue", "body.table.type"},
		{"bad table id", "POST", "/sources/web/sinks", strings.Replace(sink("["+id+"]"), "in.c-web.new", "in.new", 1), 400, "badRequest", "three parts"},
		{"no columns", "POST", "/sources/web/sinks", sink("[]"), 400, "invalidLength", "columns"},
		{"101 columns", "POST", "/sources/web/sinks", sink("[" + strings.Repeat(id+",", 100) + id + "]"), 400, "invalidLength", "columns"},
		{"column type", "POST", "/sources/web/sinks", sink(`[` + id + `,{"type":"xml","name":"x"}]`), 400, "invalidEnumValue", "body.table.mapping.columns[1].type"},
		{"path column without path", "POST", "/sources/web/sinks", sink(`[{"type":"path","name":"x"}]`), 400, "missingField", "columns[0].path is missing"},
		{"template column without template", "POST", "/sources/web/sinks", sink(`[{"type":"template","name":"x"}]`), 400, "missingField", "columns[0].template is missing"},
		{"template language", "POST", "/sources/web/sinks", sink(`[{"type":"template","name":"x","template":{"language":"lua","content":"1"}}]`), 400, "invalidEnumValue", "language"},
		{"long template", "POST", "/sources/web/sinks", sink(`[{"type":"template","name":"x","template":{"language":"jsonnet","content":"` + strings.Repeat("1", 4097) + `"}}]`), 400, "invalidLength", "content"},
		{"template syntax", "POST", "/sources/web/sinks", sink(`[{"type":"template","name":"x","template":{"language":"jsonnet","content":"1 +"}}]`), 400, "badRequest", "1:"},
		{"template variable", "POST", "/sources/web/sinks", sink(`[{"type":"template","name":"x","template":{"language":"jsonnet","content":"nobody"}}]`), 400, "badRequest", "nobody"},
		{"path syntax", "POST", "/sources/web/sinks", sink(`[{"type":"path","name":"x","path":"a[\"b"}]`), 400, "badRequest", "x"},
		{"column twice", "POST", "/sources/web/sinks", sink(`[` + id + `,` + id + `]`), 400, "badRequest", "id"},
		{"signal", "PATCH", "/sources/web/sinks/events", `{"allowedSignals":["smoke"]}`, 400, "invalidEnumValue", "allowedSignals"},
		{"table id alone", "PATCH", "/sources/web/sinks/events", `{"table":{"tableId":"in.c-web.other"}}`, 202, "", ""},
		{"unknown setting", "PATCH", "/sources/web/settings", `{"settings":[{"key":"nothing","value":1}]}`, 400, "badRequest", `"nothing"`},
		{"setting twice", "PATCH", "/sources/web/settings", `{"settings":[{"key":"` + count + `","value":1},{"key":"` + count + `","value":2}]}`, 400, "badRequest", "twice"},
		{"setting of another type", "PATCH", "/sources/web/settings", `{"settings":[{"key":"` + count + `","value":"5"}]}`, 400, "badRequest", "whole number"},
		{"setting without a value", "PATCH", "/sources/web/settings", `{"settings":[{"key":"` + count + `","valeu":5}]}`, 400, "missingField", "body.settings[0].value is missing, add it"},
		{"fraction", "PATCH", "/sources/web/settings", `{"settings":[{"key":"` + count + `","value":1.5}]}`, 400, "badRequest", "whole number"},
		{"count too small", "PATCH", "/sources/web/settings", `{"settings":[{"key":"` + count + `","value":0}]}`, 400, "badRequest", "out of range"},
		{"count negative", "PATCH", "/sources/web/settings", `{"settings":[{"key":"` + count + `","value":-1}]}`, 400, "badRequest", "out of range"},
		{"interval too long", "PATCH", "/sources/web/settings", `{"settings":[{"key":"storage.level.staging.upload.trigger.interval","value":"31m"}]}`, 400, "badRequest", "maxDuration=30m"},
		{"interval as number", "PATCH", "/sources/web/settings", `{"settings":[{"key":"storage.level.staging.upload.trigger.interval","value":30}]}`, 400, "badRequest", "text such as"},
		{"size too large", "PATCH", "/sources/web/settings", `{"settings":[{"key":"storage.level.staging.upload.trigger.size","value":"51MB"}]}`, 400, "badRequest", "out of range"},
		{"size with fraction", "PATCH", "/sources/web/settings", `{"settings":[{"key":"storage.level.staging.upload.trigger.size","value":"1.5MB"}]}`, 400, "badRequest", "not a size"},
		{"size as number", "PATCH", "/sources/web/settings", `{"settings":[{"key":"storage.level.staging.upload.trigger.size","value":2048}]}`, 202, "", ""},
		{"size with blank", "PATCH", "/sources/web/settings", `{"settings":[{"key":"storage.level.staging.upload.trigger.size","value":"12 mb"}]}`, 202, "", ""},
		{"protected setting", "PATCH", "/sources/web/settings", `{"settings":[{"key":"storage.level.local.encoding.compression.type","value":"none"}]}`, 403, "forbidden", "compression.type"},
		{"no settings", "PATCH", "/sources/web/settings", `{}`, 202, "", ""},
		{"not UTF-8", "POST", "/sources", "{\"type\":\"http\",\"name\":\"a\xff\"}", 400, "decodePayload", "UTF-8"},
		{"malformed query", "GET", "/sources?%zz", "", 400, "badRequest", "the query"},
		{"second mapping of another case", "PATCH", "/sources/web/sinks/events", `{"table":{"mapping":{"columns":[` + id + `],"COLUMNS":[` + strings.Repeat(id+",", 100) + id + `]}}}`, 202, "", ""},
		{"second type of another case", "PATCH", "/sources/web", `{"type":"http","TYPE":"mqtt"}`, 202, "", ""},
		{"only in another case", "PATCH", "/sources/web", `{"Type":"mqtt"}`, 400, "invalidEnumValue", "body.type"},
		{"table twice", "POST", "/sources/web/sinks", `{"type":"table","name":"Twice","table":{"type":"` + DefaultTableType + `","tableId":"in.c-web.new"},"table":{"mapping":{"columns":[` + id + `]}}}`, 400, "missingField", "body.table.tableId is missing, add it"},
		{"blank name", "POST", "/sources", `{"type":"http","name":" \u00a0\u200b ","sourceId":"x"}`, 400, "badRequest", "name is blank"},
		{"name with NUL", "POST", "/sources", `{"type":"http","name":"a\u0000b"}`, 400, "badRequest", "name has the control character U+0000"},
		{"name of two lines", "PATCH", "/sources/web", `{"name":"a\nb"}`, 400, "badRequest", "name has the control character U+000A"},
		{"description with escape", "PATCH", "/sources/web", `{"description":"a\u001bb"}`, 400, "badRequest", "description has the control character U+001B"},
		{"description of two lines", "PATCH", "/sources/web", `{"description":"a\r\n\tb"}`, 202, "", ""},
		{"change description with NUL", "PATCH", "/sources/web", `{"name":"Web","changeDescription":"\u0000"}`, 400, "badRequest", "changeDescription has"},
		{"change description of settings with NUL", "PATCH", "/sources/web/settings", `{"changeDescription":"\u0000"}`, 400, "badRequest", "changeDescription has"},
		{"change description of a sink with NUL", "PATCH", "/sources/web/sinks/events", `{"changeDescription":"\u0000"}`, 400, "badRequest", "changeDescription has"},
		{"sink with a blank name", "PATCH", "/sources/web/sinks/events", `{"name":" "}`, 400, "badRequest", "name is blank"},
		{"table id with NUL", "PATCH", "/sources/web/sinks/events", `{"table":{"tableId":"in.c-web.a\u0000"}}`, 400, "badRequest", "table.tableId has the control character"},
		{"column with NUL", "POST", "/sources/web/sinks", sink(`[{"type":"uuid","name":"a\u0000"}]`), 400, "badRequest", "table.mapping.columns[0].name has"},
		{"limit with a sign", "GET", "/sources?limit=%2B5", "", 400, "invalidFieldType", "limit"},
		{"version with a sign", "GET", "/sources/web/versions/+1", "", 400, "invalidFieldType", "versionNumber"},
		{"cascade", "DELETE", "/sources/web?cascade=maybe", "", 400, "invalidFieldType", "cascade"},
		{"signal of a test", "POST", "/sources/web/test?signal=smoke", "", 400, "invalidEnumValue", "signal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.t = t
			name := ""
			if tt.error != "" {
				name = "stream.api." + tt.error
			}
			a := s.want(tt.status, name, testToken, tt.method, b+tt.path, tt.body)
			if message, _ := a.body["message"].(string); !strings.Contains(message, tt.message) {
				t.Errorf("message is %q, want %q in it", message, tt.message)
			}
			if id, ok := a.body["taskId"].(string); ok {
				if _, err := s.ended(id); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	s.t = t
}

const count = "storage.level.target.import.trigger.count"

func TestUnknownPaths(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.want(404, "stream.api.endpointNotFound", "", "GET", "/v2", "")
	s.want(404, "stream.api.endpointNotFound", testToken, "GET", b+"/sources/web/sinks/x/y/z", "")
	for _, path := range []string{"//v1", "/v1//branches/default/sources", b + "/./sources", b + "/sources/../sources", b + "/sources//", "/%2e%2e/v1", "//health-check", "/v1//documentation"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			s.want(404, "stream.api.endpointNotFound", testToken, method, path, "{}")
		}
	}
	s.want(404, "stream.api.endpointNotFound", testToken, "GET", b+"/sources/", "")
	for _, op := range s.api.operations() { // every beginning of a path, with and without a slash at its end
		path := pathOf(&op, "3", "web", "events", "1", "x/y")
		for i := 1; i < len(path); i++ {
			if path[i] != '/' {
				continue
			}
			for _, part := range []string{path[:i], path[:i+1]} {
				if a := s.do(testToken, "GET", part, ""); a.status >= 300 && a.status < 400 || a.header.Get("Location") != "" {
					t.Errorf("GET %s: status %d, Location %q", part, a.status, a.header.Get("Location"))
				}
			}
		}
	}
	if a := s.do(testToken, "PUT", b+"/sources", ""); a.status != 405 || a.at("error") != "stream.api.methodNotAllowed" || a.header.Get("Allow") != "GET, POST" {
		t.Errorf("another method: status %d, Allow %q, body %q", a.status, a.header.Get("Allow"), a.text)
	}
	if a := s.do("", "GET", "/", ""); a.status != 301 || a.header.Get("Location") != "/v1" {
		t.Errorf("root: status %d, Location %q", a.status, a.header.Get("Location"))
	}
	if a := s.do("", "GET", "/health-check", ""); a.status != 200 || a.text != "OK" || a.header.Get("Server") != "forebay/"+forebay.Version() {
		t.Errorf("health check: status %d, %q, Server %q, want forebay/%s", a.status, a.text, a.header.Get("Server"), forebay.Version())
	}
	if a := s.do("", "GET", "/readiness-check", ""); a.header.Get("Server") != "forebay/"+forebay.Version() {
		t.Errorf("readiness check: Server %q, want forebay/%s", a.header.Get("Server"), forebay.Version())
	}
	a := s.do("", "OPTIONS", b+"/sources/web", "")
	if methods := a.header.Get("Access-Control-Allow-Methods"); a.status != 200 || !strings.Contains(methods, "PUT") {
		t.Errorf("preflight: status %d, methods %q", a.status, methods)
	}
	for _, name := range []string{"Content-Type", "Authorization", tokenHeader, projectHeader} {
		if headers := a.header.Get("Access-Control-Allow-Headers"); !strings.Contains(headers, name) {
			t.Errorf("preflight: headers %q, want %s", headers, name)
		}
	}
	if id := a.header.Get("X-Request-Id"); len(id) != 15 {
		t.Errorf("request id is %q", id)
	}
}

func TestTokenForms(t *testing.T) {
	s := newService(t, serviceOptions{})
	for _, header := range []http.Header{
		{tokenHeader: {testToken}}, {tokenHeader: {"Bearer " + testToken}}, {"Authorization": {"Bearer " + testToken}}, {"Authorization": {"bearer " + testToken}},
	} {
		req, err := http.NewRequest("GET", s.server.URL+b+"/sources", nil)
		must(t, err)
		for name, values := range header {
			req.Header.Set(name, values[0])
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%v: status %d, want 200", header, resp.StatusCode)
		}
	}
	static := StaticToken("secret", 7)
	if _, err := static.Verify(t.Context(), "secre"); !errors.Is(err, invalidToken) {
		t.Errorf("a wrong token gives %v", err)
	}
	if who, err := static.Verify(t.Context(), "secret"); err != nil || who.ProjectID != 7 || !who.Admin {
		t.Errorf("the token gives %+v, %v", who, err)
	}
}

// TestLargeBodiesNeedAToken checks that a client without a valid token cannot have large bodies decoded, and that a fault in
// the form of a small one is reported before a fault of the token.
func TestLargeBodiesNeedAToken(t *testing.T) {
	s := newService(t, serviceOptions{})
	of := func(size int) string { return `{"x":"` + strings.Repeat("y", size) + `"}` }
	for _, tt := range []struct {
		token string
		size  int
		want  int
		name  string
	}{
		{"", 10, 400, "stream.api.missingField"},
		{"", maxUnverifiedBody, 400, "stream.api.missingField"},
		{"wrong", 10, 400, "stream.api.missingField"},
		{"wrong", maxUnverifiedBody, 401, "storage.tokenInvalid"},
		{limitedToken, maxUnverifiedBody, 401, "stream.api.masterTokenRequired"},
		{foreignToken, maxUnverifiedBody, 401, "storage.tokenInvalid"},
		{testToken, maxUnverifiedBody, 400, "stream.api.missingField"},
		{testToken, maxBody, 413, "stream.api.bodyTooLarge"},
	} {
		s.want(tt.want, tt.name, tt.token, "POST", b+"/sources", of(tt.size))
	}
	// The limit holds for the samples of the payload test too.
	s.want(401, "storage.tokenInvalid", "wrong", "POST", b+"/sources/web/test", of(maxUnverifiedBody))
}

// TestTableMismatch creates a sink whose table exists with other columns. The task fails and names the column.
func TestTableMismatch(t *testing.T) {
	mem := buffertest.NewMemory()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem}})
	must(t, mem.Ensure(t.Context(), driver.Table{ID: "in.c-web.events", Columns: datatype.UntypedColumns("id", "name", "body")}))
	a := s.task("POST", b+"/sources", webSource)
	if text, _ := a.body["error"].(string); a.body["status"] != "error" || !strings.Contains(text, "user") || a.body["outputs"] != nil {
		t.Fatalf("task is %s", a.text)
	}
	s.stop()
	s.start()
	a = s.get("/v1/tasks/" + a.body["taskId"].(string))
	if a.body["errorName"] != "stream.api.badRequest" || a.body["errorStatusCode"] != 400.0 {
		t.Errorf("after a restart the task is %s", a.text)
	}
	s.want(404, "stream.api.sourceNotFound", testToken, "GET", b+"/sources/web", "")
	if _, ok := s.eng.Source("web"); ok {
		t.Error("the engine has the source all the same")
	}
}

// tokens remembers the tokens that it made.
type tokens struct {
	live map[string]string // description and bucket by id
	made int
	fail error
}

func (k *tokens) CreateToken(_ context.Context, description, bucket string) (catalog.Token, error) {
	if k.fail != nil {
		return catalog.Token{}, k.fail
	}
	k.made++
	id := fmt.Sprint("t", k.made)
	k.live[id] = description + " " + bucket
	return catalog.Token{ID: id, Value: "value-" + id}, nil
}

func (k *tokens) DeleteToken(_ context.Context, id string) error {
	delete(k.live, id)
	return nil
}

func TestSinkTokens(t *testing.T) {
	k := &tokens{live: map[string]string{}}
	s := newService(t, serviceOptions{catalog: catalog.Options{Tokens: k}})
	sink := b + "/sources/web/sinks/events"
	current := func() string {
		token, _ := s.cat.Handle("web", "events").Token()
		return token.ID
	}
	s.done("POST", b+"/sources", webSource)
	if got := k.live[current()]; got != "[_internal] Stream Sink web/events in.c-web" {
		t.Fatalf("token is %q", got)
	}
	first := current()
	s.done("PATCH", sink, `{"description":"new"}`)
	if current() != first {
		t.Error("a change of the description has replaced the token")
	}
	s.done("PUT", sink+"/disable", "")
	s.done("PUT", sink+"/enable", "")
	if current() == first || current() == "" {
		t.Error("disable and enable have not replaced the token")
	}
	second := current()
	s.done("PATCH", sink, `{"table":{"tableId":"in.c-other.events"}}`)
	if current() == second || k.live[current()] != "[_internal] Stream Sink web/events in.c-other" {
		t.Errorf("another bucket: token is %q", k.live[current()])
	}
	for _, text := range []string{s.get(sink).text, s.get(sink + "/versions/1").text, s.get(b + "/aggregation/sources").text} {
		if strings.Contains(text, "value-") {
			t.Errorf("a token is shown: %s", text)
		}
	}
	k.fail = errors.New("no more tokens")
	if a := s.task("POST", b+"/sources", `{"type":"http","name":"Second","sinks":[`+webSink+`]}`); !strings.Contains(a.text, "no more tokens") || strings.Contains(a.text, "errorName") {
		t.Errorf("task is %s", a.text)
	}
	if ids := s.cat.Sources(false); slices.ContainsFunc(ids, func(s catalog.Source) bool { return s.ID == "second" }) {
		t.Error("the source was created without the token")
	}
}
