package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

// stall keeps the calling thread in the kernel for d, as a sync would. The usual slack of its timers, 50 µs, would be a
// third of a sync.
func stall(d time.Duration) {
	if d <= 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const setTimerSlack = 29 // PR_SET_TIMERSLACK; 0 is the default again
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
	rest := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 0, 0)
}

func syncDisks() { syscall.Sync() }

// deviceWritten returns the bytes written to the device that holds dir since the system started, by whomever; -1 if
// unknown. The count of the process (/proc/self/io) would be free of others, but it adds a whole page of the cache for
// every small write into it, and such a page can have a megabyte.
func deviceWritten(dir string) int64 {
	var s syscall.Stat_t
	if dir == "" || syscall.Stat(dir, &s) != nil {
		return -1
	}
	major := s.Dev>>8&0xfff | s.Dev>>32&^0xfff
	minor := s.Dev&0xff | s.Dev>>12&^0xff&0xffffffff
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor))
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
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return false
	}
	return uint32(s.Type) == tmpfs || uint32(s.Type) == ramfs
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
	defer func() { _ = unix.SchedSetaffinity(0, &all) }() // what was allowed before still is
	return start()
}
