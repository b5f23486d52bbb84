//go:build !linux

package main

import "testing"

func newNetwork(t *testing.T, listen []string) (network, error) { return newLinks(t, listen) }
