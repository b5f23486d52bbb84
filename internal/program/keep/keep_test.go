package keep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is written is the secret or nothing, never an empty file.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	made, err := Secret(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Secret(path); err != nil || again != made || len(made) < 48 {
		t.Errorf("secret is %q, then %q, %v", made, again, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v, want the secret alone", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("secret is %v, %v, want mode 0600", info, err)
	}
	for _, text := range []string{"", " \n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if secret, err := Secret(path); err == nil || !strings.Contains(err.Error(), path+" is empty") {
			t.Errorf("file %q: secret %q, %v, want an error with the path", text, secret, err)
		}
	}
}
