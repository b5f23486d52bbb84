//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/fulldisktest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// lines is a log whose lines are JSON.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// with returns the lines that contain a message.
func (l *lines) with(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.buf.Bytes()) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%s: got %v, want no error", line, err)
		}
		if fields["msg"] == message {
			found = append(found, fields)
		}
	}
	return found
}

// Another program fills the volume of an engine. One line a minute says so, the response to a client names the disk of the server,
// the statistics contain the bound of the volume, and readiness fails where an option asks for it. All of this ends when there is room again.
func TestFullVolumeIsReported(t *testing.T) {
	for _, unready := range []bool{false, true} {
		testFullVolume(t, unready)
	}
}

func testFullVolume(t *testing.T, unready bool) {
	disk := fulldisktest.Mount(t, 48)
	data, ballast := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
	local := filepath.Join(data, "local")
	mem, log := buffertest.NewMemory(), &lines{}
	mem.Before = func(_ context.Context, c buffertest.Call) error { // uploads would make room
		if c.Op == buffertest.OpPut {
			return errors.New("down")
		}
		return nil
	}
	eng, err := forebay.Open(data, forebay.Options{
		Staging: mem, Target: mem, Logger: slog.New(slog.NewJSONHandler(log, nil)),
		Buffer: buffer.Tuning{MaxDiskBytes: 16 << 30, UnreadyWhenFull: unready},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	src := source(1_000_000)
	src.Secret = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"
	if err := eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	handler, ready := stream.Ingest(eng, stream.Options{ProjectID: 1}), stream.Ready(eng)
	get := func(h http.Handler, r *http.Request) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if err := fill(ballast, 26<<20); err != nil {
		t.Fatal(err)
	}
	rng, began := seedtest.Rand(t), time.Now()
	refuse := func() {
		t.Helper()
		for {
			_, err := eng.Ingest(t.Context(), sourceID, mapping.JSON([]byte(`{"client":0,"seq":1,"noise":"`+noise(rng, 64<<10)+`"}`)))
			over, ok := errors.AsType[*buffer.OverloadError](err)
			switch {
			case ok && over.Resource == "disk":
				if over.Volume != local || over.Free <= 0 || over.Free > 48<<20 {
					t.Fatalf("the error is %+v, want the volume of %s and its free bytes", over, local)
				}
				return
			case err != nil && !ok:
				t.Fatal(err)
			case time.Since(began) > time.Minute:
				t.Fatal("the volume does not become full")
			}
		}
	}
	for range 200 {
		refuse()
	}
	told := log.with(t, "rows refused on a full volume")
	if most := 1 + int(time.Since(began)/time.Minute); len(told) < 1 || len(told) > most {
		t.Fatalf("got %d lines after 200 refusals, want 1 to %d: %v", len(told), most, told)
	}
	if line := told[0]; line["level"] != "WARN" || line["dir"] != local || line["refused_calls"] != 1.0 || line["free_bytes"].(float64) <= 0 {
		t.Errorf("the line is %v, want a warning with the folder, its free bytes and one refused call", line)
	}
	// The store frees a little room at times, so each check may need several refusals before it.
	whileFull := func(what string, check func() (got string, ok bool)) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			refuse()
			got, ok := check()
			if ok {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s (UnreadyWhenFull %t): got %s, want this within 20 s", what, unready, got)
			}
		}
	}
	whileFull("the statistics have a bound that is reached", func() (string, bool) {
		st := eng.Stats()
		return fmt.Sprintf("%d of %d bytes, refusing since %v", st.LocalBytes, st.MaxDiskBytes, st.RefusingSince), st.MaxDiskBytes <= st.LocalBytes && !st.RefusingSince.IsZero()
	})
	whileFull("a client gets 503 and that the disk of the server is full", func() (string, bool) {
		r := httptest.NewRequest(http.MethodPost, "/stream/1/"+sourceID+"/"+src.Secret, strings.NewReader(`{"client":0,"seq":1}`))
		r.Header.Set("Content-Type", "application/json")
		status, body := get(handler, r)
		return fmt.Sprint(status, body), status == http.StatusServiceUnavailable && strings.Contains(body, "The disk of the server is full.")
	})
	whileFull("readiness is 503 and full if the option asks, else 200", func() (string, bool) {
		status, body := get(ready, httptest.NewRequest(http.MethodGet, "/readiness-check", nil))
		if !unready {
			return fmt.Sprint(status, body), status == http.StatusOK
		}
		return fmt.Sprint(status, body), status == http.StatusServiceUnavailable && strings.Contains(body, `"localLevel": "full"`)
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := eng.Ingest(t.Context(), sourceID, mapping.JSON([]byte(`{"client":0,"seq":1}`)))
		if err == nil && eng.Stats().RefusingSince.IsZero() && eng.Ready() == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with room again: ingest %v, ready %v, refusing since %v", err, eng.Ready(), eng.Stats().RefusingSince)
		}
	}
}
