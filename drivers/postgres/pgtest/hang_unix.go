//go:build unix

package pgtest

import (
	"errors"
	"strconv"
	"syscall"
)

// Hang stops all processes of the server, which keep their connections and locks, and returns a function that resumes them.
func (s *Server) Hang() (restore func() error, err error) {
	signal := func(sig syscall.Signal) (err error) {
		first, _ := s.processes()
		pid, err := strconv.Atoi(first)
		if err != nil {
			return err
		}
		err = syscall.Kill(pid, sig) // first the process that starts the others
		_, all := s.processes()
		for pid := range all {
			if n, _ := strconv.Atoi(pid); pid != first {
				if failed := syscall.Kill(n, sig); !errors.Is(failed, syscall.ESRCH) { // a connection or a worker may have ended meanwhile
					err = errors.Join(err, failed)
				}
			}
		}
		return err
	}
	return func() error { return signal(syscall.SIGCONT) }, signal(syscall.SIGSTOP)
}
