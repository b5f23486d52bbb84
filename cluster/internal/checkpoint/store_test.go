package checkpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
)

func TestSaveAndFetch(t *testing.T) {
	staging := filepath.Join(t.TempDir(), "staging")
	s := checkpoint.New(dir.Staging(staging), checkpoint.Options{})
	from := filepath.Join(t.TempDir(), "snapshot")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("local/000001.sst", "table one")
	write("local/000002.log", "")
	m, ref, err := s.Save(t.Context(), from, checkpoint.Manifest{Instance: "a-x", Epoch: 3, Log: "id", Number: 7, Trim: 9}, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := s.Load(t.Context(), "a-x", ref)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "restored")
	if err := s.Fetch(t.Context(), loaded, to); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "local/000001.sst")); err != nil || string(text) != "table one" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "local/000002.log")); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
	if err := s.Remove(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if entries, err := filepath.Glob(filepath.Join(staging, "*.slice")); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
