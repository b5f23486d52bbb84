package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// datasync flushes the bytes of f to the device, and its metadata only where they are needed to read them back.
func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func syncDisks() { syscall.Sync() }

// processWritten returns the bytes that this process caused to be sent to the block layer, -1 if unknown.
func processWritten() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return -1
	}
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte("write_bytes: ")); ok {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			if err != nil {
				return -1
			}
			return n
		}
	}
	return -1
}

// inMemory reports whether the folder lies on a file system without a device, where a sync costs nothing and every
// figure about durability means nothing.
func inMemory(dir string) bool {
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return false
	}
	return uint32(s.Type) == tmpfs || uint32(s.Type) == ramfs
}
