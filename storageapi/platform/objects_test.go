package platform_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// An access key names its file, its rights and its end by itself. Nothing that differs from an issued key is accepted.
func TestObjectsCheckAccessKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *platform.Options) { o.S3 = &platform.S3Options{} })
	ctx := t.Context()
	f := must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: "f"}))(t)
	up, key := f.S3Upload.Credentials, f.S3Upload.Key
	down := *must(w.FileWithCredentials(ctx, f.ID))(t).S3Credentials
	objects := w.server.Objects()
	if objects.Region() != f.Region {
		t.Errorf("region %q, the file says %q", objects.Region(), f.Region)
	}
	for name, c := range map[string]struct {
		access, token string
		want          string
	}{
		"uploading":         {up.AccessKeyID, string(up.SessionToken), string(up.SecretAccessKey)},
		"downloading":       {down.AccessKeyID, string(down.SessionToken), string(down.SecretAccessKey)},
		"token of another":  {up.AccessKeyID, string(down.SessionToken), ""},
		"no token":          {up.AccessKeyID, "", ""},
		"lower case":        {strings.ToLower(up.AccessKeyID), string(up.SessionToken), ""},
		"cut":               {up.AccessKeyID[:len(up.AccessKeyID)-1], string(up.SessionToken), ""},
		"made up":           {"ASIAAAAAAAAAAAAACAAAAAAAAAAAAAB", string(up.SessionToken), ""},
		"of somebody else":  {"AKIAIOSFODNN7EXAMPLE", string(up.SessionToken), ""},
		"nothing":           {"", "", ""},
		"the prefix, alone": {"ASIA", "", ""},
	} {
		secret, err := objects.SecretKey(c.access, c.token)
		if secret != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, platform.ErrObjectDenied) {
			t.Errorf("%s: got secret %q, error %v, want %q, %v without one", name, secret, err, c.want, platform.ErrObjectDenied)
		}
	}
	check(t, objects.Put(ctx, up.AccessKeyID, key, map[string]string{"Content-Type": "text/csv"}, strings.NewReader("x")))
	if err := objects.Put(ctx, down.AccessKeyID, key, nil, strings.NewReader("y")); !errors.Is(err, platform.ErrObjectDenied) {
		t.Errorf("written with credentials for reading: %v", err)
	}
	if err := objects.Put(ctx, up.AccessKeyID, "f999", nil, strings.NewReader("y")); !errors.Is(err, platform.ErrObjectDenied) {
		t.Errorf("written to another file: %v", err)
	}
	object, info, err := objects.Open(down.AccessKeyID, key)
	check(t, err)
	got := must(io.ReadAll(object))(t)
	check(t, object.Close())
	if string(got) != "x" || info.Size != 1 || info.Properties["Content-Type"] != "text/csv" {
		t.Errorf("object %q, %+v", got, info)
	}
	check(t, objects.Remove(up.AccessKeyID, key))
	check(t, objects.Remove(up.AccessKeyID, key))
	if _, _, err := objects.Open(down.AccessKeyID, key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a removed object: %v", err)
	}
}
