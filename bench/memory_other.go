//go:build !linux

package main

func residentMemory() (now, peak int64) { return -1, -1 }

func dropCache(string) {}
