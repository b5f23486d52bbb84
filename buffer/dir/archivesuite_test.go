package dir_test

import (
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
)

func TestArchiveConformance(t *testing.T) {
	var path string
	buffertest.Archive(t, buffertest.ArchiveHarness{
		Open: func(t *testing.T, keepFor time.Duration) buffertest.ArchiveTarget {
			path = t.TempDir()
			return dir.Archive(path, dir.ArchiveOptions{KeepFor: keepFor})
		},
		Reopen: func(*testing.T) buffertest.ArchiveTarget { return dir.Archive(path, dir.ArchiveOptions{}) },
	})
}
