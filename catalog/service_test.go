package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
)

// TestSettingsSayTheirRules checks all settings, even settings that only the operator may change.
func TestSettingsSayTheirRules(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	done(t, cat)(cat.CreateSource(user, spec("Web")))
	list, err := cat.Settings(catalog.Ref{Source: "web"})
	must(t, err)
	got := map[string]string{}
	for _, s := range list {
		got[s.Key] = s.Validation
	}
	const encoding = "storage.level.local.encoding."
	for key, want := range map[string]string{
		"archive.enabled":                                      "",
		"ingest.keepHeaders":                                   "",
		"ingest.split":                                         "required,oneof=none array lines",
		encoding + "sync.wait":                                 "",
		encoding + "compression.type":                          "required,oneof=none gzip",
		encoding + "compression.gzip.level":                    "required,min=1,max=9",
		encoding + "compression.gzip.implementation":           "required,oneof=standard fast parallel",
		encoding + "compression.gzip.blockSize":                "required,minBytes=16KB,maxBytes=100MB",
		encoding + "compression.gzip.concurrency":              "",
		encoding + "encoder.type":                              "required,oneof=csv",
		encoding + "encoder.concurrency":                       "min=0,max=256",
		encoding + "inputBuffer":                               "maxBytes=16MB",
		encoding + "maxChunkSize":                              "required,minBytes=64KB,maxBytes=1MB",
		encoding + "failedChunksThreshold":                     "required,min=1,max=100",
		encoding + "sync.mode":                                 "required,oneof=disk cache",
		encoding + "sync.checkInterval":                        "required,minDuration=1ms,maxDuration=30s",
		encoding + "sync.intervalTrigger":                      "required,minDuration=10ms,maxDuration=30s",
		encoding + "sync.countTrigger":                         "required,min=1,max=1000000",
		encoding + "sync.uncompressedBytesTrigger":             "required,minBytes=100B,maxBytes=500MB",
		encoding + "sync.compressedBytesTrigger":               "required,minBytes=100B,maxBytes=100MB",
		"storage.level.local.volume.assignment.count":          "required,min=1,max=100",
		"storage.level.local.volume.assignment.preferredTypes": "required,min=1",
		"storage.level.staging.upload.trigger.count":           "required,min=1,max=10000000",
		"storage.level.staging.upload.trigger.size":            "required,minBytes=100B,maxBytes=50MB",
		"storage.level.staging.upload.trigger.interval":        "required,minDuration=1s,maxDuration=30m",
		"storage.level.target.import.trigger.count":            "required,min=1,max=10000000",
		"storage.level.target.import.trigger.size":             "required,minBytes=100B,maxBytes=500MB",
		"storage.level.target.import.trigger.interval":         "required,minDuration=30s,maxDuration=24h",
		"storage.level.target.import.trigger.expiration":       "required,minDuration=5m,maxDuration=45m",
		"storage.level.target.import.trigger.slicesCount":      "required,min=1,max=200",
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s: got %q, want %q", key, v, want)
		}
		delete(got, key)
	}
	for key := range got {
		t.Errorf("%s is not checked", key)
	}
}

// TestRotationHasTheTextOfTheService is about the description of the version.
func TestRotationHasTheTextOfTheService(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	done(t, cat)(cat.CreateSource(user, spec("Web")))
	source, err := cat.RotateSecret(t.Context(), user, "web", 0)
	if err != nil || source.Version.Description != "Rotated secret." {
		t.Errorf("got %+v, %v, want no error and source.Version.Description == \"Rotated secret.\"", source.Version, err)
	}
	if source, err = cat.RotateSecret(t.Context(), user, "web", time.Hour); err != nil || !strings.HasPrefix(source.Version.Description, "Rotated secret. The old one is accepted until ") {
		t.Errorf("got %+v, %v, want a version that says how long the old secret is accepted", source.Version, err)
	}
	for _, v := range []any{source, &source, catalog.Sink{Token: catalog.Token{Value: source.Secret}}} {
		if text := fmt.Sprintf("%#v %+v", v, v); strings.Contains(text, source.Secret) || strings.Contains(text, source.OldSecret) && source.OldSecret != "" {
			t.Errorf("%T: got %s, want no secret", v, text)
		}
	}
}

