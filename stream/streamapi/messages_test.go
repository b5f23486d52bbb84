package streamapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/messagetest"
)

// Every mistake over HTTP, at the Stream API or with events, gets a message that names the thing, its place and the next step.
func TestMessagesOfMistakes(t *testing.T) {
	required := `{"type":"http","name":"Web","sinks":[{"type":"table","name":"Events","table":{"type":"` + DefaultTableType + `","tableId":"in.c-web.events","mapping":{"columns":[
		{"type":"path","name":"user","path":"user.id","dataType":"int64","required":true},{"type":"body","name":"body"}]}}}]}`
	s := newService(t, serviceOptions{auth: StaticToken(testToken, 7), engine: forebay.Options{MaxRowBytes: 500}})
	s.done("POST", b+"/sources", required)
	_, address := s.secretOf("web")
	events := strings.TrimPrefix(address, s.ingest.URL)
	s.done("POST", b+"/sources", strings.NewReplacer("Web", "Off", "in.c-web.", "in.c-off.").Replace(required))
	_, address = s.secretOf("off")
	disabled := strings.TrimPrefix(address, s.ingest.URL)
	s.done("PUT", b+"/sources/off/disable", "{}")
	for _, tt := range []struct {
		request           string // method, path, body
		status            int
		what, where, next string
	}{
		{`GET BRANCH/sources/nope`, 404, `not found`, `Source \"nope\"`, `List the sources`},
		{`GET BRANCH/sources/web/sinks/nope`, 404, `not found`, `Sink \"nope\" of source \"web\"`, `List the sinks`},
		{`GET BRANCH/sources/webWRONG`, 401, `Invalid Token`, `the header X-StorageApi-Token`, `send a valid token`},
		{`GET /v1/branches/zzz/sources`, 400, `\"zzz\"`, `branchId`, `must be a number`},
		{`GET BRANCH/nothing`, 404, `not found`, `/v1/branches/default/nothing`, `/v1/documentation describes all endpoints`},
		{`GET BRANCH/sources?limit=x`, 400, `\"x\"`, `limit`, `must be integer`},
		{`GET BRANCH/sources?limit=0`, 400, `expected number`, `limit`, `1`},
		{`GET BRANCH/sources?limt=5`, 400, `\"limt\"`, `listSources`, `it has afterId, limit`},
		{`GET /v1/tasks/nope`, 404, `not found`, `Task \"nope\"`, `Read the source or sink`},
		{`POST BRANCH/sources {`, 400, `it ends after 1 bytes`, `the body is not JSON`, `send a whole JSON object`},
		{`POST BRANCH/sources {"type":"http",}`, 400, `byte 16`, `the body is not JSON`, `send a JSON object`},
		{`POST BRANCH/sources []`, 400, `expected`, `body`, `object`},
		{`POST BRANCH/sources {"type":"http","name":5}`, 400, `expected`, `body.name`, `string`},
		{`POST BRANCH/sources {"type":"ftp","name":"a"}`, 400, `expected value`, `body.type`, `http, otlp`},
		{`POST BRANCH/sources {"type":"http","name":"a","nam":"b"}`, 400, `unexpected property`, `body.nam`, `remove it, or correct its name`},
		{`POST BRANCH/sources {"type":"http","name":"web","sourceId":"web"}`, 409, `already exists`, `Source \"web\"`, `Choose a different id`},
		{`POST BRANCH/sources/web/sinks {"type":"table","name":"x","table":{"type":"TYPE","tableId":"in.c-web.x","mapping":{"columns":[]}}}`, 400, `expected array length`, `body.table.mapping.columns`, `1`},
		{`POST BRANCH/sources/web/sinks {"type":"table","name":"x","table":{"type":"TYPE","tableId":"in.c-web.x","mapping":{"columns":[{"type":"pth","name":"a","path":"x"}]}}}`, 400, `expected value`, `body.table.mapping.columns[0].type`, `uuid, datetime, ip, body`},
		{`PATCH BRANCH/sources/web/sinks/events {"table":{"mapping":{"columns":[{"type":"body","name":"b"},{"type":"body","name":"b"}]}}}`, 400, `column 1 has the same name`, `column 2 (\"b\")`, `names are unique`},
		{`PATCH BRANCH/sources/web/settings {"settings":[{"key":"nope","value":1}]}`, 400, `is not a setting`, `\"nope\"`, `read the settings`},
		{`POST BRANCH/sources/web/sinks/events/files/nope/retry`, 404, `has no file \"nope\"`, `Sink \"events\" of source \"web\"`, `List the files again`},
		{`DELETE BRANCH/damage/nope`, 404, `no record of damage`, `\"nope\"`, `List the records of damage`},
		{`GET BRANCH/sources/web/sinks/events/quarantine/nope`, 404, `has no record \"nope\"`, `sink \"events\" of source \"web\"`, `List the quarantine`},
		{`GET BRANCH/sources/web/sinks/events/quarantine?since=yesterday`, 400, `\"yesterday\"`, `since`, `must be a time such as`},
		{`POST BRANCH/sources/web/sinks/events/quarantine/discard {}`, 400, `exactly one`, `body.recordIds, body.filter and body.all`, `must be given`},
		{`POST BRANCH/sources/web/sinks/events/archive/replay {"run":"r"}`, 202, `keeps no raw records`, `The server`, `Start it with -archive dir:FOLDER`},
		{`GET BRANCH/sources/web/sinks/events/shadow`, 404, `has had no shadow`, `Sink \"events\" of source \"web\"`, `Start one first`},
		{`GET BRANCH/sources/web/versions/99`, 404, `not found`, `Version \"0000000099\" of source \"web\"`, `List the versions`},
		{`POST EVENTS {"user":{}}`, 422, `has no member \"id\"`, `column \"user\": path \"user.id\"`, `is required`},
		{`POST EVENTS {"user":{"id":"x"}}`, 422, `\"x\" is not a number`, `column \"user\"`, `in decimal digits`},
		{`POST EVENTS FORM {"user":{"id":5}}`, 422, `read as a form`, `column \"user\"`, `send Content-Type: application/json`},
		{`POST EVENTS TEXT {"user":{"id":5}}`, 415, `has no fields`, `column \"user\"`, `send Content-Type: application/json`},
		{`POST EVENTS {"user":{"id":5},"long":"LONG"}`, 413, `the row has`, `sinkId": "events"`, `send a smaller record`},
		{`PATCH COLUMNS {"type":"template","name":"t","template":{"language":"jsonnet","content":"'a' + x"}}`, 400, `unknown variable: x`, `column 1 (\"t\"): template.content:1:7`, `write Body(\"x\")`},
		{`PATCH COLUMNS {"type":"template","name":"t","template":{"language":"jsonnet","content":"std.nope(1)"}}`, 400, `no member \"nope\"`, `column 1 (\"t\"): template.content:1:1`, `use a function of jsonnet`},
		{`PATCH COLUMNS {"type":"template","name":"t","template":{"language":"jsonnet","content":"import 'x'"}}`, 400, `import is not available`, `column 1 (\"t\"): template.content:1:1`, `write its content into the template`},
		{`PATCH COLUMNS {"type":"template","name":"t","template":{"language":"jsonnet","content":"Now('%Q')"}}`, 400, `'%Q' was not found`, `column 1 (\"t\"): template.content:1:1`, `such as %Y-%m-%d`},
		{`PATCH COLUMNS {"type":"path","name":"p","path":"a["}`, 400, `'[' without ']'`, `column 1 (\"p\"): path:2`, `write an index or a quoted key`},
		{`PATCH COLUMNS {"type":"path","name":"p","path":"a[b]"}`, 400, `no index or quoted key`, `column 1 (\"p\"): path:3`, `write an index or a quoted key`},
		{`PATCH COLUMNS {"type":"path","name":"p"}`, 400, `is missing`, `body.table.mapping.columns[0].path`, `add it`},
		{`PATCH COLUMNS {"type":"path","name":"","path":"a"}`, 400, `must not be empty`, `column 1 (\"\"): name`, `name the column of the table`},
		{`PATCH COLUMNS {"type":"path","name":"p","path":"a","required":true}`, 400, `applies only to columns with a dataType`, `column 1 (\"p\"): required`, `remove it`},
		{`PATCH COLUMNS {"type":"body","name":"p","path":"a"}`, 400, `applies to path columns only`, `column 1 (\"p\"): path`, `remove it`},
		{`PATCH COLUMNS {"type":"path","name":"p","path":"a","dataType":"int64"}`, 400, `cannot be nullable`, `column 1 (\"p\"): required`, `set required, or add a column`},
		{`POST BRANCH/sources {"type":"http"}`, 400, `is missing`, `body.name`, `add it`},
		{`POST BRANCH/sources {"type":"http","name":"x","sinks":[{"type":"table","name":"y"}]}`, 400, `is missing`, `body.sinks[0].table`, `add it`},
		{`POST BRANCH/sources`, 400, `missing required payload`, `as the body`, `send a JSON object`},
		{`PUT BRANCH/sources`, 405, `does not allow PUT`, `/v1/branches/default/sources`, `Use GET, POST`},
		{`POST /readiness-check`, 405, `does not allow POST`, `/readiness-check`, `Use GET`},
		{`POST EVENTS {"user":{"id":5`, 422, `not valid JSON: unexpected end at byte 15`, `column \"user\"`, `send the whole JSON value`},
		{`POST EVENTS {"user":{"id":5},}`, 422, `not valid JSON: expected a key at byte 17`, `column \"user\"`, `correct it there`},
		{`POST DISABLED {}`, 404, `is disabled`, `The source`, `enable it`},
		{`POST EVENTSx {}`, 404, `wrong secret`, `Unknown source`, `Use the URL of the source`},
		{`POST /stream/7/nope/secret {}`, 404, `Unknown source`, `or wrong secret`, `Use the URL of the source`},
		{`POST /stream/x/web/secret {}`, 400, `is wrong`, `The project id in the URL`, `must be a positive integer`},
		{`POST /strm/7/nope/secret {}`, 404, `Not found`, `Events are posted to`, `/stream/{projectId}/{sourceId}/{secret}`},
		{`GET EVENTS`, 405, `Events`, `are sent`, `with POST`},
	} {
		f := strings.SplitN(tt.request, " ", 3)
		method, path, body := f[0], f[1], ""
		if len(f) == 3 {
			body = strings.NewReplacer("TYPE", DefaultTableType, "LONG", strings.Repeat("x", 600)).Replace(f[2])
		}
		kind, token := "application/json", testToken
		server := s.server.URL
		if columns, ok := strings.CutPrefix(path, "COLUMNS"); ok {
			path, body = b+"/sources/web/sinks/events"+columns, `{"table":{"mapping":{"columns":[`+body+`]}}}`
		}
		path = strings.NewReplacer("EVENTS", events, "DISABLED", disabled, "BRANCH", b, "WRONG", "").Replace(path)
		if strings.HasPrefix(path, "/stream") || strings.HasPrefix(path, "/strm") || strings.HasPrefix(path, "/otlp") {
			server = s.ingest.URL
		}
		if strings.Contains(tt.request, "WRONG") {
			token = "wrong"
		}
		if text, ok := strings.CutPrefix(body, "FORM "); ok {
			body, kind = text, "application/x-www-form-urlencoded"
		} else if text, ok := strings.CutPrefix(body, "TEXT "); ok {
			body, kind = text, "text/plain"
		}
		req, err := http.NewRequest(method, server+path, strings.NewReader(body))
		must(t, err)
		req.Header.Set("Content-Type", kind)
		req.Header.Set(tokenHeader, token)
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		must(t, err)
		message := string(text)
		if resp.StatusCode == http.StatusAccepted { // the message is in the task
			var started response
			_ = json.Unmarshal(text, &started.body)
			task, err := s.ended(started.body["taskId"].(string))
			must(t, err)
			message = task.Failure
		}
		if resp.StatusCode != tt.status {
			t.Errorf("%s\ngot      %d %s\nwant     %d", tt.request, resp.StatusCode, message, tt.status)
		}
		messagetest.Check(t, tt.request, message, messagetest.Want{What: tt.what, Where: tt.where, Next: tt.next}, messagetest.GoNames()...)
	}
}
