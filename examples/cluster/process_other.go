//go:build !unix

package main

// canPause reports whether processes can be stopped for a while.
const canPause = false

func (*process) pause() error  { return nil }
func (*process) resume() error { return nil }
