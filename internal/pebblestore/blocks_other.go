//go:build !unix

package pebblestore

import (
	"errors"
	"io/fs"
)

var errQuota = errors.New("quota exceeded")

func blocksOf(fs.FileInfo) (int64, bool) { return 0, false }

func sameVolume(string, string) bool { return false }
