package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/giveup"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/refusal"
	"github.com/forebay/forebay/stream/streamapi"
)

// decider is a node whose instances an operator decides about.
type decider struct {
	loss    Loss
	lossErr error
	salvage Salvage
	err     error
	calls   []string
}

func (d *decider) Loss(_ context.Context, instance string) (Loss, error) {
	d.calls = append(d.calls, "look at "+instance)
	return d.loss, d.lossErr
}

func (d *decider) GiveUp(_ context.Context, instance string) error {
	d.calls = append(d.calls, "give up "+instance)
	return d.err
}

func (d *decider) Salvage(_ context.Context, folder string, store bool) (Salvage, error) {
	d.calls = append(d.calls, fmt.Sprintf("salvage %s: %t", folder, store))
	d.salvage.Done = store
	return d.salvage, d.err
}

// keys are tokens by their text.
type keys map[string]streamapi.Identity

func (k keys) Verify(_ context.Context, token string) (streamapi.Identity, error) {
	if token == "away" {
		return streamapi.Identity{}, &streamapi.UnavailableError{Err: errors.New("no route")}
	}
	if token == "fault" {
		return streamapi.Identity{}, errors.New("canary")
	}
	who, ok := k[token]
	if !ok {
		return who, &streamapi.AuthError{Status: 401, Name: "storage.tokenInvalid", Message: "Invalid Token"}
	}
	return who, nil
}

// run runs forebay giveup against a node.
func (d *decider) run(t *testing.T, token string, args ...string) (out string, err error) {
	t.Helper()
	server := httptest.NewServer(operations(d, streamapi.Options{
		Auth: keys{
			"good": {ProjectID: 7, Master: true, Admin: true}, "reader": {ProjectID: 7, Master: true},
			"limited": {ProjectID: 7, Admin: true}, "stranger": {ProjectID: 8, Master: true, Admin: true},
		},
		Ingest: stream.Options{ProjectID: 7},
	}))
	defer server.Close()
	var printed bytes.Buffer
	err = giveup.Run(t.Context(), append([]string{"-api", server.URL, "-token", token}, args...), api.Environment{
		Out: &printed, Errors: &printed, Getenv: func(string) string { return "" },
	})
	return printed.String(), err
}

var damagedInstance = Loss{
	Instance: "a-1", Node: "a", State: changelog.Damaged, CanGiveUp: true,
	Acknowledged: 106, Checkpoint: 91, Readable: 96, Lost: 10, LostBefore: 3, LogProblem: "the log has a hole: at 110",
}

// Orders of operators with a parameter are refused before they have an effect, because the parameter would be ignored.
func TestOrderWithParameter(t *testing.T) {
	d := &decider{}
	server := httptest.NewServer(operations(d, streamapi.Options{
		Auth: keys{"good": {ProjectID: 7, Master: true, Admin: true}}, Ingest: stream.Options{ProjectID: 7},
	}))
	defer server.Close()
	for _, path := range []string{instancesPath + "a-1/give-up?rows=1", foldersPath + "x/salvage?dry=true"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-StorageApi-Token", "good")
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || len(d.calls) > 0 {
			t.Errorf("POST %s: status %d, calls %q; want 400 and no call", path, resp.StatusCode, d.calls)
		}
	}
}

// Requests that no order takes are refused in the shape of the Stream API's errors.
func TestRefusalsOfOrdersHaveBodies(t *testing.T) {
	h := operations(&decider{}, streamapi.Options{Auth: keys{}})
	for request, status := range map[string]int{
		"DELETE " + instancesPath + "a-1": 405, "GET " + instancesPath + "a-1/give-up": 405, "POST " + foldersPath + "x": 405,
		"GET " + clusterPath: 404, "POST " + foldersPath + "x/y/z": 404, "GET " + instancesPath + "a-1": 403,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		var got refusal.Error
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != status || got.Status != status || got.Name == "" || got.Message == "" ||
			(w.Header().Get("Allow") != "") != (status == 405) {
			t.Errorf("%s: got %d %v %s, want %d", request, w.Code, w.Header(), w.Body, status)
		}
	}
}

