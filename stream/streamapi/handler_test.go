package streamapi

import (
	"fmt"
	"strings"
	"testing"
)

func TestAPIStory(t *testing.T) {
	s := newService(t, serviceOptions{})

	created := s.done("POST", b+"/sources", webSource)
	if got := created.at("outputs.url"); got != s.server.URL+"/v1/branches/3/sources/web" {
		t.Errorf("outputs.url is %v", got)
	}
	if created.at("type") != "api.create.source" || created.at("isFinished") != true {
		t.Errorf("task is %s", created.text)
	}
	source := s.get(b + "/sources/web")
	address, _ := source.at("http.url").(string)
	if !strings.HasPrefix(address, s.ingest.URL+"/stream/7/web/") || len(address) != len(s.ingest.URL)+len("/stream/7/web/")+48 {
		t.Fatalf("http.url is %q", address)
	}
	if got := s.send(address, `{"user":{"id":"a"}}`); got != 200 {
		t.Fatalf("event: status %d", got)
	}

	t.Run("settings", func(t *testing.T) {
		setting := func(path, key string) map[string]any {
			list, _ := s.get(path).at("settings").([]any)
			for _, v := range list {
				if m := v.(map[string]any); m["key"] == key {
					return m
				}
			}
			t.Fatalf("%s has no key %s", path, key)
			return nil
		}
		const key = "storage.level.target.import.trigger.interval"
		if got := setting(b+"/sources/web/settings", key); got["value"] != "1m0s" || got["overwritten"] != false {
			t.Errorf("default is %v", got)
		}
		s.done("PATCH", b+"/sources/web/settings", `{"settings":[{"key":"`+key+`","value":"90s"}]}`)
		if got := setting(b+"/sources/web/sinks/events/settings", key); got["value"] != "1m30s" || got["origin"] != "source" || got["overwritten"] != false {
			t.Errorf("inherited is %v", got)
		}
		s.done("PATCH", b+"/sources/web/sinks/events/settings", `{"settings":[{"key":"`+key+`","value":"2m"}]}`)
		if got := setting(b+"/sources/web/sinks/events/settings", key); got["value"] != "2m0s" || got["origin"] != "sink" || got["overwritten"] != true {
			t.Errorf("own is %v", got)
		}
		s.done("PATCH", b+"/sources/web/sinks/events/settings", `{"settings":[{"key":"`+key+`","value":null}]}`)
		if got := setting(b+"/sources/web/sinks/events/settings", key); got["value"] != "1m30s" {
			t.Errorf("after a reset it is %v", got)
		}
	})
	t.Run("versions", func(t *testing.T) {
		s.done("PATCH", b+"/sources/web/sinks/events", `{"description":"second","changeDescription":"Described."}`)
		list := s.get(b + "/sources/web/sinks/events/versions")
		n, _ := list.at("page.totalCount").(float64)
		if list.at("versions.0.number") != 1.0 || list.at(fmt.Sprintf("versions.%d.description", int(n)-1)) != "Described." {
			t.Errorf("versions are %s", list.text)
		}
		if v := s.get(b + "/sources/web/sinks/events/versions/1"); v.at("content.description") != "" || v.at("description") != "New sink." {
			t.Errorf("version 1 is %s", v.text)
		}
		s.done("PUT", b+"/sources/web/sinks/events/versions/1/rollback", "")
		sink := s.get(b + "/sources/web/sinks/events")
		if sink.at("description") != "" || sink.at("version.number") != n+1 || sink.at("version.description") != `Rollback to version "1".` {
			t.Errorf("after the rollback the sink is %s", sink.text)
		}
	})
	t.Run("disable", func(t *testing.T) {
		s.done("PUT", b+"/sources/web/disable", "")
		if got := s.send(address, "{}"); got != 404 {
			t.Errorf("event for a disabled source: status %d", got)
		}
		if sink := s.get(b + "/sources/web/sinks/events"); sink.at("disabled.reason") != "The source is disabled." {
			t.Errorf("sink of a disabled source is %s", sink.text)
		}
		s.done("PUT", b+"/sources/web/sinks/events/disable", "")
		s.done("PUT", b+"/sources/web/enable", "")
		if sink := s.get(b + "/sources/web/sinks/events"); sink.at("disabled.reason") != "API" {
			t.Errorf("sink that is disabled for itself is %s", sink.text)
		}
		s.done("PUT", b+"/sources/web/sinks/events/enable", "")
		if got := s.send(address, `{"user":{"id":"b"}}`); got != 200 {
			t.Errorf("event: status %d", got)
		}
	})
	t.Run("statistics", func(t *testing.T) {
		if total := s.get(b + "/sources/web/sinks/events/statistics/total"); total.at("total.recordsCount") != 2.0 {
			t.Errorf("total is %s", total.text)
		}
		must(t, s.eng.Flush(t.Context(), "web"))
		if total := s.get(b + "/sources/web/sinks/events/statistics/total"); total.at("levels.target.recordsCount") != 2.0 {
			t.Errorf("total is %s", total.text)
		}
		if a := s.get(b + "/aggregation/sources"); a.at("sources.0.sinks.0.statistics.total.recordsCount") != 2.0 {
			t.Errorf("aggregation is %s", a.text)
		}
		if files := s.get(b + "/sources/web/sinks/events/statistics/files"); files.at("files.0.state") != "imported" {
			t.Errorf("files are %s", files.text)
		}
		s.want(200, "", testToken, "DELETE", b+"/sources/web/sinks/events/statistics/clear", "")
		if total := s.get(b + "/sources/web/sinks/events/statistics/total"); total.at("total.recordsCount") != 0.0 {
			t.Errorf("cleared total is %s", total.text)
		}
	})
	t.Run("payload test", func(t *testing.T) {
		a := s.want(200, "", testToken, "POST", b+"/sources/web/test", `{"user":{"id":"x"}}`)
		if a.at("tables.0.tableId") != "in.c-web.events" || a.at("tables.0.rows.0.columns.1.value") != "none" {
			t.Errorf("without a content type: %s", a.text)
		}
	})
	t.Run("secret", func(t *testing.T) {
		rotated := s.want(200, "", testToken, "POST", b+"/sources/web/rotate-secret", "")
		if got := s.send(address, "{}"); got != 404 {
			t.Errorf("event with the old secret: status %d", got)
		}
		address, _ = rotated.at("http.url").(string)
		if got := s.send(address, "{}"); got != 200 {
			t.Errorf("event with the new secret: status %d", got)
		}
		s.done("PUT", b+"/sources/web/versions/1/rollback", "")
		if got := s.send(address, "{}"); got != 200 {
			t.Errorf("event after a rollback: status %d, the secret must stay", got)
		}
	})
	t.Run("delete", func(t *testing.T) {
		s.done("DELETE", b+"/sources/web", "")
		s.want(404, "stream.api.sourceNotFound", testToken, "GET", b+"/sources/web", "")
		if got := s.send(address, "{}"); got != 404 {
			t.Errorf("event for a deleted source: status %d", got)
		}
		if list := s.get(b + "/sources/deleted"); list.at("sources.0.sourceId") != "web" || list.at("sources.0.deleted.by.tokenId") != "1234" {
			t.Errorf("deleted sources are %s", list.text)
		}
		s.done("PUT", b+"/sources/web/undelete", "")
		if got := s.send(address, "{}"); got != 200 {
			t.Errorf("event after undelete: status %d", got)
		}
		s.get(b + "/sources/web/sinks/events")
	})
	t.Run("restart", func(t *testing.T) {
		before := s.get(b + "/aggregation/sources").text
		s.stop()
		s.start()
		after := s.get(b + "/aggregation/sources")
		if v := after.at("sources.0.version.number"); v == nil {
			t.Fatalf("after a restart: %s\nbefore: %s", after.text, before)
		}
		source := s.get(b + "/sources/web")
		url, _ := source.at("http.url").(string)
		if got := s.send(url, "{}"); got != 200 {
			t.Errorf("event after a restart: status %d", got)
		}
		s.get("/v1/tasks/" + created.body["taskId"].(string))
	})
}
