//go:build !unix

package pebblestore

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var errQuota = errors.New("quota exceeded")

func blocksOf(fs.FileInfo) (int64, bool) { return 0, false }

func sameVolume(string, string) bool { return false }

func restrict(vfs.File) {}