// The command says what would be lost, and does it with -yes only.
func TestGiveUpSaysWhatIsLost(t *testing.T) {
	for _, yes := range []bool{false, true} {
		d := &decider{loss: damagedInstance}
		args := []string{"a-1"}
		if yes {
			args = []string{"-yes", "a-1"}
		}
		out, err := d.run(t, "good", args...)
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{
			"a-1 of node a, damaged", "batches 1 to 96, of them 1 to 91 from the checkpoint", "the log has a hole: at 110", "batches 97 to 106", "at least 10", "3 batches",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q does not say %q", out, want)
			}
		}
		calls := fmt.Sprint(d.calls)
		if yes != strings.Contains(out, "The instance is given up") || yes == strings.Contains(out, "Nothing was changed") ||
			!yes && calls != "[look at a-1]" || yes && calls != "[look at a-1 give up a-1]" {
			t.Errorf("with -yes %v: %q; calls %s", yes, out, calls)
		}
	}
}

// Where nothing is lost, or more than the log, the words are others.
func TestGiveUpOfOtherDamage(t *testing.T) {
	whole := damagedInstance
	whole.Readable, whole.Lost, whole.LostBefore, whole.LogProblem = 106, 0, 0, ""
	unknown := whole // the record was written long before the last rows were acknowledged
	unknown.LogProblem = damagedInstance.LogProblem
	nothing := damagedInstance
	nothing.Readable, nothing.Checkpoint, nothing.Lost, nothing.CheckpointProblem = 0, 0, 106, "\x1b[2Jgone"
	for _, test := range []struct {
		loss Loss
		want string
	}{
		{whole, "lost          nothing: everything can be read"},
		{unknown, "lost          all batches after 106 would be lost"},
		{nothing, "readable      nothing\ncheckpoint    �[2Jgone"},
	} {
		if out, err := (&decider{loss: test.loss}).run(t, "good", "a-1"); err != nil || !strings.Contains(out, test.want) {
			t.Errorf("got %q, %v; want %q", out, err, test.want)
		}
	}
}

// A request that is impossible, or whose outcome is unknown, is an error that says so. Nothing is given up before its loss was printed.
func TestGiveUpFails(t *testing.T) {
	owned := Loss{Instance: "a-1", Node: "a", State: changelog.Owned}
	for what, test := range map[string]struct {
		token string
		node  decider
		want  string
		calls string
	}{
		"unknown token":        {"other", decider{loss: damagedInstance}, "status 401 storage.tokenInvalid", "[]"},
		"token of another":     {"stranger", decider{loss: damagedInstance}, "status 403 forbidden", "[]"},
		"no master token":      {"limited", decider{loss: damagedInstance}, "status 403 forbidden", "[]"},
		"no admin":             {"reader", decider{loss: damagedInstance}, "status 403 forbidden", "[]"},
		"no answer":            {"away", decider{loss: damagedInstance}, "status 503 unavailable", "[]"},
		"fault of the service": {"fault", decider{loss: damagedInstance}, "status 503 unavailable", "[]"},
		"its owner lives":      {"good", decider{loss: owned}, "is owned: there is nothing to give up", "[look at a-1]"},
		"no such instance":     {"good", decider{lossErr: changelog.ErrNothingToDecide}, "status 409 nothingToDecide", "[look at a-1]"},
		"log away":             {"good", decider{lossErr: changelog.ErrUnknown}, "(status 503 unavailable); nothing was changed", "[look at a-1]"},
		"another was first": {
			"good", decider{loss: damagedInstance, err: changelog.ErrLost}, "status 409 changed", "[look at a-1 give up a-1]",
		},
		"answer lost": {
			"good", decider{loss: damagedInstance, err: changelog.ErrUnknown}, "not known whether this was done", "[look at a-1 give up a-1]",
		},
	} {
		d := test.node
		out, err := d.run(t, test.token, "-yes", "a-1")
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") || strings.Contains(out, "is given up") || fmt.Sprint(d.calls) != test.calls {
			t.Errorf("%s: got %v, %q, calls %s, want %q, calls %s, no secret", what, err, out, d.calls, test.want, test.calls)
		}
	}
	for _, args := range [][]string{nil, {"a", "b"}, {""}} {
		var usage *api.UsageError
		if _, err := (&decider{}).run(t, "good", args...); !errors.As(err, &usage) {
			t.Errorf("the arguments %q give %v", args, err)
		}
	}
}
