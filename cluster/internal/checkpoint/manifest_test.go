package checkpoint_test

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

const (
	keptRef      = "ckpt-c50f7639e3af-3-5fookir536v23rinidov3vs6rq"
	keptManifest = `{"format":1,"instance":"node-a-kxqzwvbn","epoch":3,"log":"ID","number":41,"trim":99,"files":[` +
		`{"name":"local/000001.sst","object":"ckpt-c50f7639e3af-3-powzh4grwqaq7an3lggddqyrxm","size":3,` +
		`"hash":"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"},` +
		`{"name":"local/000002.log","size":0,"hash":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]}`
)

// What this release stores is what later releases have to read.
func TestManifestKeepsItsForm(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	write(t, disk, snapshot, files{"local/000001.sst": "one", "local/000002.log": ""})
	_, ref, err := newStore(staging, disk, checkpoint.Options{}).Save(t.Context(), snapshot,
		checkpoint.Manifest{Instance: instance, Epoch: 3, Log: "ID", Number: 41, Trim: 99}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := staging.Open(t.Context(), driver.Object{ID: ref})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(rc)
	if err != nil || string(data) != keptManifest || ref != keptRef {
		t.Errorf("%s is %s (%v)\nwant %s: %s", ref, data, err, keptRef, keptManifest)
	}
}

func TestLoadRefusesWhatItCannotJudge(t *testing.T) {
	for _, tt := range []struct{ old, now, want string }{
		{`"format":1`, `"format":2`, "upgrade this node"},
		{`"format":1,`, ``, "format is 0"},
		{`"instance":"` + instance + `"`, `"instance":"another"`, "it is of instance another"},
		{`"instance":"` + instance + `"`, `"instance":""`, "it is of instance \"\""},
		{`"epoch":3`, `"epoch":0`, "in epoch 0"},
		{`"epoch":3`, `"epoch":4`, "in epoch 4"},
		{`"name":"local/000001.sst"`, `"name":"../000001.sst"`, "no place"},
		{`"name":"local/000001.sst"`, `"name":"/000001.sst"`, "no place"},
		{`"name":"local/000001.sst"`, `"name":"local\\..\\..\\000001.sst"`, "no place"},
		{`"name":"local/000001.sst"`, `"name":"local/000002.log"`, "no place"},
		{`"size":3`, `"size":-3`, "size -3"},
		{`"size":3`, `"size":0`, "size 0"},
		{`"hash":"7`, `"hash":"`, "the hash"},
		{`{`, `[`, "invalid"},
	} {
		synctest.Test(t, func(t *testing.T) {
			staging := buffertest.NewMemory()
			data := strings.Replace(keptManifest, tt.old, tt.now, 1)
			if data == keptManifest {
				t.Fatalf("%s is not in the manifest", tt.old)
			}
			sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s", len(data), data))
			ref := keptRef[:strings.LastIndex(keptRef, "-")+1] +
				strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
			if err := staging.Put(t.Context(), driver.Object{ID: ref}, text(data)); err != nil {
				t.Fatal(err)
			}
			_, err := newStore(staging, vfs.NewMem(), checkpoint.Options{}).Load(t.Context(), instance, ref)
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.As(err, new(*checkpoint.DamageError)) {
				t.Errorf("%s: got %v, want %q", tt.now, err, tt.want)
			}
		})
	}
}
