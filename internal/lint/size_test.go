package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxTracked bounds a file of the repository, in bytes, because it stays in the history, and in every clone, forever.
const maxTracked = 1 << 20

// A program that was built in its folder is not committed by mistake, nor anything else of that size.
func TestTrackedFilesAreSmall(t *testing.T) {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("this is no checkout")
	}
	list, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	if len(names) < 100 {
		t.Fatalf("only %d files are tracked", len(names))
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(root, filepath.FromSlash(name)))
		if err == nil && info.Size() > maxTracked { // one that was removed is not there
			t.Errorf("%s has %d bytes, at most %d are good for a repository", name, info.Size(), maxTracked)
		}
	}
}
