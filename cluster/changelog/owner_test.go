package changelog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/fuzztest"
)

const wholeRecord = `{"node":"a","session":"s","epoch":3,"format":1,"state":"owned","beat":17,"lease_ns":12000000000,` +
	`"log":"ID","checkpoint":"i/3/40","checkpoint_position":99,"released":41}`

func TestOwnerKeepsItsForm(t *testing.T) {
	var o changelog.Owner
	if err := json.Unmarshal([]byte(wholeRecord), &o); err != nil {
		t.Fatal(err)
	}
	if o.Node != "a" || o.Session != "s" || o.Epoch != 3 || o.State != changelog.Owned || o.Beat != 17 || o.Lease != 12*time.Second ||
		o.Log != "ID" || o.Checkpoint != "i/3/40" || o.CheckpointPosition != 99 || o.Released != 41 {
		t.Errorf("the record was read as %+v", o)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal([]byte(wholeRecord), &want)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the record is written as %s, want %s", text, wholeRecord)
	}
}

// An older release must not look for the log under its first name. A record of a first log stays what older releases read.
func TestOwnerOfALaterLog(t *testing.T) {
	text := strings.Replace(wholeRecord, `"format":1`, `"format":2,"generation":3,"start":40`, 1)
	var o changelog.Owner
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	if o.Generation != 3 || o.Start != 40 || o.LogName("a-1") != "a-1_g3" {
		t.Errorf("the record was read as %+v, with the log %s", o, o.LogName("a-1"))
	}
	written, err := json.Marshal(o)
	for _, want := range []string{`"format":2`, `"generation":3`, `"start":40`} {
		if err != nil || !bytes.Contains(written, []byte(want)) {
			t.Errorf("%s is not in %s: %v", want, written, err)
		}
	}
	o.Generation, o.Start = 0, 0
	written, err = json.Marshal(o)
	if err != nil || !bytes.Contains(written, []byte(`"format":1`)) || bytes.Contains(written, []byte("generation")) || o.LogName("a-1") != "a-1" {
		t.Errorf("the record of a first log, %s, is %s: %v", o.LogName("a-1"), written, err)
	}
}

// A node of an older release writes the record again when it adopts the instance of a newer one.
func TestOwnerKeepsMembersOfANewerRelease(t *testing.T) {
	var o changelog.Owner
	text := strings.Replace(wholeRecord, `"beat":17`, `"beat":17,"zone":{"name":"east"},"Node":"not a member"`, 1)
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	o.Node, o.Epoch, o.State = "b", 4, changelog.Adopting
	written, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"zone":{"name":"east"}`, `"Node":"not a member"`, `"node":"b"`, `"epoch":4`, `"state":"adopting"`} {
		if !bytes.Contains(written, []byte(want)) {
			t.Errorf("%s is not in %s", want, written)
		}
	}
}

func TestOwnerRefusesWhatItCannotJudge(t *testing.T) {
	for _, tt := range []struct{ old, now, want string }{
		{`"format":1`, `"format":4`, "format is 4"},
		{`"format":1`, `"format":2,"generation":1,"start":"7"`, `member "start"`},
		{`"format":1`, `"format":2,"start":7`, "after batch 7"},
		{`"format":1,`, ``, "no format"},
		{`"node":"a"`, `"node":""`, "who owns"},
		{`"session":"s"`, `"session":null`, "who owns"},
		{`"epoch":3`, `"epoch":0`, "epoch is 0"},
		{`"epoch":3`, `"epoch":-1`, `member "epoch"`},
		{`"epoch":3`, `"epoch":18446744073709551615`, "epoch is 18446744073709551615"},
		{`"state":"owned"`, `"state":"sold"`, `state is "sold"`},
		{`"state":"owned"`, `"state":3`, `member "state"`},
		{`"lease_ns":12000000000`, `"lease_ns":0`, "lease is 0s"},
		{`"checkpoint_position":99`, `"checkpoint_position":"99"`, `member "checkpoint_position"`},
		{wholeRecord, `null`, "no format"},
		{wholeRecord, `[]`, "array"},
		{`41}`, `41}{}`, "after top-level value"},
	} {
		var o changelog.Owner
		err := json.Unmarshal([]byte(strings.Replace(wholeRecord, tt.old, tt.now, 1)), &o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v, want %q", tt.now, err, tt.want)
		}
	}
	if text, err := json.Marshal(changelog.Owner{Node: "a", Epoch: 1}); err == nil {
		t.Errorf("an incomplete record was written: %s", text)
	}
}

// Who owns the instance is read from a record of any format, so that a newer release fences this one.
func TestOwnerOfANewerFormatIsKnown(t *testing.T) {
	var o changelog.Owner
	text := `{"format":3,"node":"b","session":"s","epoch":4,"state":["not","a","text"]}`
	if err := json.Unmarshal([]byte(text), &o); err == nil {
		t.Error("the record was accepted")
	}
	if o.Node != "b" || o.Session != "s" || o.Epoch != 4 {
		t.Errorf("the record was read as %+v", o)
	}
}

func FuzzOwner(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add([]byte(wholeRecord))
	f.Add([]byte(`{"node":"b","session":"s","epoch":1,"format":1,"state":"drained","lease_ns":1,"more":[null,{"a":1e3}],"":"<"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o, again changelog.Owner
		if json.Unmarshal(data, &o) != nil {
			return
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatalf("%s was read and cannot be written: %v", data, err)
		}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s was written and cannot be read: %v", text, err)
		}
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(text, twice) {
			t.Fatalf("got %s again as %s (%v), want the same text", text, twice, err)
		}
	})
}