// TestLimitInTheTaskHasAName has two requests for the last place accepted. The task of the slower one says why.
func TestLimitInTheTaskHasAName(t *testing.T) {
	// Both wait for the target, and nothing of them is in the catalog before it responds.
	var met sync.WaitGroup
	met.Add(2)
	mem := buffertest.NewMemory()
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpEnsure {
			met.Done()
			met.Wait()
		}
		return nil
	}
	cat := openCatalog(t, openEngine(t, forebay.Options{Target: mem}), catalog.Options{Store: newMemory()})
	for i := range forebay.DefaultMaxSources - 1 {
		done(t, cat)(cat.CreateSource(user, spec(fmt.Sprint("Source ", i))))
	}
	var tasks []catalog.Task
	for _, name := range []string{"x", "y"} {
		task, err := cat.CreateSource(user, spec(name, name))
		must(t, err)
		tasks = append(tasks, task)
	}
	refused := 0
	for _, task := range tasks {
		task, err := cat.Wait(t.Context(), task.ID)
		must(t, err)
		if task.Status == catalog.Failed {
			refused++
			if task.Code != catalog.SourceLimit {
				t.Errorf("task %+v", task)
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d of two were refused, want 1", refused)
	}
}

// TestTimesSurviveAClearing checks that the first record stays the first one.
func TestTimesSurviveAClearing(t *testing.T) {
	eng := openEngine(t, forebay.Options{})
	cat := openCatalog(t, eng, catalog.Options{Store: newMemory()})
	done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
	ingest := func() {
		t.Helper()
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{}`))); err != nil {
			t.Fatal(err)
		}
	}
	first := func(rows int64) time.Time {
		t.Helper()
		st, err := cat.Handle("web", "a").Statistics(t.Context())
		if err != nil || st.Total.Rows != rows {
			t.Fatalf("got %+v, %v, want no error and st.Total.Rows == %v", st.Total, err, rows)
		}
		return st.Total.FirstAt
	}
	ingest()
	want := first(1)
	must(t, eng.Flush(t.Context(), "web"))
	must(t, cat.ClearStatistics(t.Context(), catalog.Ref{Source: "web", Sink: "a"}))
	for rows := range int64(3) {
		if got := first(rows); got != want || got.IsZero() {
			t.Errorf("with %d rows after the clearing the first is of %s, want %s", rows, got, want)
		}
		ingest()
		if rows == 1 {
			must(t, eng.Flush(t.Context(), "web"))
		}
	}
}

// TestImportIntervalOfTheEngine checks that the least import interval of the engine is the limit of the setting, and its rule says so.
func TestImportIntervalOfTheEngine(t *testing.T) {
	const key = "storage.level.target.import.trigger.interval"
	source := catalog.Ref{Source: "web"}
	for _, test := range []struct {
		least          time.Duration // 0 means the default
		rule           string
		refused, taken string
	}{
		{0, "required,minDuration=30s,maxDuration=24h", "29s", "30s"},
		{time.Second, "required,minDuration=1s,maxDuration=24h", "999ms", "1s"},
		{45 * time.Second, "required,minDuration=45s,maxDuration=24h", "44s", "45s"},
	} {
		eng := openEngine(t, forebay.Options{Buffer: buffer.Tuning{MinImportInterval: test.least}})
		cat := openCatalog(t, eng, catalog.Options{Store: newMemory()})
		done(t, cat)(cat.CreateSource(user, spec("Web", "events")))
		for _, ref := range []catalog.Ref{source, {Source: "web", Sink: "events"}} {
			change := func(interval string) (catalog.Task, error) {
				return cat.ChangeSettings(user, ref, "", []catalog.SettingChange{{Key: key, Value: json.RawMessage(`"` + interval + `"`)}})
			}
			_, err := change(test.refused)
			if e, ok := errors.AsType[*catalog.Error](err); !ok || e.Code != catalog.BadRequest || !strings.Contains(e.Message, strings.TrimPrefix(test.rule, "required,")) {
				t.Errorf("least %s: %v set to %s gives %v, want a refusal with the rule %q", test.least, ref, test.refused, err, test.rule)
			}
			done(t, cat)(change(test.taken))
			if s := settingOf(t, cat, ref, key); s.Validation != test.rule || s.Value != any(test.taken) || s.Warning != "" {
				t.Errorf("least %s: setting of %v %+v, want the value %s, the rule %q and no warning", test.least, ref, s, test.taken, test.rule)
			}
		}
	}
}

// TestImportIntervalBelowALaterLimit checks that after a restart with a greater least interval, the source keeps taking events. The least interval
// is in force, and the setting says so.
func TestImportIntervalBelowALaterLimit(t *testing.T) {
	const key = "storage.level.target.import.trigger.interval"
	store, sink := newMemory(), catalog.Ref{Source: "web", Sink: "events"}
	eng := openEngine(t, forebay.Options{Buffer: buffer.Tuning{MinImportInterval: time.Second}})
	cat := openCatalog(t, eng, catalog.Options{Store: store})
	done(t, cat)(cat.CreateSource(user, spec("Web", "events")))
	done(t, cat)(cat.ChangeSettings(user, sink, "", []catalog.SettingChange{{Key: key, Value: json.RawMessage(`"2s"`)}}))
	must(t, cat.Close())

	eng = openEngine(t, forebay.Options{})
	cat = openCatalog(t, eng, catalog.Options{Store: store})
	if _, err := eng.Ingest(t.Context(), "web", &mapping.Record{Body: []byte("{}")}); err != nil {
		t.Errorf("an event of the source is refused: %v", err)
	}
	if s := settingOf(t, cat, sink, key); s.Value != any("30s") || !strings.Contains(s.Warning, "set to 2s") {
		t.Errorf("setting %+v, want the value 30s, and a warning that it was set to 2s", s)
	}
}

// TestArchiveSettingWithoutArchive checks that an engine without an archive refuses the setting before a task begins.
func TestArchiveSettingWithoutArchive(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	done(t, cat)(cat.CreateSource(user, spec("Web")))
	task, err := cat.ChangeSettings(user, catalog.Ref{Source: "web"}, "", []catalog.SettingChange{{Key: "archive.enabled", Value: json.RawMessage("true")}})
	if e, ok := errors.AsType[*catalog.Error](err); !ok || e.Code != catalog.BadRequest || !strings.Contains(e.Message, "no archive") {
		t.Errorf("archive.enabled gives task %q and error %v, want a refusal that names the missing archive", task.ID, err)
	}
}

func settingOf(t *testing.T, cat *catalog.Catalog, ref catalog.Ref, key string) catalog.Setting {
	t.Helper()
	list, err := cat.Settings(ref)
	must(t, err)
	for _, s := range list {
		if s.Key == key {
			return s
		}
	}
	t.Fatalf("%v has no setting %s", ref, key)
	return catalog.Setting{}
}
