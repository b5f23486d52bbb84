package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// datasync flushes the bytes of f to the device, and its metadata only where they are needed to read them back.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// stall keeps the calling thread in the kernel for d, as a sync would. The usual slack of its timers, 50 µs, would be a
// third of a sync.
func stall(d time.Duration) {
	if d <= 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	rest := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&rest, &rest) == unix.EINTR {
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // the default again
}

func syncDisks() { unix.Sync() }

// deviceWritten returns the bytes written to the device that holds dir since the system started, by whomever; -1 if
// unknown. The count of the process (/proc/self/io) would be free of others, but it adds a whole page of the cache for
// every small write into it, and such a page can have a megabyte.
func deviceWritten(dir string) int64 {
	var s unix.Stat_t
	if dir == "" || unix.Stat(dir, &s) != nil {
		return -1
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(s.Dev), unix.Minor(s.Dev)))
	if err != nil {
		return -1
	}
	// The seventh field counts sectors of 512 bytes on every device.
	fields := strings.Fields(string(text))
	if len(fields) < 7 {
		return -1
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	if err != nil {
		return -1
	}
	return sectors * 512
}

// inMemory reports whether the folder lies on a file system without a device, where a sync costs nothing and every
// figure about durability means nothing.
func inMemory(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && (uint32(s.Type) == unix.TMPFS_MAGIC || uint32(s.Type) == unix.RAMFS_MAGIC)
}

// withCores starts a process that may use n of the cores of this one, and so may the processes that it starts; 0 is all.
func withCores(n int, start func() error) error {
	if n == 0 {
		return start()
	}
	runtime.LockOSThread() // a process inherits the cores of the thread that starts it
	defer runtime.UnlockOSThread()
	var all, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for i := 0; some.Count() < n && i < 8*len(all)*8; i++ {
		if all.IsSet(i) {
			some.Set(i)
		}
	}
	if some.Count() < n {
		return fmt.Errorf("-cpu %d: this process may use %d cores", n, all.Count())
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return err
	}
	defer func() { _ = unix.SchedSetaffinity(0, &all) }() // the previous mask is still allowed
	return start()
}

// residentMemory returns the bytes of this process that are in memory now, and the most that ever were; -1 if unknown.
func residentMemory() (now, peak int64) {
	now, peak = -1, -1
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return now, peak
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); n == 1 {
			now = kilobytes << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			peak = kilobytes << 10
		}
	}
	return now, peak
}

// privateMemory returns the resident bytes of this process that belong to no file; -1 if unknown. The pages of the program itself do, which
// processes share and the system may drop.
func privateMemory() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	return -1
}

// dropCache makes the system forget the pages of all files below dir, so that they are read from the disk next, as
// after a restart of the machine. It is best effort.
func dropCache(dir string) {
	unix.Sync() // pages that wait to be written are kept
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		return nil
	})
}

// processorName returns the system's name of the processor, or its architecture.
func processorName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}

// memorySize returns the bytes of memory of the machine, 0 if unknown.
func memorySize() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// fileSystem names the file system of a folder, "" for one that is rare.
func fileSystem(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return ""
	}
	return map[uint32]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "XFS", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
		unix.TMPFS_MAGIC: "tmpfs, in memory", unix.F2FS_SUPER_MAGIC: "F2FS",
	}[uint32(s.Type)]
}

// loadAverage returns the load of the last minute, "" if unknown.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
