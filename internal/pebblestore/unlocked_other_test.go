//go:build !linux

package pebblestore_test

import "github.com/cockroachdb/pebble/v2/vfs"

func unlocked() vfs.FS { return nil }
