//go:build unix

package main

import "syscall"

// canPause reports whether processes can be stopped for a while.
const canPause = true

// pause lets the node stand still until resume.
func (p *process) pause() error {
	p.set(func() { p.what = "paused" })
	return p.cmd.Process.Signal(syscall.SIGSTOP)
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
